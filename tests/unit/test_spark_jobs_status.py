"""What a driver's status holds, when it is unhealthy, and how it is shown."""

import json
import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from events.alerting_status import AlertingStatus
from events.driver_health import longest_stall_s, problems
from events.driver_status import PROGRAM, DriverStatus, QueryStatus
from events.status_file import (
    BrokerStatus,
    Process,
    ProgramStatus,
    own_file,
    read_status,
    status_folder,
    write_status,
)
from events.times import now_ms, to_text
from events.triggers import Trigger
from spark_jobs.runtime.status_recorder import StatusRecorder
from spark_jobs.status_commands import driver_view, short
from tests.support import ROOT, eventually, program, run
from tests.terminal import on_terminal
from tests.unit.statuses import T0, Clock

NAME = "user_totals"
OTHERS = ("alerting:", "producer:")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> StatusRecorder:
    process = Process(PROGRAM, "", to_text(T0))
    return StatusRecorder(
        process, "localhost:9092", [NAME], "checkpoints", clock, lambda: clock.running_s
    )


def start(recorder: StatusRecorder, trigger: Trigger, batch_s: float) -> None:
    recorder.on_start(NAME, NAME, trigger, ["user-actions"], batch_s)


def progress(end: int = 0, **changes: Any) -> dict[str, Any]:
    """Return Spark's progress of a batch that has read up to an offset."""
    return {
        "name": NAME,
        "batchId": 3,
        "durationMs": {"triggerExecution": 2000, "addBatch": 1500},
        "inputRowsPerSecond": 20.0,
        "processedRowsPerSecond": 40.0,
        "eventTime": {"watermark": to_text(T0 - 600_000)},
        "stateOperators": [
            {"numRowsTotal": 5, "memoryUsedBytes": 100},
            {"numRowsTotal": 6, "memoryUsedBytes": 23},
        ],
        "sources": [{"endOffset": {"user-actions": {"0": end - 1, "1": 1}}}],
        "late_records": 2,
        "records_left_out": None,
    } | changes


def query_of(recorder: StatusRecorder) -> QueryStatus:
    (query,) = recorder.snapshot().queries
    return query


def test_a_micro_batch_is_shown_with_its_rates_and_what_the_topics_hold_beyond_it(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 5.0)
    recorder.on_progress(progress(7))
    recorder.on_topics({"user-actions": 10, "rack-readings": 99})
    clock.forward(3)
    assert query_of(recorder) == QueryStatus(
        name=NAME,
        job=NAME,
        trigger="micro-batch",
        topics=["user-actions"],
        batch_s=5.0,
        active=True,
        started_time=to_text(T0),
        finished=False,
        restarts=0,
        batch_id=3,
        last_progress_time=to_text(T0),
        last_progress_age_s=3.0,
        input_rows_per_second=20.0,
        processed_rows_per_second=40.0,
        records_behind=3,
        waiting_since=to_text(T0),
        waiting_records=3,
        worked=True,
        without_batch_s=3.0,
        watermark=to_text(T0 - 600_000),
        watermark_delay_s=603.0,
        late_records=2,
        state_rows=11,
        state_bytes=123,
        batch_duration_ms={"triggerExecution": 2000, "addBatch": 1500},
    )
    assert list(recorder.snapshot().topics) == ["user-actions"], "only what is read"


def test_a_real_time_batch_shows_no_lag_no_rates_and_no_rows_of_state(
    recorder: StatusRecorder,
) -> None:
    start(recorder, Trigger.REAL_TIME, 300.0)
    uncounted = [{"numRowsTotal": 0, "memoryUsedBytes": 100}]
    recorder.on_progress(progress(7, stateOperators=uncounted))
    recorder.on_topics({"user-actions": 10})
    query = query_of(recorder)
    assert query.records_behind is None
    assert query.input_rows_per_second is None
    assert query.processed_rows_per_second is None
    assert (query.late_records, query.state_rows, query.state_bytes) == (2, None, 100)


def test_rates_of_a_batch_that_ended_long_ago_are_left_out(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 5.0)
    recorder.on_progress(progress(7))
    clock.forward(15)
    assert query_of(recorder).input_rows_per_second == 20.0
    clock.forward(1)
    assert query_of(recorder).input_rows_per_second is None


def test_late_and_left_out_records_add_up_over_batches_and_restarts(
    recorder: StatusRecorder,
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 5.0)
    recorder.on_progress(progress(1, records_left_out=4))
    recorder.on_failure(NAME, "no luck.")
    start(recorder, Trigger.MICRO_BATCH, 5.0)
    recorder.on_progress(progress(2, late_records=None, records_left_out=1))
    query = query_of(recorder)
    assert (query.late_records, query.records_left_out, query.restarts) == (2, 5, 1)
    assert (query.active, query.last_error) == (True, "no luck.")


