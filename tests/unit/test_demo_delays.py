"""Delays count from when a rule can decide; what was due while its job was away is kept apart."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.delays import Delay, alert_delays
from events import driver_starts
from events.cli import UserFacingError
from events.driver_starts import read_starts
from events.times import to_ms
from events.triggers import Trigger
from spark_jobs.runtime.start_log import StartLog


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the drivers' starts below `tmp_path`."""
    monkeypatch.delenv("RACKSTREAM_STATUS", raising=False)
    starts = tmp_path / "status" / "starts"
    starts.mkdir(parents=True)
    return starts


def at(clock: str) -> str:
    return f"2026-11-21T{clock}.000Z"


def write_start(
    folder: Path, name: str, started: str, ready_times: Mapping[str, str | None]
) -> None:
    """Write a driver's file by hand."""
    text = {"topic_prefix": "p-", "started_time": at(started), "ready_times": ready_times}
    (folder / f"{name}.json").write_text(json.dumps(text), encoding="utf-8")


def alert(rule: str, due: str, came: str) -> tuple[dict[str, Any], tuple[dict[str, Any], int]]:
    """Return an expected alert, and its record in the topic with the append time."""
    row = {"alert_id": f"{rule} {due}", "rule": rule, "decidable_time": at(due)}
    return row, ({"alert_id": row["alert_id"], "rule": rule}, to_ms(at(came)))


def test_what_was_due_while_a_job_was_away_between_two_starts_is_no_delay_of_its_rule(
    tmp_path: Path, folder: Path
) -> None:
    """The drivers start at 06:00:00 and 07:00:00; none runs from 06:10:00 on."""
    first = {"lost_signal": at("06:00:30"), "silent_sensor": None}
    write_start(folder, "1-micro-batch", "06:00:00", first)
    write_start(folder, "2-real-time", "06:00:00", {"weak_signal": None})
    again = {"lost_signal": at("07:00:40"), "silent_sensor": at("07:00:45")}
    write_start(folder, "3-micro-batch", "07:00:00", again)
    write_start(folder, "4-real-time", "07:00:02", {"weak_signal": None})
    alerts = [
        alert("lost-signal", "06:00:29", "06:00:31"),  # early: before the first batch had ended
        alert("lost-signal", "06:00:30", "06:00:34"),
        alert("lost-signal", "06:09:59", "07:00:19"),  # early: the first driver ended before
        alert("lost-signal", "06:30:00", "07:00:20"),  # early: no driver ran
        alert("lost-signal", "07:00:39", "07:00:41"),  # early: before the second first batch ended
        alert("lost-signal", "07:00:41", "07:00:47"),
        # Its first batch since the first start never ended, but an alert shows that it worked.
        alert("silent-sensor", "06:05:00", "06:05:07"),  # early
        alert("silent-sensor", "06:05:08", "06:05:11"),
        alert("silent-sensor", "06:10:30", "07:00:30"),  # early: no driver ran
        # In Real-time Mode no batch ends: each start's first alert shows that the job works.
        alert("weak-signal", "06:00:10", "06:00:12"),  # early
        alert("weak-signal", "06:00:13", "06:00:14"),
        alert("weak-signal", "06:09:59", "07:00:15"),  # early: the first driver ended before
        alert("weak-signal", "07:00:14", "07:00:16"),  # early
        alert("weak-signal", "07:00:16", "07:00:19"),
    ]
    topic = sorted((record for _, record in alerts), key=lambda record: record[1])
    # A job that starts again may write the alerts of its last batch once more.
    topic.append((topic[0][0], to_ms(at("08:00:00"))))
    delays = alert_delays([row for row, _ in alerts], topic, read_starts(tmp_path, "p-"))
    assert delays.by_rule == {
        "lost-signal": Delay(2, 5.0, 6.0),
        "silent-sensor": Delay(1, 3.0, 3.0),
        "weak-signal": Delay(2, 2.0, 3.0),
    }
    # From 2 s to 50 min 20 s: 2, 2, 2, 2, 7, 1820, 3000, 3016 and 3020.
    assert delays.before_first_batch == Delay(9, 7.0, 3020.0)


