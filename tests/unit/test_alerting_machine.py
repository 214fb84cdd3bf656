"""Any history of alerts, commands, kills and waiting keeps what alerting promises of states and notices."""

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from alerting.life import Times
from alerting.notices import OPEN_KINDS, SEVERITIES
from events.records import Alert, AlertCommand, encode
from events.times import to_ms, to_text
from tests.alerting import HOUR, MINUTE, SECOND, T0, World, new_alert, new_command

SITE = "site-1"
KEYS = (("rack-overheating", "rack-1"), ("rack-overheating", "rack-2"), ("site-outage", SITE))
TIMES = Times(flap_changes=4, flap_window_ms=10 * MINUTE)
key = st.sampled_from(KEYS)
severity = st.sampled_from(("warning", "error", "critical"))


class KilledError(Exception):
    """Stands for the end of the process before a commit."""


@dataclass
class Expected:
    """What the machine knows of one rule and subject, by the documentation's words alone."""

    firing: Alert | None = None
    severity: str = "info"
    acked: dict[str, int] = field(default_factory=dict)  # the highest severity acknowledged of each incident
    silenced_until_ms: dict[str, int] = field(default_factory=dict)  # by the subject that was named
    alerts: int = 0
    incidents: int = 0
    repeats: int = 0
    hushed: bool = False  # some alert may have come and gone while nobody wanted to hear of it

    def status(self, now_ms: int) -> str:
        """Return the state that an operator is to see."""
        if self.firing is None:
            return "resolved"
        if any(until_ms > now_ms for until_ms in self.silenced_until_ms.values()):
            return "silenced"
        acked = self.acked.get(self.firing.alert_id, -1)
        return "acknowledged" if acked >= SEVERITIES.index(self.severity) else "firing"