def test_the_lag_is_unknown_without_the_broker_and_while_a_topic_is_missing(
    recorder: StatusRecorder,
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 5.0)
    recorder.on_topics({"user-actions": 10})
    assert query_of(recorder).records_behind is None, "no batch has ended yet"
    recorder.on_progress(progress(4))
    assert query_of(recorder).records_behind == 6
    recorder.on_no_answer()
    assert query_of(recorder).records_behind is None
    recorder.on_topics({})
    assert query_of(recorder).records_behind is None


def test_the_broker_is_away_since_its_first_missing_answer(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 5.0)
    for _ in range(3):
        clock.forward(10)
        recorder.on_no_answer()
    driver = recorder.snapshot()
    assert driver.broker == BrokerStatus(
        servers="localhost:9092", reachable=False, since=to_text(T0 + 10_000)
    )
    assert problems(driver, T0 + 40_000) == []
    driver.written_time = to_text(T0 + 41_000)
    assert problems(driver, T0 + 41_000) == [
        "the broker at localhost:9092 has not answered for 31 s: see whether it runs."
    ]
    recorder.on_topics({})
    assert recorder.snapshot().broker.reachable


def problems_after(recorder: StatusRecorder, clock: Clock, seconds: float) -> list[str]:
    """Return the problems after some seconds in which the driver writes its status."""
    for _ in range(int(seconds / 5)):
        clock.forward(5)
        recorder.snapshot()
    clock.forward(seconds % 5)
    return problems(recorder.snapshot(), clock.ms)


def test_a_micro_batch_query_is_stuck_after_five_batches_in_which_records_wait(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 10.0)
    recorder.on_progress(progress(10))
    recorder.on_topics({"user-actions": 10})
    assert problems_after(recorder, clock, 3600) == [], "nothing to read"
    recorder.on_topics({"user-actions": 11})
    assert problems_after(recorder, clock, 50) == []
    assert problems_after(recorder, clock, 1) == [
        f"{NAME} has ended no batch for 51 s, although records wait."
    ]
    recorder.on_progress(progress(11))
    assert problems_after(recorder, clock, 3600) == []


def test_the_first_batch_after_each_start_may_last_longer(
    recorder: StatusRecorder, clock: Clock
) -> None:
    for _ in range(2):
        start(recorder, Trigger.MICRO_BATCH, 10.0)
        assert longest_stall_s(query_of(recorder)) == 180.0
        clock.forward(1)
        recorder.on_progress(progress(1))
        assert longest_stall_s(query_of(recorder)) == 50.0
        clock.forward(1)


def test_a_batch_that_reads_a_backlog_may_last_as_long_as_that_takes(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 10.0)
    recorder.on_topics({"user-actions": 10_000_000})
    clock.forward(100)
    # What comes while it is read does not extend the time: otherwise no query would be stuck.
    recorder.on_topics({"user-actions": 20_000_000})
    assert longest_stall_s(query_of(recorder)) == 180.0 + 2000.0
    recorder.on_progress(progress(19_995_000))
    recorder.on_topics({"user-actions": 20_000_000})
    assert longest_stall_s(query_of(recorder)) == 50.0 + 1.0
    recorder.on_progress(progress(20_000_000))
    recorder.on_topics({"user-actions": 20_000_000})
    assert longest_stall_s(query_of(recorder)) == 50.0


def test_short_batches_are_not_stuck_before_half_a_minute(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 0.0)
    clock.forward(1)
    recorder.on_progress(progress(1))
    assert longest_stall_s(query_of(recorder)) == 30.0
    recorder.on_progress(progress(1, durationMs={"triggerExecution": 40_000}))
    assert longest_stall_s(query_of(recorder)) == 200.0, "a batch lasts longer than its interval"


def test_records_that_wait_for_a_query_without_the_broker_do_not_make_it_stuck(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 10.0)
    recorder.on_progress(progress(1))
    recorder.on_topics({"user-actions": 11})
    clock.forward(3600)
    recorder.on_no_answer()
    recorder.on_topics({"user-actions": 11})
    assert problems_after(recorder, clock, 1) == []


def test_a_real_time_query_is_stuck_after_two_batches_whatever_its_topics_hold(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.REAL_TIME, 300.0)
    assert problems_after(recorder, clock, 600) == []
    assert problems_after(recorder, clock, 1) == [f"{NAME} has ended no batch for 10 min."]
    recorder.on_progress(progress())
    assert problems_after(recorder, clock, 600) == []
    assert len(problems_after(recorder, clock, 1)) == 1


