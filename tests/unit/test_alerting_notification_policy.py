"""Which notice a site gets, from the states of its incidents and the time alone."""

from msgspec.structs import replace

from alerting.incidents.notification_policy import decide
from alerting.incidents.state import (
    IncidentState,
    LastNotification,
    NotificationTiming,
    RecordPosition,
    Suppression,
    apply_alert,
)
from tests.alerting import HOUR, MINUTE, T0
from tests.builders import new_alert

TIMING = NotificationTiming()


def open_incident(subject: str) -> IncidentState:
    """Return an incident that was opened and notified at `T0`."""
    alert = new_alert(1, T0, subject, "WARNING", "error")
    incident = apply_alert(None, alert, RecordPosition(0, T0), T0, TIMING)
    assert incident is not None
    last = LastNotification(incident.alert_id, "error", T0, flapping=False)
    return replace(incident, pending_changes=0, last_notification=last)


def test_a_flapping_incident_is_reminded_of_only_while_it_is_open() -> None:
    now_ms = T0 + 4 * HOUR
    flapping_ms = now_ms - MINUTE
    still_open, flapping = open_incident("rack-1"), open_incident("rack-2")
    flapping = replace(
        flapping,
        change_times_ms=(flapping_ms,) * TIMING.flap_changes,
        last_notification=LastNotification(flapping.alert_id, "error", flapping_ms, flapping=True),
    )
    for firing, reminded in ((True, ["rack-1", "rack-2"]), (False, ["rack-1"])):
        incidents = [still_open, replace(flapping, firing=firing)]
        decision = decide("site-1", [(each, Suppression()) for each in incidents], now_ms, TIMING)
        assert decision.notice is not None
        assert [(item.kind, item.subject) for item in decision.notice.items] == [
            ("reminder", subject) for subject in reminded
        ]
