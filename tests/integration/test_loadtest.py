"""A tiny plan from its file to its report, with a real broker and Spark; and Ctrl-C in one."""

import csv
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from events.settings import Settings
from jars.java import QUICK_JAVA
from loadtest.measure.result import SavedRun, load
from loadtest.reports.compare import cpu_us_per_record
from tests.support import eventually, program

pytestmark = pytest.mark.full

PLAN = """
description: A few seconds of each.
jobs: [overheating]
rate: 300
racks: 20
faults:
  - {fault: hovering, racks: 20}
  - {fault: malformed, share: 0.01}
  - {fault: duplicate, share: 0.02, max_s: 1}
warm_up: 4
duration: 6
gates: {schedule_lag_ms: 5000, tail_s: 60} # the test machine is busy
"""
MARK = "LOADTEST_UNDER_TEST"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put runs into the test's own folder; afterwards no process of theirs may be running."""
    monkeypatch.setenv("RACKSTREAM_JARS", str(Settings().jars_dir.resolve()))
    monkeypatch.setenv("RACKSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", QUICK_JAVA)
    monkeypatch.setenv(MARK, str(tmp_path))
    yield tmp_path
    eventually(lambda: started(tmp_path), lambda running: not running)


def started(home: Path) -> list[str]:
    """Return the command lines of this test's processes that still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == str(home):
                found.append(" ".join(process.cmdline())[:200])
    return found


def started_java(home: Path) -> int:
    return sum(line.partition(" ")[0].endswith("java") for line in started(home))


def plan(folder: Path, text: str = PLAN) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def saved_run(home: Path, name: str) -> SavedRun:
    return load(home / "load" / name)


def test_a_tiny_plan_gives_a_valid_point_and_a_report(home: Path) -> None:
    with program("loadtest", "run", plan(home), output=home / "output.log") as process:
        status = process.wait(timeout=300)
    output = (home / "output.log").read_text(encoding="utf-8")
    assert status == 0, output
    saved = saved_run(home, "tiny")
    (point,) = saved.points
    assert point.valid, point.reasons
    assert [gate.passed for gate in point.gates] == [True] * 6
    # 300 readings/s for 10 s, 2 % of them repeated once or twice.
    assert 3000 < point.sent <= 3130
    assert point.in_per_s == pytest.approx(300, rel=0.2)
    assert point.from_schedule is not None
    assert point.from_append is not None
    assert point.from_schedule.count >= 100
    assert 0 < point.from_append.p50 <= point.from_schedule.p50 <= point.from_schedule.max
    assert point.processes["jobs (JVM)"].rss_mib > 100
    assert point.machine_speed
    assert 10 < (cpu_us_per_record(point) or 0) < 20_000  # at most six processors at 300/s
    assert (saved.run.ended, saved.run.points) == ("", 1)

    folder = saved.folder / "points" / point.folder
    table = pq.read_table(folder / "latencies.parquet")
    latencies = [
        seen - due
        for due, seen in zip(
            *(table.column(name).to_pylist() for name in ("scheduled_ms", "seen_ms")), strict=True
        )
        if point.measured_ms[0] <= due < point.measured_ms[1]
    ]
    assert len(latencies) == point.from_schedule.count
    assert max(latencies) == point.from_schedule.max
    with (saved.folder / "points.csv").open(encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)] == ["point", "300/s"]
    assert "1 of 1 points, 1 of them valid" in (saved.folder / "report.html").read_text(
        encoding="utf-8"
    )
    assert (saved.folder / "ecdf.png").stat().st_size > 5000
    assert not (saved.folder / "kafka").exists()


KILLED = """
jobs: [overheating]
trigger: micro-batch
count: 6000
kill_at: 0.5
racks: 20
faults:
  - {fault: overheating, racks: 20}
  - {fault: malformed, share: 0.01}
options: [--records-per-batch=2000]
"""


def test_a_killed_catch_up_recovers_and_misses_nothing(home: Path) -> None:
    with program(
        "loadtest", "run", plan(home, KILLED), "--name=killed", output=home / "output.log"
    ) as process:
        status = process.wait(timeout=300)
    assert status == 0, (home / "output.log").read_text(encoding="utf-8")
    (point,) = saved_run(home, "killed").points
    assert point.valid, point.reasons
    assert point.startup_s is not None
    assert point.recovery_s is not None
    assert point.startup_s > 1
    assert point.recovery_s > 1
    assert cpu_us_per_record(point) is None, "the killed jobs have done a part"


BENCHMARK = """
description: A few records, sent by two producers at once and by ProducerPerformance.
jobs: []
count: 20001
truth: false
variants:
  - {name: two, senders: 2}
  - {name: kafka, sender: producer-performance}
"""


def test_senders_are_measured_without_jobs(home: Path) -> None:
    with program("loadtest", "run", plan(home, BENCHMARK), output=home / "output.log") as process:
        status = process.wait(timeout=120)
    assert status == 0, (home / "output.log").read_text(encoding="utf-8")
    two, kafka = saved_run(home, "tiny").points
    for point in (two, kafka):
        assert point.valid, point.reasons
        assert point.sent == 20_001
        assert point.throughput_per_s is not None
        # Between the slowest rate within the test's time and the fastest of any machine.
        assert 200 < point.throughput_per_s < 50_000_000
        assert point.machine_speed
    folders = saved_run(home, "tiny").folder / "points"
    sent = [
        json.loads(log.read_text().splitlines()[-1])["sent"]
        for log in folders.glob("two-*/sender-*.log")
    ]
    assert sorted(sent) == [10_000, 10_001]


def test_ctrl_c_leaves_a_report_and_no_processes(home: Path) -> None:
    text = PLAN.replace("duration: 6", "duration: 600")
    with program(
        "loadtest", "run", plan(home, text), "--name=cut", output=home / "output.log"
    ) as process:
        eventually(
            lambda: (home / "output.log").read_text(encoding="utf-8"),
            lambda output: " of 604 s" in output,
            timeout_s=180,
        )
        process.send_signal(signal.SIGINT)
        eventually(lambda: started_java(home), lambda running: running < 2, timeout_s=60)
        process.send_signal(signal.SIGINT)  # an impatient second Ctrl-C during the shutdown
        status = process.wait(timeout=120)
    assert status == 130, (home / "output.log").read_text(encoding="utf-8")
    saved = saved_run(home, "cut")
    assert (saved.points, saved.run.ended) == ([], "it was interrupted by Ctrl-C")
    page = (saved.folder / "report.html").read_text(encoding="utf-8")
    assert "This run is incomplete: it was interrupted by Ctrl-C." in page
