"""Define the contract's numbers, each once: jobs and oracles share them.

Durations are `timedelta`: `events.times.to_interval` writes one as Spark reads it ("10 minutes"),
`events.times.duration_ms` gives its milliseconds.
"""

from datetime import timedelta

WINDOW = timedelta(minutes=10)
"""Length of a window of `rack-temperature` and `action-counts`."""
WINDOW_SLIDE = timedelta(minutes=5)
"""Time between the starts of two windows of `rack-temperature`."""
SIGNAL_WINDOW = timedelta(minutes=1)
"""Length of a window of `signal-statistics`."""
FLEET_SCOPE = "fleet"
"""The scope of the rows of `rack-temperature` over all racks."""
CLOSED_WINDOW_HEADER = ("window-state", b"closed")
"""The header of a window's record in append mode: no later record replaces it."""

WATERMARK = timedelta(minutes=10)
"""How late an event may be, where a job has no watermark of its own."""
LOST_SIGNAL_WATERMARK = timedelta(seconds=30)
"""How late a reading may be for the rule `lost-signal`."""
IMPRESSIONS_WATERMARK = timedelta(hours=2)
CLICKS_WATERMARK = timedelta(hours=3)
FUTURE_TOLERANCE = timedelta(minutes=5)
"""How far an event may lie ahead of its append time before event-time jobs leave it out."""

DEFAULT_THRESHOLD_C = 100.0
"""The overheating threshold of a rack that the inventory does not name."""
DEFAULT_SEVERITY = "error"
"""That of a `WARNING` for which neither its rule nor the inventory names one."""
CONSECUTIVE_READINGS = 3
"""How many consecutive readings at or above the threshold are an overheating."""
SILENT_AFTER = timedelta(seconds=30)
"""A rack without a reading for longer is silent, unless its rule says otherwise."""

CLICK_WITHIN = timedelta(hours=1)
"""How long after its impression a click still joins, both ends included."""
SESSION_GAP = timedelta(minutes=30)
"""How long after its last action a session ends."""
TOTAL_EXPIRES_AFTER = timedelta(hours=1)
"""How long after its last purchase a user's total expires, where totals expire.

It is longer than `SESSION_GAP`, so no session has purchases in two totals.
"""

RESOLVED_INCIDENT_RETENTION = timedelta(days=1)
"""How long the topic `incidents` keeps an incident after it was resolved."""
