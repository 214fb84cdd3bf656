"""Define the topics of the contract (`docs/contract.md`): name, partitions, the record in each."""

from dataclasses import dataclass

import msgspec

from events import records

TOPIC_CONFIG = {"message.timestamp.type": "LogAppendTime"}
"""Append time orders a subject's records, and silence is measured by it."""
COMPACTED_CONFIG = TOPIC_CONFIG | {"cleanup.policy": "compact", "segment.ms": "3600000"}
"""Only the last record per key counts.

The broker compacts closed segments only, hence one segment per hour.
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's name without prefix, its record (None: as its input) and partition count.

    In a compacted topic the last record per key counts, and one without a value removes the key.
    """

    name: str
    record: type[msgspec.Struct] | None
    partitions: int = 4
    compacted: bool = False

    @property
    def config(self) -> dict[str, str]:
        """The topic's settings on the broker."""
        return COMPACTED_CONFIG if self.compacted else TOPIC_CONFIG


RACK_READINGS = Topic("rack-readings", records.RackReading)
AD_IMPRESSIONS = Topic("ad-impressions", records.AdImpression)
AD_CLICKS = Topic("ad-clicks", records.AdClick)
USER_ACTIONS = Topic("user-actions", records.UserAction)
ALERT_COMMANDS = Topic("alert-commands", records.AlertCommand)
RACK_TEMPERATURE = Topic("rack-temperature", records.RackTemperature)
ALERTS = Topic("alerts", records.Alert)
AD_ATTRIBUTION = Topic("ad-attribution", records.AdAttribution)
ACTION_COUNTS = Topic("action-counts", records.ActionCount)
USER_SESSIONS = Topic("user-sessions", records.UserSession)
USER_TOTALS = Topic("user-totals", records.UserTotal)
DISTINCT_EVENTS = Topic("distinct-events", None)
SIGNAL_STATISTICS = Topic("signal-statistics", records.SignalStatistics)
INCIDENTS = Topic("incidents", records.Incident, compacted=True)
DEAD_LETTERS = Topic("dead-letters", records.DeadLetter, partitions=1)

ALL = (
    RACK_READINGS,
    AD_IMPRESSIONS,
    AD_CLICKS,
    USER_ACTIONS,
    ALERT_COMMANDS,
    RACK_TEMPERATURE,
    ALERTS,
    AD_ATTRIBUTION,
    ACTION_COUNTS,
    USER_SESSIONS,
    USER_TOTALS,
    DISTINCT_EVENTS,
    SIGNAL_STATISTICS,
    INCIDENTS,
    DEAD_LETTERS,
)

EVENT_TOPICS = tuple(
    topic for topic in ALL if topic.record and issubclass(topic.record, records.Event)
)
"""The topics of what happened, to which the producer writes."""
