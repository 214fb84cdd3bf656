"""What becomes of an alert and what people are told of it, on a clock that the test turns."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from alerting.life import Status, Times
from alerting.store import Counts
from events.records import encode
from events.times import to_text
from tests.alerting import HOUR, MINUTE, SECOND, T0, World, new_alert, told

OUTAGE = {"rule": "site-outage"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a world without alerts, at 06:26."""
    world = World(tmp_path / "db")
    yield world
    world.close()


def test_news_of_a_site_is_told_together_half_a_minute_after_the_first(world: World) -> None:
    world.alert("rack-1")
    assert world.wait(20 * SECOND) == []
    world.alert("rack-2")
    assert world.wait(9 * SECOND) == []
    assert told(world.wait(1 * SECOND)) == [["firing rack-1", "firing rack-2"]]
    assert world.wait(HOUR) == []


def test_each_site_has_its_own_notice(world: World) -> None:
    world.alert("rack-1", site_id="north")
    world.alert("rack-2", site_id="south")
    notices = world.wait(30 * SECOND)
    assert {notice.site_id: told([notice]) for notice in notices} == {
        "north": [["firing rack-1"]],
        "south": [["firing rack-2"]],
    }


def test_later_news_waits_for_the_interval_since_the_last_notice(world: World) -> None:
    world.alert("rack-1")
    world.wait(30 * SECOND)
    world.alert("rack-2")
    world.wait(1 * MINUTE)
    world.alert("rack-3")
    assert world.wait(4 * MINUTE - 1) == []
    assert told(world.wait(1)) == [["firing rack-2", "firing rack-3"]]


def test_after_a_quiet_interval_news_waits_only_as_the_first_did(world: World) -> None:
    world.alert("rack-1")
    world.wait(HOUR)
    world.alert("rack-2")
    assert world.wait(30 * SECOND - 1) == []
    assert told(world.wait(1)) == [["firing rack-2"]]


def test_the_end_of_what_was_told_is_told(world: World) -> None:
    first = world.alert()
    assert [notice.open_count for notice in world.wait(10 * MINUTE)] == [1]
    world.alert(state="NORMAL")
    [notice] = world.wait(30 * SECOND)
    [item] = notice.items
    assert (item.kind, item.alert_id, item.end_time) == (
        "resolved",
        first.alert_id,
        to_text(world.now_ms - 30_000),
    )
    assert (notice.open_count, notice.severity) == (0, "info")
    assert world.status() == Status.RESOLVED
    assert world.wait(24 * HOUR) == []


def test_what_came_and_went_before_anybody_was_told_is_told_as_that(world: World) -> None:
    world.alert()
    world.wait(10 * SECOND)
    world.alert(state="NORMAL")
    [notice] = world.wait(HOUR)
    assert told([notice]) == [["passed rack-1"]]
    assert (notice.items[0].changes, notice.open_count) == (2, 0)


def test_an_end_of_what_never_fired_is_no_incident(world: World) -> None:
    world.alert(state="NORMAL")
    assert world.incidents() == [] and world.wait(HOUR) == []


def test_people_are_reminded_after_four_hours_of_all_at_once(world: World) -> None:
    world.alert("rack-1")
    world.wait(30 * SECOND)
    world.alert("rack-2")
    world.wait(4 * HOUR - 1)
    assert told(world.notices) == [["firing rack-1"], ["firing rack-2"]]
    assert told(world.wait(1)) == [["reminder rack-1", "reminder rack-2"]]
    assert told(world.wait(4 * HOUR)) == [["reminder rack-1", "reminder rack-2"]]


def test_a_higher_severity_is_told_again_and_a_lower_one_is_not(world: World) -> None:
    world.alert(severity="error")
    world.wait(HOUR)
    world.alert(severity="critical")
    [notice] = world.wait(HOUR)
    assert [(item.kind, item.severity, item.was) for item in notice.items] == [
        ("escalated", "critical", "error")
    ]
    world.alert(severity="error")
    assert world.wait(HOUR) == []
    world.alert(severity="critical")
    assert world.wait(HOUR) == []
    assert len(world.incidents()) == 1


