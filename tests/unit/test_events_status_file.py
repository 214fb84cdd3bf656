"""Status files: written whole, removed in order, and what a reader says about each."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from events import status_file
from events.cli import UserFacingError
from events.status_file import (
    BrokerStatus,
    Process,
    ProgramStatus,
    StatusWriter,
    duration,
    find_statuses,
    own_file,
    process_problems,
    read_status,
    remove_superseded,
    require_healthy,
    write_status,
)
from events.times import now_ms, to_text
from tests.support import ROOT, eventually

T0 = 1_764_000_000_000


def status(**changes: Any) -> ProgramStatus:
    fields: dict[str, Any] = {
        **Process("spark_jobs", "", to_text(T0)).header(),
        "written_time": to_text(T0),
        "broker": BrokerStatus(servers="localhost:9092", reachable=True, since=to_text(T0)),
    }
    return ProgramStatus(**(fields | changes))


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    file = own_file(tmp_path, "spark_jobs")
    for error in (None, "the disk is full."):
        write_status(file, status(error=error))
        assert read_status(file, ProgramStatus) == status(error=error)
    assert list(file.parent.iterdir()) == [file], "the temporary file has replaced it"


def test_what_is_unknown_is_left_out_of_the_file(tmp_path: Path) -> None:
    write_status(tmp_path / "a.json", status())
    assert b"error" not in (tmp_path / "a.json").read_bytes()


@pytest.mark.parametrize(
    "text", [b"", b'{"format_version": 1, "program": "spa', b"[]", b"\xff\xfe"]
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(text)
    with pytest.raises(UserFacingError) as refused:
        read_status(file, ProgramStatus)
    assert str(refused.value) == (
        f"the status file {file} is cut off or damaged: delete it; "
        "a process that still runs writes it again within a second."
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"written_time": "x"},
        {"started_time": "2026-02-30T00:00:00.000Z"},
        {"written_time": "2026-11-21T06:26:00.123"},  # not in UTC
        {"broker": BrokerStatus(servers="localhost:9092", reachable=True, since="yesterday")},
        {"pid": 2**40},
        {"pid": -1},
    ],
)
def test_an_impossible_time_or_process_is_damage(tmp_path: Path, changes: dict[str, Any]) -> None:
    file = status_file.status_folder(tmp_path) / "spark_jobs-a-1.json"
    write_status(file, status(**changes))
    with pytest.raises(UserFacingError, match="is cut off or damaged: delete it"):
        read_status(file, ProgramStatus)
    assert len(find_statuses(tmp_path, "spark_jobs", ProgramStatus).unreadable) == 1
    remove_superseded(tmp_path, "spark_jobs", ProgramStatus, lambda _: True)
    assert file.exists()


def test_a_file_of_another_version_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"format_version": 7, "colour": "red"}', encoding="utf-8")
    with pytest.raises(UserFacingError) as refused:
        read_status(file, ProgramStatus)
    assert str(refused.value) == (
        f"the status file {file} has format 7, and this program reads format 1: "
        "use the version of Rackstream that wrote it, or delete the file."
    )


def test_one_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "status"
    write_status(folder / "spark_jobs-a-2.json", status(pid=2, started_time=to_text(T0 + 5)))
    write_status(folder / "spark_jobs-b-3.json", status(pid=3))
    write_status(folder / "alerting-a-4.json", status(pid=4))
    (folder / "spark_jobs-a-1.json").write_text("{", encoding="utf-8")
    (folder / "spark_jobs-c-1.json").mkdir()  # as a file that another user owns, even for root
    found = find_statuses(tmp_path, "spark_jobs", ProgramStatus)
    assert [one.pid for one in found.statuses] == [3, 2], "the first started first"
    damaged, foreign = found.unreadable
    assert "is cut off or damaged" in damaged
    assert "cannot be read (Is a directory)" in foreign
    of_a = find_statuses(tmp_path, "spark_jobs", ProgramStatus, host="a")
    assert [one.pid for one in of_a.statuses] == [2]


def test_nothing_is_found_only_where_there_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "status" / "alerting-a-1.json"
    assert find_statuses(tmp_path, "alerting", ProgramStatus).is_empty
    write_status(file, status())
    assert not find_statuses(tmp_path, "alerting", ProgramStatus).is_empty
    file.write_text("{", encoding="utf-8")
    assert not find_statuses(tmp_path, "alerting", ProgramStatus).is_empty, "it is unreadable"


def test_a_host_is_not_taken_for_another_whose_name_begins_with_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "status"
    write_status(folder / "alerting-web-7.json", status(pid=7))
    write_status(folder / "alerting-web-2-8.json", status(pid=8))
    (folder / "alerting-web-2-9.json").write_text("{", encoding="utf-8")
    found = find_statuses(tmp_path, "alerting", ProgramStatus, host="web")
    assert ([one.pid for one in found.statuses], found.unreadable) == ([7], [])
    other = find_statuses(tmp_path, "alerting", ProgramStatus, host="web-2")
    assert ([one.pid for one in other.statuses], len(other.unreadable)) == ([8], 1)
    of_all = find_statuses(tmp_path, "*", ProgramStatus)
    assert sorted(one.pid for one in of_all.statuses) == [7, 8]


def test_without_the_folder_there_is_no_status(tmp_path: Path) -> None:
    assert find_statuses(tmp_path, "spark_jobs", ProgramStatus) == ([], [])


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("later_s", "changes", "problem"),
    [
        (10.0, {}, None),
        (
            10.1,
            {"pid": 1, "host": "elsewhere"},
            "process 1 hangs or was killed: its status is 10 s old; start it again.",
        ),
        (0.0, {"pid": 1, "error": "no luck."}, "process 1 has ended: no luck."),
    ],
)
def test_a_status_is_healthy_until_it_is_too_old_or_says_why_it_ended(
    later_s: float, changes: dict[str, Any], problem: str | None
) -> None:
    found = process_problems(status(**changes), T0 + round(1000 * later_s))
    assert found == ([problem] if problem else [])


def test_a_process_that_no_longer_runs_is_noticed_at_once() -> None:
    pid = dead_pid()
    assert process_problems(status(pid=pid), T0 + 1000) == [
        f"process {pid} was killed, 1 s ago: start it again."
    ]
    assert process_problems(status(pid=pid, host="elsewhere"), T0 + 1000) == []


def test_a_broker_may_be_away_for_thirty_seconds() -> None:
    away = BrokerStatus(servers="kafka:9092", reachable=False, since=to_text(T0 - 30_000))
    assert process_problems(status(broker=away), T0) == []
    assert process_problems(status(broker=away), T0 + 1000) == [
        "the broker at kafka:9092 has not answered for 31 s: see whether it runs."
    ]


def test_a_health_check_says_one_sentence() -> None:
    require_healthy([])
    with pytest.raises(UserFacingError, match=r"^one\.$"):
        require_healthy(["one."])
    with pytest.raises(UserFacingError, match=r"^one\. \(and 2 more\)$"):
        require_healthy(["one.", "two.", "three."])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (119.4, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_new_process_removes_what_its_predecessor_left_and_what_is_older_than_a_day(
    tmp_path: Path,
) -> None:
    folder, now, old = tmp_path / "status", now_ms(), now_ms() - 25 * 3600 * 1000
    gone, here = dead_pid(), os.getpid()
    kept = {"other-task-dead", "same-task-alive", "elsewhere"}
    files: dict[str, dict[str, Any]] = {
        "same-task-dead": {"pid": gone, "topic_prefix": "same"},
        "same-task-failed": {"pid": here, "topic_prefix": "same", "error": "no luck."},
        "same-task-alive": {"pid": here, "topic_prefix": "same"},
        "other-task-dead": {"pid": gone},
        "long-ago": {"pid": gone, "written_time": to_text(old)},
        "elsewhere": {"host": "elsewhere", "topic_prefix": "same"},
    }
    for name, changes in files.items():
        one = status(**({"written_time": to_text(now)} | changes))
        write_status(folder / f"spark_jobs-{name}.json", one)
    remove_superseded(tmp_path, "spark_jobs", ProgramStatus, lambda one: one.topic_prefix == "same")
    assert {file.stem.removeprefix("spark_jobs-") for file in folder.iterdir()} == kept


def test_a_program_writes_every_second_and_removes_its_file_when_it_ends(tmp_path: Path) -> None:
    file = own_file(tmp_path, "spark_jobs")
    with StatusWriter(file, lambda: status(written_time=to_text(now_ms())), pytest.fail):
        first = read_status(file, ProgramStatus).written_time
        eventually(
            lambda: read_status(file, ProgramStatus).written_time,
            lambda written: written != first,
            timeout_s=10,
        )
    assert not file.exists()


def test_a_program_that_fails_leaves_its_reason_and_one_that_is_stopped_does_not(
    tmp_path: Path,
) -> None:
    file = own_file(tmp_path, "spark_jobs")
    with pytest.raises(UserFacingError), StatusWriter(file, status, pytest.fail):
        raise UserFacingError("no luck.")
    assert read_status(file, ProgramStatus).error == "no luck."
    with pytest.raises(KeyboardInterrupt), StatusWriter(file, status, pytest.fail):
        raise KeyboardInterrupt
    assert not file.exists()


def test_a_program_goes_on_without_a_status_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("a file where the folder should be", encoding="utf-8")
    said: list[str] = []
    file = own_file(tmp_path, "spark_jobs")
    writer = StatusWriter(file, status, said.append)
    with writer:
        writer._write(status())
    (line,) = said
    assert line.startswith(f"the status file {file} cannot be written: ")


def test_reading_a_status_loads_none_of_the_large_packages() -> None:
    large = ("pydantic", "pyspark", "kafka", "confluent_kafka", "rich.table", "numpy")
    code = (
        "import sys, events.status_file as s; s.find_home();"
        f"print([name for name in {large!r} if name in sys.modules])"
    )
    env = os.environ | {"RACKSTREAM_HOME": "somewhere"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_name_of_a_file_tells_program_host_and_process(tmp_path: Path) -> None:
    name = f"alerting-{socket.gethostname()}-{os.getpid()}.json"
    assert own_file(tmp_path, "alerting") == status_file.status_folder(tmp_path) / name