class Life(RuleBasedStateMachine):
    """Alerting's database on a clock, beside what is expected of it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name) / "db", TIMES)
        self.expected = {each: Expected() for each in KEYS}
        self.sent: list[tuple[tuple[str, str], Alert]] = []

    def teardown(self) -> None:
        """End the history: see that all of it was told."""
        self.all_is_told_in_the_end()
        self.world.close()
        self.folder.cleanup()

    @rule(key=key, state=st.sampled_from(("WARNING", "NORMAL")), severity=severity, killed=st.booleans())
    def alert(self, key: tuple[str, str], state: str, severity: str, killed: bool) -> None:
        """Let an alert come; perhaps a process was killed before that had taken another, which is never heard of."""
        rule_name, subject = key
        expected = self.expected[key]
        if killed:
            with pytest.raises(KilledError), self.world.store.transaction():
                self.world.number += 1
                severity_of_it = severity if state == "WARNING" else "info"
                lost = new_alert(
                    self.world.number, self.world.now_ms, subject, state, severity_of_it, rule=rule_name
                )
                self.world.take(encode(lost))
                raise KilledError
            self.world.restart()
        sent = self.world.alert(subject, state, severity, rule=rule_name)
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
        """Let an alert come again."""
        key, alert = data.draw(st.sampled_from(self.sent))
        self.world.send(encode(alert))
        self.expected[key].repeats += 1

    @rule(key=key, severity=severity)
    def ack(self, key: tuple[str, str], severity: str) -> None:
        """Acknowledge what fires, with some severity."""
        expected = self.expected[key]
        if expected.firing is None:
            return
        alert_id = expected.firing.alert_id
        self.world.command("ack", key[1], rule=key[0], alert_id=alert_id, severity=severity)
        rank = SEVERITIES.index(severity)
        expected.acked[alert_id] = max(rank, expected.acked.get(alert_id, -1))

    @rule(key=key, of_site=st.booleans(), for_ms=st.sampled_from((SECOND, 3 * MINUTE, 6 * HOUR)))
    def silence(self, key: tuple[str, str], of_site: bool, for_ms: int) -> None:
        """Silence a subject or its site."""
        subject = SITE if of_site else key[1]
        self.world.silence(for_ms, subject, rule=key[0])
        self._silenced(key[0], subject, self.world.now_ms + for_ms)

    @rule(key=key, of_site=st.booleans())
    def unsilence(self, key: tuple[str, str], of_site: bool) -> None:
        """End a silence, or one that is not there."""
        subject = SITE if of_site else key[1]
        self.world.command("unsilence", subject, rule=key[0])
        self._silenced(key[0], subject, 0)

    def _silenced(self, rule_name: str, subject: str, until_ms: int) -> None:
        for (other_rule, other), expected in self.expected.items():
            if other_rule == rule_name and subject in (other, SITE):
                expected.silenced_until_ms[subject] = until_ms

    @rule(for_ms=st.sampled_from((1, 10 * SECOND, 30 * SECOND, 5 * MINUTE, 20 * MINUTE, 5 * HOUR)))
    def wait(self, for_ms: int) -> None:
        """Let time pass."""
        self.world.wait(for_ms)

    @rule()
    def restart(self) -> None:
        """End the process and start the next."""
        self.world.restart()

    @invariant()
    def states_are_as_expected(self) -> None:
        """Hold states, numbers of incidents and repeats to what is expected."""
        incidents = self.world.incidents()
        last = {(each.rule, each.subject): str(each.status) for each in reversed(incidents)}
        now_ms = self.world.now_ms
        assert last == {
            key: expected.status(now_ms) for key, expected in self.expected.items() if expected.incidents
        }
        counted = Counter((each.rule, each.subject) for each in incidents)
        repeats = sum(each.repeats for each in incidents)
        assert repeats == sum(expected.repeats for expected in self.expected.values())
        assert counted == Counter(
            {key: each.incidents for key, each in self.expected.items() if each.incidents}
        )

    @invariant()
    def every_alert_is_told_once_or_still_to_be_told_unless_nobody_wanted_to_hear(self) -> None:
        """Account for each alert."""
        outage = self.expected["site-outage", SITE]
        for key, expected in self.expected.items():
            quiet = outage.firing is not None and key[0] != "site-outage"
            expected.hushed |= quiet or any(
                until > self.world.now_ms for until in expected.silenced_until_ms.values()
            )
        told = Counter(
            {
                key: sum(
                    item.changes
                    for notice in self.world.notices
                    for item in notice.items
                    if (item.rule, item.subject) == key
                )
                for key in KEYS
            }
        )
        for key, expected in self.expected.items():
            accounted = told[key] + self.world.untold(*key)
            assert accounted <= expected.alerts
            assert expected.hushed or accounted == expected.alerts

    @invariant()
    def notices_keep_their_distance(self) -> None:
        """Hold the wait and the interval."""
        made = [to_ms(notice.made_time) for notice in self.world.notices]
        assert all(later - earlier >= TIMES.group_interval_ms for earlier, later in pairwise(made))
        assert not made or made[0] >= T0 + TIMES.group_wait_ms

    @invariant()
    def who_reads_the_notices_knows_what_is_open(self) -> None:
        """Read all notices from the first."""
        self.open_by_notices()

    def open_by_notices(self) -> dict[tuple[str, str], str]:
        """Return what is open by the notices alone, with its severity; each has to follow from those before."""
        known: dict[tuple[str, str], str] = {}
        for notice in self.world.notices:
            for item in notice.items:
                key = item.rule, item.subject
                if item.kind in OPEN_KINDS:
                    assert item.kind in ("firing", "flapping") or key in known
                    assert item.was in (None, known.get(key))
                    known[key] = item.severity
                elif item.kind == "resolved":
                    assert item.severity == known.pop(key)
                else:
                    assert key not in known
            assert notice.open_count == len(known)
            assert notice.severity == max(known.values(), key=SEVERITIES.index, default="info")
        return known

    def all_is_told_in_the_end(self) -> None:
        """End what keeps quiet, let a day pass, and see that people know what fires and nothing else."""
        for rule_name, subject in {*KEYS, ("rack-overheating", SITE)}:
            self.world.command("unsilence", subject, rule=rule_name)
            self._silenced(rule_name, subject, 0)
        if self.expected["site-outage", SITE].firing:
            self.world.alert(SITE, "NORMAL", rule="site-outage")
            self.expected["site-outage", SITE].firing = None
        self.world.wait(24 * HOUR)
        known = self.open_by_notices()
        for key, expected in self.expected.items():
            status = expected.status(self.world.now_ms)
            if status == "resolved":
                assert key not in known
            if status == "firing":
                assert SEVERITIES.index(known[key]) >= SEVERITIES.index(expected.severity)


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Alert], list[AlertCommand]]:
    """Return what two topics hold about one rack: alerts, and commands that people gave in between."""
    alerts: list[Alert] = []
    commands: list[AlertCommand] = []
    incident: Alert | None = None
    for number, what in enumerate(
        draw(st.lists(st.sampled_from(("W", "N", "ack", "bare", "quiet", "loud")), max_size=14))
    ):
        moment_ms = T0 + number * MINUTE
        if what in ("W", "N"):
            state = "WARNING" if what == "W" else "NORMAL"
            alert = new_alert(number, moment_ms, "rack-1", state, draw(severity) if what == "W" else "info")
            alerts.append(alert)
            incident = (incident or alert) if what == "W" else None
        elif what == "ack" and incident is not None:
            named = {"alert_id": incident.alert_id, "severity": draw(severity)}
            commands.append(new_command(number, moment_ms, "ack", "rack-1", **named))
        elif what == "bare":
            commands.append(new_command(number, moment_ms, "ack", "rack-1"))
        elif what == "quiet":
            until = to_text(moment_ms + draw(st.sampled_from((MINUTE, 2 * HOUR))))
            commands.append(new_command(number, moment_ms, "silence", "rack-1", until=until))
        elif what == "loud":
            commands.append(new_command(number, moment_ms, "unsilence", "rack-1"))
    return alerts, commands


@settings(max_examples=60, deadline=None)
@given(history=histories(), turns=st.lists(st.booleans(), min_size=28, max_size=28))
def test_processes_that_read_the_two_topics_at_different_speeds_agree(
    history: tuple[list[Alert], list[AlertCommand]], turns: list[bool]
) -> None:
    alerts, commands = history
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        for number, order in enumerate((turns, [True] * 28, [False] * 28)):
            world = World(Path(folder) / str(number))
            world.now_ms = T0 + HOUR
            left_alerts, left_commands = list(alerts), list(commands)
            for take_alert in [*order, *[True] * 28, *[False] * 28]:
                if take_alert and left_alerts:
                    world.send(encode(left_alerts.pop(0)))
                elif not take_alert and left_commands:
                    world.send_command(encode(left_commands.pop(0)))
            seen.append(world.incidents())
            world.close()
    assert seen[0] == seen[1] == seen[2]