def test_what_changes_too_often_is_told_once_and_when_it_stays(world: World) -> None:
    for _ in range(20):
        world.alert(state="WARNING")
        world.wait(1 * MINUTE)
        world.alert(state="NORMAL")
        world.wait(1 * MINUTE)
    kinds = [item.kind for notice in world.notices for item in notice.items]
    assert kinds.count("flapping") == 1
    assert "firing" not in kinds[kinds.index("flapping") :]
    world.wait(13 * MINUTE)
    assert len(world.notices) == len(kinds)
    assert told(world.wait(1 * MINUTE)) == [["resolved rack-1"]]
    assert sum(item.changes for notice in world.notices for item in notice.items) == 40


def test_what_stops_flapping_while_it_fires_is_told_as_firing(world: World) -> None:
    for state in ("WARNING", "NORMAL") * 3 + ("WARNING",):
        world.alert(state=state)
    assert told(world.wait(15 * MINUTE - 1)) == [["flapping rack-1"]]
    assert told(world.wait(1)) == [["firing rack-1"]]


def test_flapping_can_be_switched_off(tmp_path: Path) -> None:
    world = World(tmp_path / "db", Times(flap_changes=0))
    for state in ("WARNING", "NORMAL") * 10 + ("WARNING",):
        world.alert(state=state)
    assert told(world.wait(HOUR)) == [["firing rack-1"]]
    world.close()


def test_acknowledged_holds_over_a_restart_until_it_is_resolved_and_not_when_it_fires_again(
    world: World,
) -> None:
    first = world.alert()
    world.wait(1 * HOUR)
    world.ack(first)
    world.restart()
    assert world.status() == Status.ACKNOWLEDGED
    assert world.wait(12 * HOUR) == []
    world.alert(state="NORMAL")
    assert told(world.wait(1 * HOUR)) == [["resolved rack-1"]]
    world.restart()
    assert [each.acknowledged_by for each in world.incidents()] == ["ada"]
    world.alert()
    assert world.status() == Status.FIRING
    assert told(world.wait(5 * HOUR)) == [["firing rack-1"], ["reminder rack-1"]]
    assert [each.status for each in world.incidents()] == [Status.FIRING, Status.RESOLVED]


def test_acknowledged_before_it_was_told_nobody_is_called(world: World) -> None:
    world.ack(world.alert())
    assert world.wait(HOUR) == []


def test_an_acknowledgement_covers_the_severity_that_was_seen_and_lower_ones(world: World) -> None:
    first = world.alert(severity="error")
    world.wait(1 * HOUR)
    world.ack(first)
    world.alert(severity="warning")
    assert world.status() == Status.ACKNOWLEDGED
    world.alert(severity="critical")
    assert world.status() == Status.FIRING
    assert told(world.wait(1 * HOUR)) == [["escalated rack-1"]]
    world.alert(severity="error")
    assert world.status() == Status.ACKNOWLEDGED


def test_an_acknowledgement_that_comes_before_its_alert_waits_for_it(world: World) -> None:
    alert = new_alert(99, world.now_ms, "rack-1", "WARNING", "error")
    world.ack(alert)
    world.send(encode(alert))
    assert world.status() == Status.ACKNOWLEDGED


def test_one_of_an_earlier_incident_does_not_hold_for_a_later_one(world: World) -> None:
    first = world.alert()
    world.alert(state="NORMAL")
    world.alert()
    world.ack(first)
    assert world.status() == Status.FIRING