def test_without_known_starts_a_job_was_ready_with_its_first_alert() -> None:
    alerts = [
        alert("lost-signal", "06:00:00", "06:00:20"),
        alert("lost-signal", "06:00:10", "06:00:21"),
        alert("lost-signal", "06:00:20", "06:00:22"),
    ]
    never_came = {"alert_id": "x", "rule": "lost-signal", "decidable_time": at("06:00:00")}
    indeterminate = {"alert_id": "y", "rule": "site-outage"}
    topic = [record for _, record in alerts]
    expected = [row for row, _ in alerts]
    delays = alert_delays([*expected, never_came, indeterminate], topic, [])
    assert delays.by_rule == {"lost-signal": Delay(1, 2.0, 2.0)}
    assert delays.before_first_batch == Delay(2, 15.5, 20.0)


def batch(name: str, start: str, rows: int) -> dict[str, Any]:
    """Return Spark's progress of a batch that took 1.5 s."""
    durations = {"addBatch": 100, "triggerExecution": 1500}
    return {"name": name, "timestamp": at(start), "numInputRows": rows, "durationMs": durations}


def test_a_job_is_ready_after_its_first_batch_with_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([to_ms(at("06:00:00")), to_ms(at("07:00:00"))])
    monkeypatch.setattr("spark_jobs.runtime.start_log.now_ms", lambda: next(clock))
    micro_batch = Trigger.MICRO_BATCH
    StartLog(tmp_path, "p-", {"silent_sensor": micro_batch})
    triggers = {
        "lost_signal": micro_batch,
        "silent_sensor": micro_batch,
        "weak_signal": Trigger.REAL_TIME,
    }
    log = StartLog(tmp_path, "p-", triggers)
    for one in (
        batch("lost_signal", "07:00:01", 0),
        batch("user_totals", "07:00:02", 7),
        batch("lost_signal", "07:00:03", 5),
        batch("lost_signal", "07:00:06", 5),
        batch("weak_signal", "07:00:02", 5),
        batch("silent_sensor", "07:00:08", 0),
    ):
        log.on_progress(one)
    first, second = read_starts(tmp_path, "p-")
    assert (first.started_time, first.ready_times) == (at("06:00:00"), {"silent_sensor": None})
    assert second.started_time == at("07:00:00")
    ready_time = "2026-11-21T07:00:04.500Z"
    assert second.ready_times == {
        "lost_signal": ready_time,
        "silent_sensor": None,
        "weak_signal": None,
    }
    assert read_starts(tmp_path, "") == [], "those of other topics"


def test_only_the_newest_starts_are_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_starts, "MAX_STARTS", 3)
    clock = iter(range(1000, 1005))
    monkeypatch.setattr("spark_jobs.runtime.start_log.now_ms", lambda: next(clock))
    for _ in range(5):
        StartLog(tmp_path, "p-", {"weak_signal": Trigger.REAL_TIME})
    kept = ["01.002Z", "01.003Z", "01.004Z"]
    assert [one.started_time[-7:] for one in read_starts(tmp_path, "p-")] == kept
    assert len([*folder.iterdir()]) == 3


def test_a_start_that_cannot_be_noted_does_not_end_the_driver(tmp_path: Path, folder: Path) -> None:
    folder.rmdir()
    folder.write_text("no folder")
    StartLog(tmp_path, "p-", {"lost_signal": Trigger.MICRO_BATCH}).on_progress(
        batch("lost_signal", "06:00:00", 1)
    )


def test_a_damaged_file_of_a_start_is_named(tmp_path: Path, folder: Path) -> None:
    (folder / "1.json").write_text("{")
    with pytest.raises(UserFacingError, match=r"1\.json cannot be read \(.*\): delete it\.$"):
        read_starts(tmp_path, "p-")
