"""`weak-signal`: below one strength until at or above another; what lies between says nothing."""

from collections.abc import Callable, Iterable

from events.records import RackReading
from events.rules import WeakSignal
from producer.rule_oracles.rows import Row, alert, evidence, in_order


def weak_signal_alerts(readings: Iterable[RackReading], rule_of: Callable[[str], WeakSignal]) -> list[Row]:
    """Return the alerts of readings in the order in which the topic holds them, in that order."""
    latest: dict[str, RackReading] = {}
    states: dict[str, str] = {}
    alerts = []
    for reading in readings:
        rack_id, rule = reading.rack_id, rule_of(reading.rack_id)
        if rule.below <= reading.signal_strength < rule.clear_at:
            continue
        if rack_id not in latest or in_order(reading) > in_order(latest[rack_id]):
            latest[rack_id] = reading
        deciding = latest[rack_id]
        state = "WARNING" if deciding.signal_strength < rule.below else "NORMAL"
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
                    [{**evidence(deciding), "signal_strength": deciding.signal_strength}],
                )
            )
    return alerts
