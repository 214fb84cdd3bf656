"""Any history of alerts, commands, kills and pauses keeps the guarantees of docs/alerting.md."""

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from alerting.incidents.state import NotificationTiming
from alerting.notifications.notice import OPEN_KINDS, SEVERITIES
from events.records import Alert, AlertCommand, encode
from events.times import to_ms, to_text
from tests.alerting import HOUR, MINUTE, SECOND, T0, AlertingSimulation
from tests.builders import new_alert, new_command
from tests.support import examples

SITE = "site-1"
KEYS = (("rack-overheating", "rack-1"), ("rack-overheating", "rack-2"), ("site-outage", SITE))
TIMING = NotificationTiming(flap_changes=4, flap_window_ms=10 * MINUTE)
key = st.sampled_from(KEYS)
severity = st.sampled_from(("warning", "error", "critical"))


class KilledError(Exception):
    """Simulates a kill before a commit."""


@dataclass
class Expected:
    """The expected state of one rule and subject, derived from the documentation alone."""

    firing: Alert | None = None
    severity: str = "info"
    acked: dict[str, int] = field(
        default_factory=dict
    )  # the highest severity acknowledged of each incident
    silenced_until_ms: dict[str, int] = field(default_factory=dict)  # by the subject that was named
    alerts: int = 0
    incidents: int = 0
    repeats: int = 0
    may_be_unnotified: bool = False  # an incident may have begun and ended while suppressed

    def status(self, now_ms: int) -> str:
        """Return the status that an operator should see."""
        if self.firing is None:
            return "resolved"
        if any(until_ms > now_ms for until_ms in self.silenced_until_ms.values()):
            return "silenced"
        acked = self.acked.get(self.firing.alert_id, -1)
        return "acknowledged" if acked >= SEVERITIES.index(self.severity) else "firing"