def test_without_an_id_it_means_what_was_firing_at_its_time_and_as_bad_as_then(world: World) -> None:
    world.command("ack")
    world.wait(1 * MINUTE)
    world.alert()
    assert world.status() == Status.FIRING
    world.wait(1 * MINUTE)
    world.command("ack")
    assert world.status() == Status.ACKNOWLEDGED
    world.wait(1 * MINUTE)
    world.alert(severity="critical")
    assert world.status() == Status.FIRING


def test_a_silence_keeps_quiet_and_what_still_fires_is_told_at_its_end(world: World) -> None:
    world.silence(2 * HOUR)
    world.wait(1 * MINUTE)
    world.alert()
    assert world.status() == Status.SILENCED
    assert world.wait(2 * HOUR - 1 * MINUTE - 1) == []
    assert told(world.wait(1)) == [["firing rack-1"]]
    assert world.status() == Status.FIRING


def test_what_comes_and_goes_while_silenced_is_never_told(world: World) -> None:
    world.silence(2 * HOUR)
    world.alert()
    world.wait(10 * MINUTE)
    world.alert(state="NORMAL")
    assert world.wait(24 * HOUR) == []
    assert [each.status for each in world.incidents()] == [Status.RESOLVED]


def test_the_end_of_what_was_told_is_told_in_a_silence_too(world: World) -> None:
    world.alert()
    world.wait(10 * MINUTE)
    world.silence(12 * HOUR)
    assert world.wait(6 * HOUR) == []
    world.alert(state="NORMAL")
    assert told(world.wait(1 * HOUR)) == [["resolved rack-1"]]


def test_a_silence_of_a_site_is_for_all_its_racks_under_that_rule(world: World) -> None:
    world.alert("rack-1")
    world.silence(2 * HOUR, subject="site-1")
    world.alert("rack-2")
    world.alert("rack-3", rule="lost-signal")
    world.alert("rack-4", site_id="site-2")
    assert sorted(told(world.wait(1 * HOUR))) == [["firing rack-3"], ["firing rack-4"]]
    world.command("unsilence", subject="site-1")
    assert told(world.wait(30 * SECOND)) == [["firing rack-1", "firing rack-2"]]


def test_a_later_silence_replaces_the_earlier_one(world: World) -> None:
    world.silence(4 * HOUR)
    world.silence(1 * HOUR)
    world.alert()
    assert told(world.wait(1 * HOUR)) == [["firing rack-1"]]


def test_a_silence_that_is_over_when_it_comes_does_nothing(world: World) -> None:
    world.command("silence", until=to_text(world.now_ms - 1))
    world.alert()
    assert world.status() == Status.FIRING


def test_an_outage_of_the_site_holds_its_racks_back_and_lets_them_go(world: World) -> None:
    world.alert("rack-1", rule="silent-sensor")
    world.wait(10 * SECOND)
    world.alert("site-1", **OUTAGE)
    world.alert("rack-2", rule="silent-sensor")
    world.alert("rack-9", rule="silent-sensor", site_id="site-2")
    assert sorted(told(world.wait(1 * HOUR))) == [["firing rack-9"], ["firing site-1"]]
    assert [each.subject for each in world.incidents() if each.inhibited] == ["rack-2", "rack-1"]
    world.alert("rack-2", "NORMAL", rule="silent-sensor")
    world.wait(1 * MINUTE)
    world.alert("site-1", "NORMAL", **OUTAGE)
    assert told(world.wait(1 * HOUR)) == [["firing rack-1", "resolved site-1"]]
    assert Counter(each.subject for each in world.incidents()) == Counter(
        ["rack-1", "rack-2", "rack-9", "site-1"]
    )


def test_an_outage_does_not_keep_the_end_of_what_was_told(world: World) -> None:
    world.alert("rack-1")
    world.wait(10 * MINUTE)
    world.alert("site-1", **OUTAGE)
    world.alert("rack-1", "NORMAL")
    assert told(world.wait(1 * HOUR)) == [["firing site-1", "resolved rack-1"]]


