"""How alerts and commands change incidents, and which notices follow, on a simulated clock."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from alerting.incidents.state import NotificationTiming
from events.records import encode
from events.times import to_text
from tests.alerting import HOUR, MINUTE, SECOND, T0, AlertingSimulation, notified
from tests.builders import new_alert, new_command

OUTAGE = {"rule": "site-outage"}


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[AlertingSimulation]:
    """Return a simulation without alerts, at 06:26."""
    sim = AlertingSimulation(tmp_path / "db")
    yield sim
    sim.close()


def test_alerts_of_a_site_within_the_group_wait_share_one_notice(
    sim: AlertingSimulation,
) -> None:
    sim.alert("rack-1")
    assert sim.wait(20 * SECOND) == []
    sim.alert("rack-2")
    assert sim.wait(9 * SECOND) == []
    assert notified(sim.wait(1 * SECOND)) == [["firing rack-1", "firing rack-2"]]
    assert sim.wait(HOUR) == []


def test_each_site_has_its_own_notice(sim: AlertingSimulation) -> None:
    sim.alert("rack-1", site_id="north")
    sim.alert("rack-2", site_id="south")
    notices = sim.wait(30 * SECOND)
    assert {notice.site_id: notified([notice]) for notice in notices} == {
        "north": [["firing rack-1"]],
        "south": [["firing rack-2"]],
    }


def test_later_alerts_wait_for_the_group_interval(sim: AlertingSimulation) -> None:
    sim.alert("rack-1")
    sim.wait(30 * SECOND)
    sim.alert("rack-2")
    sim.wait(1 * MINUTE)
    sim.alert("rack-3")
    assert sim.wait(4 * MINUTE - 1) == []
    assert notified(sim.wait(1)) == [["firing rack-2", "firing rack-3"]]


def test_after_the_group_interval_an_alert_waits_only_for_the_group_wait(
    sim: AlertingSimulation,
) -> None:
    sim.alert("rack-1")
    sim.wait(HOUR)
    sim.alert("rack-2")
    assert sim.wait(30 * SECOND - 1) == []
    assert notified(sim.wait(1)) == [["firing rack-2"]]


def test_the_end_of_a_notified_incident_is_notified(sim: AlertingSimulation) -> None:
    first = sim.alert()
    assert [notice.open_count for notice in sim.wait(10 * MINUTE)] == [1]
    sim.alert(state="NORMAL")
    [notice] = sim.wait(30 * SECOND)
    [item] = notice.items
    assert (item.kind, item.alert_id, item.end_time) == (
        "resolved",
        first.alert_id,
        to_text(sim.now_ms - 30_000),
    )
    assert (notice.open_count, notice.severity) == (0, "info")
    assert sim.status() == "resolved"
    assert sim.wait(24 * HOUR) == []


def test_an_incident_resolved_before_its_notice_is_notified_once(
    sim: AlertingSimulation,
) -> None:
    sim.alert()
    sim.wait(10 * SECOND)
    sim.alert(state="NORMAL")
    [notice] = sim.wait(HOUR)
    assert notified([notice]) == [["resolved_unnotified rack-1"]]
    assert (notice.items[0].changes, notice.open_count) == (2, 0)


def test_a_normal_alert_without_a_warning_opens_no_incident(sim: AlertingSimulation) -> None:
    sim.alert(state="NORMAL")
    assert sim.incidents() == [] and sim.wait(HOUR) == []


def test_one_reminder_after_four_hours_lists_all_open_incidents(sim: AlertingSimulation) -> None:
    sim.alert("rack-1")
    sim.wait(30 * SECOND)
    sim.alert("rack-2")
    sim.wait(4 * HOUR - 1)
    assert notified(sim.notices) == [["firing rack-1"], ["firing rack-2"]]
    assert notified(sim.wait(1)) == [["reminder rack-1", "reminder rack-2"]]
    assert notified(sim.wait(4 * HOUR)) == [["reminder rack-1", "reminder rack-2"]]


def test_a_higher_severity_is_notified_again_and_a_lower_one_is_not(
    sim: AlertingSimulation,
) -> None:
    sim.alert(severity="error")
    sim.wait(HOUR)
    sim.alert(severity="critical")
    [notice] = sim.wait(HOUR)
    assert [(item.kind, item.severity, item.previous_severity) for item in notice.items] == [
        ("escalated", "critical", "error")
    ]
    sim.alert(severity="error")
    assert sim.wait(HOUR) == []
    sim.alert(severity="critical")
    assert sim.wait(HOUR) == []
    assert len(sim.incidents()) == 1


def test_flapping_is_notified_once_and_then_its_end(sim: AlertingSimulation) -> None:
    for _ in range(20):
        sim.alert(state="WARNING")
        sim.wait(1 * MINUTE)
        sim.alert(state="NORMAL")
        sim.wait(1 * MINUTE)
    kinds = [item.kind for notice in sim.notices for item in notice.items]
    assert kinds.count("flapping") == 1
    assert "firing" not in kinds[kinds.index("flapping") :]
    sim.wait(13 * MINUTE)
    assert len(sim.notices) == len(kinds)
    assert notified(sim.wait(1 * MINUTE)) == [["resolved rack-1"]]
    assert sum(item.changes for notice in sim.notices for item in notice.items) == 40


def test_an_incident_that_stops_flapping_while_open_is_notified_as_firing(
    sim: AlertingSimulation,
) -> None:
    for state in ("WARNING", "NORMAL") * 3 + ("WARNING",):
        sim.alert(state=state)
    assert notified(sim.wait(15 * MINUTE - 1)) == [["flapping rack-1"]]
    assert notified(sim.wait(1)) == [["firing rack-1"]]


def test_flapping_can_be_switched_off(tmp_path: Path) -> None:
    sim = AlertingSimulation(tmp_path / "db", NotificationTiming(flap_changes=0))
    for state in ("WARNING", "NORMAL") * 10 + ("WARNING",):
        sim.alert(state=state)
    assert notified(sim.wait(HOUR)) == [["firing rack-1"]]
    sim.close()


def test_an_acknowledgement_survives_restarts_but_not_the_end_of_its_incident(
    sim: AlertingSimulation,
) -> None:
    first = sim.alert()
    sim.wait(1 * HOUR)
    sim.ack(first)
    sim.restart()
    assert sim.status() == "acknowledged"
    assert sim.wait(12 * HOUR) == []
    sim.alert(state="NORMAL")
    assert notified(sim.wait(1 * HOUR)) == [["resolved rack-1"]]
    sim.restart()
    assert [each.acknowledged_by for each in sim.incidents()] == ["ada"]
    sim.alert()
    assert sim.status() == "firing"
    assert notified(sim.wait(5 * HOUR)) == [["firing rack-1"], ["reminder rack-1"]]
    assert [each.status for each in sim.incidents()] == [
        "firing",
        "resolved",
    ]


def test_an_incident_acknowledged_before_its_notice_is_not_notified(
    sim: AlertingSimulation,
) -> None:
    sim.ack(sim.alert())
    assert sim.wait(HOUR) == []


def test_an_acknowledgement_covers_the_severity_seen_and_lower_ones(
    sim: AlertingSimulation,
) -> None:
    first = sim.alert(severity="error")
    sim.wait(1 * HOUR)
    sim.ack(first)
    sim.alert(severity="warning")
    assert sim.status() == "acknowledged"
    sim.alert(severity="critical")
    assert sim.status() == "firing"
    assert notified(sim.wait(1 * HOUR)) == [["escalated rack-1"]]
    sim.alert(severity="error")
    assert sim.status() == "acknowledged"


def test_an_acknowledgement_read_before_its_alert_applies_when_the_alert_arrives(
    sim: AlertingSimulation,
) -> None:
    alert = new_alert(99, sim.now_ms, "rack-1", "WARNING", "error")
    sim.ack(alert)
    sim.send(encode(alert))
    assert sim.status() == "acknowledged"


def test_an_acknowledgement_of_an_earlier_incident_does_not_cover_a_later_one(
    sim: AlertingSimulation,
) -> None:
    first = sim.alert()
    sim.alert(state="NORMAL")
    sim.alert()
    sim.ack(first)
    assert sim.status() == "firing"


def test_an_acknowledgement_without_id_covers_what_was_open_at_its_time(
    sim: AlertingSimulation,
) -> None:
    sim.command("ack")
    sim.wait(1 * MINUTE)
    sim.alert()
    assert sim.status() == "firing"
    sim.wait(1 * MINUTE)
    sim.command("ack")
    assert sim.status() == "acknowledged"
    sim.wait(1 * MINUTE)
    sim.alert(severity="critical")
    assert sim.status() == "firing"


def test_an_incident_open_at_the_end_of_its_silence_is_notified_then(
    sim: AlertingSimulation,
) -> None:
    sim.silence(2 * HOUR)
    sim.wait(1 * MINUTE)
    sim.alert()
    assert sim.status() == "silenced"
    assert sim.wait(2 * HOUR - 1 * MINUTE - 1) == []
    assert notified(sim.wait(1)) == [["firing rack-1"]]
    assert sim.status() == "firing"


def test_an_incident_that_begins_and_ends_while_silenced_is_never_notified(
    sim: AlertingSimulation,
) -> None:
    sim.silence(2 * HOUR)
    sim.alert()
    sim.wait(10 * MINUTE)
    sim.alert(state="NORMAL")
    assert sim.wait(24 * HOUR) == []
    assert [each.status for each in sim.incidents()] == ["resolved"]


def test_the_end_of_a_notified_incident_is_notified_despite_a_silence(
    sim: AlertingSimulation,
) -> None:
    sim.alert()
    sim.wait(10 * MINUTE)
    sim.silence(12 * HOUR)
    assert sim.wait(6 * HOUR) == []
    sim.alert(state="NORMAL")
    assert notified(sim.wait(1 * HOUR)) == [["resolved rack-1"]]


def test_a_site_silence_covers_that_rule_for_all_racks_of_the_site(sim: AlertingSimulation) -> None:
    sim.alert("rack-1")
    sim.silence(2 * HOUR, subject="site-1")
    sim.alert("rack-2")
    sim.alert("rack-3", rule="lost-signal")
    sim.alert("rack-4", site_id="site-2")
    assert sorted(notified(sim.wait(1 * HOUR))) == [["firing rack-3"], ["firing rack-4"]]
    sim.command("unsilence", subject="site-1")
    assert notified(sim.wait(30 * SECOND)) == [["firing rack-1", "firing rack-2"]]


def test_a_later_silence_replaces_the_earlier_one(sim: AlertingSimulation) -> None:
    sim.silence(4 * HOUR)
    sim.silence(1 * HOUR)
    sim.alert()
    assert notified(sim.wait(1 * HOUR)) == [["firing rack-1"]]


def test_a_silence_that_has_already_ended_does_nothing(sim: AlertingSimulation) -> None:
    sim.command("silence", until=to_text(sim.now_ms - 1))
    sim.alert()
    assert sim.status() == "firing"


def test_a_site_outage_inhibits_its_racks_until_it_is_resolved(
    sim: AlertingSimulation,
) -> None:
    sim.alert("rack-1", rule="silent-sensor")
    sim.wait(10 * SECOND)
    sim.alert("site-1", **OUTAGE)
    sim.alert("rack-2", rule="silent-sensor")
    sim.alert("rack-9", rule="silent-sensor", site_id="site-2")
    assert sorted(notified(sim.wait(1 * HOUR))) == [["firing rack-9"], ["firing site-1"]]
    assert [each.subject for each in sim.incidents() if each.inhibited] == ["rack-2", "rack-1"]
    sim.alert("rack-2", "NORMAL", rule="silent-sensor")
    sim.wait(1 * MINUTE)
    sim.alert("site-1", "NORMAL", **OUTAGE)
    assert notified(sim.wait(1 * HOUR)) == [["firing rack-1", "resolved site-1"]]
    assert Counter(each.subject for each in sim.incidents()) == Counter(
        ["rack-1", "rack-2", "rack-9", "site-1"]
    )


def test_the_end_of_a_notified_incident_is_notified_despite_an_outage(
    sim: AlertingSimulation,
) -> None:
    sim.alert("rack-1")
    sim.wait(10 * MINUTE)
    sim.alert("site-1", **OUTAGE)
    sim.alert("rack-1", "NORMAL")
    assert notified(sim.wait(1 * HOUR)) == [["firing site-1", "resolved rack-1"]]


def test_a_moved_racks_incident_is_resolved_at_the_site_that_was_notified(
    sim: AlertingSimulation,
) -> None:
    sim.alert(site_id="north")
    sim.wait(10 * MINUTE)
    sim.alert(state="NORMAL", site_id="south")
    sim.alert(site_id="south")
    sim.alert(severity="critical", site_id="south")
    sim.wait(10 * MINUTE)
    sim.alert(state="NORMAL", site_id="south")
    sim.wait(10 * MINUTE)
    assert [(notice.site_id, notice.open_count) for notice in sim.notices] == [("north", 1)] * 2 + [
        ("north", 0)
    ]
    sim.alert(site_id="south")
    assert [notice.site_id for notice in sim.wait(10 * MINUTE)] == ["south"]


def test_repeats_are_counted_for_their_incident(sim: AlertingSimulation) -> None:
    first = sim.alert()
    end = sim.alert(state="NORMAL")
    second = sim.alert()
    for alert in (first, first, end, second, first):
        sim.send(encode(alert))
    sim.restart()
    assert [each.repeats for each in sim.incidents()] == [1, 4]
    assert sim.status() == "firing"
    assert [item.changes for notice in sim.wait(HOUR) for item in notice.items] == [3]


def test_an_earlier_record_of_another_partition_does_not_undo_a_later_one(
    sim: AlertingSimulation,
) -> None:
    late = new_alert(2, sim.now_ms, "rack-1", "WARNING", "error")
    early = new_alert(1, sim.now_ms, "rack-1", "NORMAL", "info")
    sim.send(encode(late), partition=5, timestamp=2000)
    sim.send(encode(early), partition=1, timestamp=1000)
    assert sim.status() == "firing"
    sim.send(
        encode(new_alert(3, sim.now_ms, "rack-1", "NORMAL", "info")), partition=5, timestamp=1500
    )
    assert sim.status() == "resolved"


@pytest.mark.parametrize("earlier", [(), ("WARNING", "NORMAL")])
def test_an_end_that_is_read_before_its_warning_resolves_it(
    sim: AlertingSimulation, earlier: tuple[str, ...]
) -> None:
    """Partitions were added, and the newer one is read first; the incident may be the first."""

    def send(number: int, state: str, partition: int, timestamp: int, level: str = "error") -> str:
        alert = new_alert(number, sim.now_ms, "rack-1", state, level)
        sim.send(encode(alert), partition, timestamp)
        return alert.event_time

    for number, state in enumerate(earlier):
        send(number, state, partition=1, timestamp=500)
    sim.wait(HOUR)
    end = send(12, "NORMAL", partition=5, timestamp=2000)
    sim.restart()
    send(11, "WARNING", partition=1, timestamp=1000)
    send(14, "WARNING", partition=1, timestamp=1001, level="critical")
    newest, *others = sim.incidents()
    assert (newest.status, newest.end_time, newest.severity) == ("resolved", end, "critical")
    assert len(others) == len(earlier) / 2
    assert notified(sim.wait(HOUR)) == [["resolved_unnotified rack-1"]]
    send(13, "WARNING", partition=5, timestamp=1500)
    assert sim.status() == "firing"


def test_earlier_incidents_of_a_new_database_keep_their_own_ends(sim: AlertingSimulation) -> None:
    def send(number: int, state: str, partition: int, timestamp: int) -> str:
        alert = new_alert(number, sim.now_ms + number, "rack-1", state, "error")
        sim.send(encode(alert), partition, timestamp)
        return alert.event_time

    last_end = send(40, "NORMAL", partition=5, timestamp=4000)
    send(10, "WARNING", partition=1, timestamp=1000)
    first_end = send(20, "NORMAL", partition=1, timestamp=2000)
    send(30, "WARNING", partition=1, timestamp=3000)
    assert [each.end_time for each in sim.incidents()] == [last_end, first_end]
    assert sim.status() == "resolved"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_notice_is_not_delayed_when_the_clock_is_set_back(
    sim: AlertingSimulation, restarts: bool
) -> None:
    sim.store.create_due_notices(sim.now_ms)
    sim.alert()
    sim.store.create_due_notices(sim.now_ms)
    sim.now_ms -= 24 * HOUR
    if restarts:
        sim.restart()
    assert sim.store.create_due_notices(sim.now_ms) == []
    assert notified(sim.wait(5 * MINUTE)) == [["firing rack-1"]]


def test_reminders_and_the_end_of_flapping_follow_a_clock_that_was_set_back(
    sim: AlertingSimulation,
) -> None:
    sim.alert()
    sim.wait(MINUTE)
    sim.now_ms -= 24 * HOUR
    assert sim.store.create_due_notices(sim.now_ms) == []
    assert notified(sim.wait(4 * HOUR - MINUTE)) == []
    assert notified(sim.wait(11 * MINUTE)) == [["reminder rack-1"]]
    for _ in range(3):  # at most six changes in six hours: it does not flap
        sim.alert(state="NORMAL")
        sim.wait(HOUR)
        sim.alert()
        sim.wait(HOUR)
    sim.alert(state="NORMAL")
    sim.now_ms -= 24 * HOUR
    assert sim.store.create_due_notices(sim.now_ms) == []
    assert notified(sim.wait(15 * MINUTE)) == [["resolved rack-1"]]


def test_malformed_commands_are_counted_and_skipped(sim: AlertingSimulation) -> None:
    valid = msgspec.to_builtins(new_command(1, T0, "silence", "rack-1", until=to_text(T0 + HOUR)))
    without_end = {name: value for name, value in valid.items() if name != "until"}
    malformed = [
        None,
        b"not JSON",
        b'{"command": "ack"}',
        encode(new_alert(1, 0, "rack-1", "WARNING", "error")),
        msgspec.json.encode(without_end),
        msgspec.json.encode(valid | {"until": "2026-02-30T06:26:00.000Z"}),
        msgspec.json.encode(without_end | {"command": "explode"}),
        msgspec.json.encode(valid | {"subject": "é" * 129}),
    ]
    sim.alert()
    assert [sim.send_command(value) for value in malformed] == [1] * len(malformed)
    assert sim.store.counts().malformed == len(malformed)
    assert sim.status() == "firing"
    assert sim.store.next_offsets("commands") == {0: len(malformed)}
    assert sim.send_command(msgspec.json.encode(valid)) == 0
    assert sim.status() == "silenced"


def test_a_repeated_command_counts_once(sim: AlertingSimulation) -> None:
    silence = sim.silence(2 * HOUR)
    sim.command("unsilence", until=to_text(sim.now_ms + HOUR))
    sim.send_command(encode(silence))
    sim.alert()
    assert sim.status() == "firing"


def test_a_storm_makes_at_most_two_notices_per_site_and_loses_no_alert(
    tmp_path: Path,
) -> None:
    racks, sites, rounds = 1000, 20, 10
    sim = AlertingSimulation(tmp_path / "db")
    for turn in range(rounds):
        with sim.store.transaction():
            for rack in range(racks):
                sim.number += 1
                alert = new_alert(
                    sim.number,
                    sim.now_ms,
                    f"rack-{rack:04d}",
                    "NORMAL" if turn % 2 else "WARNING",
                    "error",
                    site_id=f"site-{rack % sites}",
                )
                sim.ingest(encode(alert))
        sim.wait(6 * SECOND)
    sim.wait(4 * MINUTE)
    per_site = Counter(notice.site_id for notice in sim.notices)
    assert len(per_site) == sites and max(per_site.values()) <= 2
    sim.wait(24 * HOUR)
    assert sum(item.changes for notice in sim.notices for item in notice.items) == racks * rounds
    last = {notice.site_id: notice for notice in sim.notices}
    assert all(notice.open_count == 0 for notice in last.values())
    assert sim.store.counts().alerts == racks * rounds
    sim.close()


def test_resolved_is_notified_with_the_severity_of_the_last_notice(sim: AlertingSimulation) -> None:
    sim.alert(severity="error")
    sim.wait(10 * MINUTE)
    sim.silence(1 * HOUR)
    sim.alert(severity="critical")
    sim.alert(state="NORMAL")
    [notice] = sim.wait(10 * MINUTE)
    assert [(item.kind, item.severity) for item in notice.items] == [("resolved", "error")]
    assert [each.severity for each in sim.incidents()] == ["critical"]


def test_an_acknowledgement_without_id_does_not_cover_a_later_incident(
    sim: AlertingSimulation,
) -> None:
    sim.command("ack", severity="critical")
    sim.wait(1 * MINUTE)
    sim.alert()
    assert sim.status() == "firing"


def test_a_notice_and_its_queue_entries_are_created_in_one_transaction(tmp_path: Path) -> None:
    sim = AlertingSimulation(tmp_path / "db", channels=("pager",))
    sim.alert()
    sim.store._db.execute(
        "CREATE TRIGGER full BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(sqlite3.Error):
        sim.wait(1 * HOUR)
    sim.store._db.execute("DROP TRIGGER full")
    sim.restart()
    assert notified(sim.wait(0)) == [["firing rack-1"]]
    assert sim.store._db.execute("SELECT count(*) FROM outbox").fetchone() == (1,)
    sim.close()