@pytest.mark.parametrize("step_s", [7200, -7200])
def test_a_step_of_the_wall_clock_changes_no_health(
    recorder: StatusRecorder, clock: Clock, step_s: int
) -> None:
    start(recorder, Trigger.REAL_TIME, 300.0)
    recorder.on_progress(progress())
    clock.ms += 1000 * step_s
    assert problems_after(recorder, clock, 600) == []
    assert problems_after(recorder, clock, 1) == [f"{NAME} has ended no batch for 10 min."]


def test_a_query_that_waits_for_its_restart_is_unhealthy_after_ten_seconds(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.MICRO_BATCH, 10.0)
    recorder.on_failure(NAME, "no luck.")
    assert problems_after(recorder, clock, 10) == []
    assert problems_after(recorder, clock, 1) == [f"{NAME} has not run for 11 s: no luck."]


def test_a_query_that_has_read_everything_is_healthy(
    recorder: StatusRecorder, clock: Clock
) -> None:
    start(recorder, Trigger.AVAILABLE_NOW, 10.0)
    recorder.on_topics({"user-actions": 11})
    recorder.on_finish(NAME)
    recorder.on_topics({"user-actions": 12})
    assert problems_after(recorder, clock, 3600) == []


def test_a_driver_that_has_ended_names_its_jobs(recorder: StatusRecorder) -> None:
    driver = recorder.snapshot()
    driver.error = "the disk is full."
    assert problems(driver, T0) == [
        f"process {os.getpid()} has ended: the disk is full. (jobs: {NAME})"
    ]


def everything(recorder: StatusRecorder) -> None:
    """Start queries with long names, large numbers and long errors."""
    for name, trigger in (
        ("dead_letters-ad-impressions", Trigger.MICRO_BATCH),
        (NAME, Trigger.MICRO_BATCH),
        ("overheating", Trigger.REAL_TIME),
    ):
        recorder.on_start(name, name, trigger, ["user-actions"], 5.0)
        recorder.on_progress(
            progress(10, name=name, late_records=123_456, inputRowsPerSecond=987_654.3)
        )
    recorder.on_topics({"user-actions": 12_345_678})
    recorder.on_failure(NAME, "java.lang.ArithmeticException: / by zero " + 20 * "and more ")


def test_the_table_fits_into_80_columns_and_hides_nothing(recorder: StatusRecorder) -> None:
    everything(recorder)
    out = StringIO()
    console = Console(file=out, width=80, highlight=False)
    for part in driver_view(recorder.snapshot(), T0 + 2000):
        console.print(part)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(line.rstrip() for line in lines)
    assert (
        "QUERY                       STATE       LATEST   LAG IN/S LATE SKIPPED RESTARTS\n"
        "dead_letters-ad-impressions micro-batch    2 s 12.3M 988k 123k       -        0\n"
        "user_totals                 restarting     2 s 12.3M    - 123k       -        0\n"
        "overheating                 real-time      2 s     -    - 123k       -        0\n"
        "user_totals failed 2 s ago: java.lang.ArithmeticException: / by zero and more"
    ) in text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.25, "0.2"),
        (9.94, "9.9"),
        (999, "999"),
        (1000, "1.0k"),
        (99_940, "99.9k"),
        (99_950, "100k"),
        (12_345_678, "12.3M"),
        (2e9, "2.0G"),
    ],
)
def test_numbers_are_short(number: float | None, text: str) -> None:
    assert short(number) == text


@pytest.fixture
def home(tmp_path: Path, recorder: StatusRecorder, clock: Clock) -> Path:
    """Return a folder with the status file of a healthy driver, which is this process."""
    clock.ms = now_ms()
    start(recorder, Trigger.MICRO_BATCH, 10.0)
    recorder.on_progress(progress(1))
    write_status(own_file(tmp_path, PROGRAM), recorder.snapshot())
    return tmp_path


def test_health_is_one_line_and_an_exit_status(home: Path, recorder: StatusRecorder) -> None:
    env = {"RACKSTREAM_HOME": str(home)}
    done = run("spark_jobs", "health", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "healthy: queries 1, processes 1\n",
        "",
    )
    driver = recorder.snapshot()
    driver.written_time = to_text(now_ms() - 3 * 3_600_000)
    write_status(own_file(home, PROGRAM), driver)
    done = run("spark_jobs", "health", env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"spark_jobs: process {driver.pid} hangs or was killed: its status is 3 h old; "
        f"start it again. (jobs: {NAME})\n"
    )


def test_without_a_driver_health_and_status_say_what_to_do(tmp_path: Path) -> None:
    for command in ("health", "status"):
        done = run("spark_jobs", command, env={"RACKSTREAM_HOME": str(tmp_path)})
        assert done.returncode == 1
        assert done.stderr == (
            f"spark_jobs: no jobs run: there is no status in {tmp_path / 'status'}; start "
            "some with python -m spark_jobs run, or set RACKSTREAM_HOME or RACKSTREAM_STATUS to "
            "theirs.\n"
        )