def test_a_rack_that_moves_ends_where_people_know_it_to_be_open(world: World) -> None:
    world.alert(site_id="north")
    world.wait(10 * MINUTE)
    world.alert(state="NORMAL", site_id="south")
    world.alert(site_id="south")
    world.alert(severity="critical", site_id="south")
    world.wait(10 * MINUTE)
    world.alert(state="NORMAL", site_id="south")
    world.wait(10 * MINUTE)
    assert [(notice.site_id, notice.open_count) for notice in world.notices] == [("north", 1)] * 2 + [
        ("north", 0)
    ]
    world.alert(site_id="south")
    assert [notice.site_id for notice in world.wait(10 * MINUTE)] == ["south"]


def test_repeats_are_counted_for_the_incident_they_belong_to(world: World) -> None:
    first = world.alert()
    end = world.alert(state="NORMAL")
    second = world.alert()
    for alert in (first, first, end, second, first):
        world.send(encode(alert))
    world.restart()
    assert [each.repeats for each in world.incidents()] == [1, 4]
    assert world.status() == Status.FIRING
    assert [item.changes for notice in world.wait(HOUR) for item in notice.items] == [3]


def test_what_lies_in_an_older_partition_does_not_undo_what_came_after(world: World) -> None:
    late = new_alert(2, world.now_ms, "rack-1", "WARNING", "error")
    early = new_alert(1, world.now_ms, "rack-1", "NORMAL", "info")
    world.send(encode(late), partition=5, timestamp=2000)
    world.send(encode(early), partition=1, timestamp=1000)
    assert world.status() == Status.FIRING
    world.send(encode(new_alert(3, world.now_ms, "rack-1", "NORMAL", "info")), partition=5, timestamp=1500)
    assert world.status() == Status.RESOLVED


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"nonsense",
        b'{"command": "ack"}',
        encode(new_alert(1, 0, "rack-1", "WARNING", "error")),
        b'{"command_id":"1","command":"silence","rule":"rack-overheating","subject":"rack-1","by":"ada",'
        b'"event_time":"2026-11-21T06:26:00.000Z"}',
        b'{"command_id":"1","command":"silence","rule":"rack-overheating","subject":"rack-1","by":"ada",'
        b'"event_time":"2026-11-21T06:26:00.000Z","until":"2026-02-30T06:26:00.000Z"}',
        b'{"command_id":"1","command":"explode","rule":"rack-overheating","subject":"rack-1","by":"ada",'
        b'"event_time":"2026-11-21T06:26:00.000Z"}',
    ],
)
def test_a_record_that_is_no_command_is_counted_and_passed_over(world: World, value: bytes | None) -> None:
    world.alert()
    assert world.send_command(value) == 1
    assert world.store.counts().malformed == 1
    assert world.status() == Status.FIRING
    assert world.store.next_offsets("commands") == {0: 1}


def test_a_command_that_is_sent_twice_counts_once(world: World) -> None:
    silence = world.silence(2 * HOUR)
    world.command("unsilence", until=to_text(world.now_ms + HOUR))
    world.send_command(encode(silence))
    world.alert()
    assert world.status() == Status.FIRING


def test_a_storm_is_at_most_two_notices_a_site_in_five_minutes_and_none_is_lost(tmp_path: Path) -> None:
    racks, sites, rounds = 1000, 20, 10
    world = World(tmp_path / "db")
    for turn in range(rounds):
        with world.store.transaction():
            for rack in range(racks):
                world.number += 1
                alert = new_alert(
                    world.number,
                    world.now_ms,
                    f"rack-{rack:04d}",
                    "NORMAL" if turn % 2 else "WARNING",
                    "error",
                    site_id=f"site-{rack % sites}",
                )
                world.take(encode(alert))
        world.wait(6 * SECOND)
    world.wait(4 * MINUTE)
    per_site = Counter(notice.site_id for notice in world.notices)
    assert len(per_site) == sites and max(per_site.values()) <= 2
    world.wait(24 * HOUR)
    assert sum(item.changes for notice in world.notices for item in notice.items) == racks * rounds
    last = {notice.site_id: notice for notice in world.notices}
    assert all(notice.open_count == 0 for notice in last.values())
    assert world.store.counts().alerts == racks * rounds
    world.close()