class IncidentHistory(RuleBasedStateMachine):
    """Random steps on a simulated alerting process, beside its expected state."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.sim = AlertingSimulation(Path(self.folder.name) / "db", TIMING)
        self.expected = {each: Expected() for each in KEYS}
        self.sent: list[tuple[tuple[str, str], Alert]] = []
        self.topic: dict[bytes, bytes] = {}

    def teardown(self) -> None:
        """Check at the end of the history that everything was notified."""
        self.everything_is_notified_in_the_end()
        self.sim.close()
        self.folder.cleanup()

    @rule(
        key=key,
        state=st.sampled_from(("WARNING", "NORMAL")),
        severity=severity,
        killed=st.booleans(),
    )
    def alert(self, key: tuple[str, str], state: str, severity: str, killed: bool) -> None:
        """Send an alert, perhaps after a kill that rolls another one back."""
        rule_name, subject = key
        expected = self.expected[key]
        if killed:
            with pytest.raises(KilledError), self.sim.store.transaction():
                self.sim.number += 1
                lost_severity = severity if state == "WARNING" else "info"
                lost = new_alert(
                    self.sim.number,
                    self.sim.now_ms,
                    subject,
                    state,
                    lost_severity,
                    rule=rule_name,
                )
                self.sim.ingest(encode(lost))
                raise KilledError
            self.sim.restart()
        sent = self.sim.alert(subject, state, severity, rule=rule_name)
        if state == "WARNING" or expected.firing is not None:
            self.sent.append((key, sent))
        if state == "WARNING":
            expected.incidents += expected.firing is None
            expected.firing = expected.firing or sent
            expected.severity = severity
            expected.alerts += 1
        elif expected.firing is not None:
            expected.firing = None
            expected.alerts += 1

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """Send an alert again."""
        key, alert = data.draw(st.sampled_from(self.sent))
        self.sim.send(encode(alert))
        self.expected[key].repeats += 1

    @rule(key=key, severity=severity)
    def ack(self, key: tuple[str, str], severity: str) -> None:
        """Acknowledge the open incident, with any severity."""
        expected = self.expected[key]
        if expected.firing is None:
            return
        alert_id = expected.firing.alert_id
        self.sim.command("ack", key[1], rule=key[0], alert_id=alert_id, severity=severity)
        rank = SEVERITIES.index(severity)
        expected.acked[alert_id] = max(rank, expected.acked.get(alert_id, -1))

    @rule(key=key, of_site=st.booleans(), for_ms=st.sampled_from((SECOND, 3 * MINUTE, 6 * HOUR)))
    def silence(self, key: tuple[str, str], of_site: bool, for_ms: int) -> None:
        """Silence a subject or its site."""
        subject = SITE if of_site else key[1]
        self.sim.silence(for_ms, subject, rule=key[0])
        self._silenced(key[0], subject, self.sim.now_ms + for_ms)

    @rule(key=key, of_site=st.booleans())
    def unsilence(self, key: tuple[str, str], of_site: bool) -> None:
        """End a silence, whether or not there is one."""
        subject = SITE if of_site else key[1]
        self.sim.command("unsilence", subject, rule=key[0])
        self._silenced(key[0], subject, 0)

    def _silenced(self, rule_name: str, subject: str, until_ms: int) -> None:
        for (other_rule, other), expected in self.expected.items():
            if other_rule == rule_name and subject in (other, SITE):
                expected.silenced_until_ms[subject] = until_ms

    @rule(for_ms=st.sampled_from((1, 10 * SECOND, 30 * SECOND, 5 * MINUTE, 20 * MINUTE, 15 * HOUR)))
    def wait(self, for_ms: int) -> None:
        """Advance the clock."""
        self.sim.wait(for_ms)

    @rule()
    def restart(self) -> None:
        """Restart the process."""
        self.sim.restart()

    @invariant()
    def states_are_as_expected(self) -> None:
        """Compare states, incidents and repeats with the expected ones."""
        incidents = self.sim.incidents()
        last = {(each.rule, each.subject): str(each.status) for each in reversed(incidents)}
        now_ms = self.sim.now_ms
        assert last == {
            key: expected.status(now_ms)
            for key, expected in self.expected.items()
            if expected.incidents
        }
        counted = Counter((each.rule, each.subject) for each in incidents)
        repeats = sum(each.repeats for each in incidents)
        assert repeats == sum(expected.repeats for expected in self.expected.values())
        assert counted == Counter(
            {key: each.incidents for key, each in self.expected.items() if each.incidents}
        )

    @invariant()
    def the_topic_has_the_last_incidents(self) -> None:
        """Publish what is marked as changed, and compare the topic with all incidents."""
        self.sim.publish(self.topic)
        assert self.topic == self.sim.expected_topic()

    @invariant()
    def every_alert_is_in_one_notice_or_pending_unless_suppressed(self) -> None:
        """Count each alert in the notices or as pending."""
        outage = self.expected["site-outage", SITE]
        for key, expected in self.expected.items():
            quiet = outage.firing is not None and key[0] != "site-outage"
            expected.may_be_unnotified |= quiet or any(
                until > self.sim.now_ms for until in expected.silenced_until_ms.values()
            )
        notified = Counter(
            {
                key: sum(
                    item.changes
                    for notice in self.sim.notices
                    for item in notice.items
                    if (item.rule, item.subject) == key
                )
                for key in KEYS
            }
        )
        for key, expected in self.expected.items():
            accounted = notified[key] + self.sim.pending_changes(*key)
            assert accounted <= expected.alerts
            assert expected.may_be_unnotified or accounted == expected.alerts

    @invariant()
    def notices_respect_group_wait_and_interval(self) -> None:
        """Check the times of all notices."""
        made = [to_ms(notice.created_time) for notice in self.sim.notices]
        assert all(later - earlier >= TIMING.group_interval_ms for earlier, later in pairwise(made))
        assert not made or made[0] >= T0 + TIMING.group_wait_ms

    @invariant()
    def the_notices_alone_say_what_is_open(self) -> None:
        """Read all notices in order."""
        self.open_by_notices()

    def open_by_notices(self) -> dict[tuple[str, str], str]:
        """Return the open incidents and severities that the notices, read in order, leave."""
        known: dict[tuple[str, str], str] = {}
        for notice in self.sim.notices:
            for item in notice.items:
                key = item.rule, item.subject
                if item.kind in OPEN_KINDS:
                    assert item.kind in ("firing", "flapping") or key in known
                    assert item.previous_severity in (None, known.get(key))
                    known[key] = item.severity
                elif item.kind == "resolved":
                    assert item.severity == known.pop(key)
                else:
                    assert key not in known
            assert notice.open_count == len(known)
            assert notice.severity == max(known.values(), key=SEVERITIES.index, default="info")
        return known

    def everything_is_notified_in_the_end(self) -> None:
        """End all suppressions, wait a day, and check that people know all open incidents."""
        for rule_name, subject in {*KEYS, ("rack-overheating", SITE)}:
            self.sim.command("unsilence", subject, rule=rule_name)
            self._silenced(rule_name, subject, 0)
        if self.expected["site-outage", SITE].firing:
            self.sim.alert(SITE, "NORMAL", rule="site-outage")
            self.expected["site-outage", SITE].firing = None
        self.sim.wait(24 * HOUR)
        known = self.open_by_notices()
        for key, expected in self.expected.items():
            status = expected.status(self.sim.now_ms)
            if status == "resolved":
                assert key not in known
            if status == "firing":
                assert SEVERITIES.index(known[key]) >= SEVERITIES.index(expected.severity)


TestIncidentHistory = IncidentHistory.TestCase
TestIncidentHistory.settings = settings(
    examples(60),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Alert], list[AlertCommand]]:
    """Return the records of both topics about one rack: alerts, and commands in between."""
    alerts: list[Alert] = []
    commands: list[AlertCommand] = []
    incident: Alert | None = None
    for number, what in enumerate(
        draw(
            st.lists(
                st.sampled_from(
                    ("WARNING", "NORMAL", "ack", "ack without id", "silence", "unsilence")
                ),
                max_size=14,
            )
        )
    ):
        moment_ms = T0 + number * MINUTE
        if what in ("WARNING", "NORMAL"):
            state = what
            alert = new_alert(
                number, moment_ms, "rack-1", state, draw(severity) if what == "WARNING" else "info"
            )
            alerts.append(alert)
            incident = (incident or alert) if what == "WARNING" else None
        elif what == "ack" and incident is not None:
            named = {"alert_id": incident.alert_id, "severity": draw(severity)}
            commands.append(new_command(number, moment_ms, "ack", "rack-1", **named))
        elif what == "ack without id":
            commands.append(new_command(number, moment_ms, "ack", "rack-1"))
        elif what == "silence":
            until = to_text(moment_ms + draw(st.sampled_from((MINUTE, 2 * HOUR))))
            commands.append(new_command(number, moment_ms, "silence", "rack-1", until=until))
        elif what == "unsilence":
            commands.append(new_command(number, moment_ms, "unsilence", "rack-1"))
    return alerts, commands


@examples(60)
@given(history=histories(), turns=st.lists(st.booleans(), min_size=28, max_size=28))
def test_processes_that_read_the_two_topics_at_different_speeds_agree(
    history: tuple[list[Alert], list[AlertCommand]], turns: list[bool]
) -> None:
    alerts, commands = history
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        for number, order in enumerate((turns, [True] * 28, [False] * 28)):
            sim = AlertingSimulation(Path(folder) / str(number))
            sim.now_ms = T0 + HOUR
            left_alerts, left_commands = list(alerts), list(commands)
            for take_alert in [*order, *[True] * 28, *[False] * 28]:
                if take_alert and left_alerts:
                    sim.send(encode(left_alerts.pop(0)))
                elif not take_alert and left_commands:
                    sim.send_command(encode(left_commands.pop(0)))
            seen.append(sim.incidents())
            sim.close()
    assert seen[0] == seen[1] == seen[2]
