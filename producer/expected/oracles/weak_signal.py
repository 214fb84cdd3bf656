"""Compute the alerts of `weak-signal`: below one strength, until at or above another.

A strength between the two changes nothing.
"""

from collections.abc import Callable, Iterable

from events.records import RackReading
from events.rules import WeakSignal
from producer.expected.oracles.rows import Row, alert, evidence, sequence_key


def weak_signal_alerts(
    readings: Iterable[RackReading], rule_for: Callable[[str], WeakSignal]
) -> list[Row]:
    """Return the alerts of readings that are in the topic's order, in that order."""
    latest: dict[str, RackReading] = {}
    states: dict[str, str] = {}
    alerts = []
    for reading in readings:
        rack_id, rule = reading.rack_id, rule_for(reading.rack_id)
        if rule.below <= reading.signal_strength < rule.clear_at:
            continue
        if rack_id not in latest or sequence_key(reading) > sequence_key(latest[rack_id]):
            latest[rack_id] = reading
        trigger = latest[rack_id]
        state = "WARNING" if trigger.signal_strength < rule.below else "NORMAL"
        if state != states.get(rack_id, "NORMAL"):
            states[rack_id] = state
            alerts.append(
                alert(
                    rule.name,
                    rack_id,
                    reading.site_id,
                    state,
                    rule.severity_of(None),
                    reading.event_time,
                    reading.event_id,
                    [{**evidence(trigger), "signal_strength": trigger.signal_strength}],
                )
            )
    return alerts