def test_an_end_is_told_with_the_severity_that_people_know(world: World) -> None:
    world.alert(severity="error")
    world.wait(10 * MINUTE)
    world.silence(1 * HOUR)
    world.alert(severity="critical")
    world.alert(state="NORMAL")
    [notice] = world.wait(10 * MINUTE)
    assert [(item.kind, item.severity) for item in notice.items] == [("resolved", "error")]
    assert [each.severity for each in world.incidents()] == ["critical"]


def test_without_an_id_a_severity_alone_does_not_reach_what_fires_later(world: World) -> None:
    world.command("ack", severity="critical")
    world.wait(1 * MINUTE)
    world.alert()
    assert world.status() == Status.FIRING


def test_a_notice_is_made_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    world = World(tmp_path / "db", routes=("pager",))
    world.alert()
    world.store._db.execute(
        "CREATE TRIGGER full BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(sqlite3.Error):
        world.wait(1 * HOUR)
    world.store._db.execute("DROP TRIGGER full")
    world.restart()
    assert told(world.wait(0)) == [["firing rack-1"]]
    assert world.store._db.execute("SELECT count(*) FROM outbox").fetchone() == (1,)
    world.close()


def test_the_database_of_an_earlier_version_is_taken_over_with_what_became_of_its_alerts(
    tmp_path: Path,
) -> None:
    path = tmp_path / "db"
    alerts = [
        new_alert(1, T0, "rack-1", "WARNING", "error"),
        new_alert(2, T0, "rack-2", "WARNING", "error"),
        new_alert(3, T0, "rack-2", "NORMAL", "info"),
    ]
    with closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_1)
        db.execute("INSERT INTO source VALUES ('alerts', 'id-1')")
        db.execute("INSERT INTO offsets VALUES (0, 3)")
        db.execute("INSERT INTO malformed VALUES (0, 9, 'nonsense', '2026-11-21T06:26:00.000Z')")
        db.executemany(
            "INSERT INTO alerts VALUES (?, ?, '2026-11-21T06:26:00.000Z', 0, ?, 1)",
            [(alert.alert_id, encode(alert).decode(), offset) for offset, alert in enumerate(alerts)],
        )
        db.commit()
    world = World(path)
    assert world.store.next_offsets() == {0: 3} and world.store.next_offsets("commands") == {}
    assert world.store.counts() == Counts(alerts=3, repeats=3, malformed=1)
    world.store.bind("alerts", "id-1")
    assert [(each.subject, each.status, each.repeats) for each in world.incidents()] == [
        ("rack-2", Status.RESOLVED, 2),
        ("rack-1", Status.FIRING, 1),
    ]
    assert told(world.wait(1 * HOUR)) == [["firing rack-1"]]
    world.restart()
    assert world.status() == Status.FIRING
    world.close()


VERSION_1 = """
CREATE TABLE source (topic TEXT NOT NULL, topic_id TEXT NOT NULL) STRICT;
CREATE TABLE offsets (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL) STRICT;
CREATE TABLE alerts (
    alert_id TEXT PRIMARY KEY,
    alert TEXT NOT NULL,
    first_seen_time TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    repeats INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE malformed (
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    error TEXT NOT NULL,
    seen_time TEXT NOT NULL,
    PRIMARY KEY (partition, offset)
) STRICT;
CREATE TABLE log_files (path TEXT PRIMARY KEY, inode INTEGER NOT NULL, length INTEGER NOT NULL) STRICT;
PRAGMA user_version = 1;
"""