def test_a_damaged_status_file_is_one_sentence_and_hides_no_other(home: Path) -> None:
    file = own_file(home, PROGRAM)
    broken = file.with_name(file.name.replace(f"-{os.getpid()}.", "-1."))
    broken.write_bytes(file.read_bytes()[:100])
    env = {"RACKSTREAM_HOME": str(home)}
    sentence = f"the status file {broken} is cut off or damaged: delete it;"
    health = run("spark_jobs", "health", env=env)
    assert health.returncode == 1
    assert health.stderr.startswith(f"spark_jobs: {sentence}")
    shown = run("spark_jobs", "status", env=env)
    assert shown.returncode == 1
    assert NAME in shown.stdout
    assert shown.stderr.startswith(f"spark_jobs: {sentence}")


def test_status_has_a_line_for_each_other_program(home: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    now = to_text(now_ms())
    broker = BrokerStatus(servers="localhost:9092", reachable=True, since=now)
    about = {"broker": broker, "pid": gone.pid}
    producer_status = ProgramStatus(**Process("producer", "", now).header() | about)
    write_status(status_folder(home) / f"producer-here-{gone.pid}.json", producer_status)
    about = {"broker": broker, "database": "db", "last_cycle_time": now}
    alerting_status = AlertingStatus(**Process("alerting", "", now).header() | about)
    write_status(status_folder(home) / "alerting-here-2.json", alerting_status)
    alerting_status.missing_topic = "alerts"
    write_status(status_folder(home) / "alerting-here-3.json", alerting_status)
    (status_folder(home) / "producer-here-1.json").write_text("{")
    done = run("spark_jobs", "status", env={"RACKSTREAM_HOME": str(home)})
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    alerting, producer = (next(one for one in lines if name in one) for name in OTHERS)
    assert alerting.startswith(f"alerting: process {os.getpid()} on ")
    assert any(line.startswith("! alerting: the topic alerts no longer exists") for line in lines)
    assert re.match(rf"! producer: process {gone.pid} was killed, \d s ago: start it", producer)
    assert done.stdout.count("is cut off or damaged") == 1
    assert done.returncode == 0, "each program's own command judges it"


def test_status_as_json_has_the_files_and_their_problems(home: Path) -> None:
    done = run("spark_jobs", "status", "--json", env={"RACKSTREAM_HOME": str(home)})
    assert done.returncode == 0, done.stderr
    (driver,) = json.loads(done.stdout)
    assert driver.pop("problems") == []
    assert driver == json.loads(own_file(home, PROGRAM).read_bytes())
    assert driver["queries"][0]["name"] == NAME


def test_watch_shows_changes_until_ctrl_c_and_exits_with_0(
    home: Path, recorder: StatusRecorder, clock: Clock
) -> None:
    env = {"RACKSTREAM_HOME": str(home)}
    with on_terminal("spark_jobs", "status", "--watch", env=env) as (process, output):
        eventually(output, lambda text: NAME in text and " answers" in text)
        clock.ms = now_ms()
        recorder.on_no_answer()
        write_status(own_file(home, PROGRAM), recorder.snapshot())
        eventually(output, lambda text: "does not answer" in text)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None and process.stderr.read() == b""


def test_watch_as_json_is_an_array_per_line(
    home: Path, recorder: StatusRecorder, tmp_path: Path
) -> None:
    env = {"RACKSTREAM_HOME": str(home)}
    file = tmp_path / "lines"
    with program("spark_jobs", "status", "--watch", "--json", env=env, output=file) as process:
        lines = eventually(
            lambda: file.read_text(encoding="utf-8").splitlines(), lambda found: len(found) >= 2
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    for line in lines[:2]:
        (driver,) = json.loads(line)
        assert (driver["pid"], driver["problems"]) == (recorder.snapshot().pid, [])


def test_health_loads_no_spark_and_no_kafka_client() -> None:
    large = ("pyspark", "kafka", "confluent_kafka", "pydantic_settings", "numpy", "rich.table")
    code = (
        "import sys; sys.argv = ['spark_jobs', 'health']\n"
        "import runpy\n"
        "try: runpy.run_module('spark_jobs', run_name='__main__')\n"
        "except SystemExit: pass\n"
        f"print([name for name in {large!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"RACKSTREAM_HOME": "nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    assert "no jobs run" in done.stderr


def test_a_driver_status_is_read_as_it_was_written(
    tmp_path: Path, recorder: StatusRecorder
) -> None:
    everything(recorder)
    file = own_file(tmp_path, PROGRAM)
    write_status(file, recorder.snapshot())
    assert read_status(file, DriverStatus) == recorder.snapshot()
