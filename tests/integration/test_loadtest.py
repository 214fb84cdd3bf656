"""A tiny plan from its file to its report, with a real broker and Spark; and what Ctrl-C leaves of one."""

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
from loadtest.measure.result import Saved, load
from tests.support import eventually, program

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
gates: {slip_ms: 5000, tail_s: 60} # the machine that tests is not quiet
"""
MARK = "LOADTEST_UNDER_TEST"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let runs lie in a folder of the test's own; afterwards nothing that was started there may be left."""
    monkeypatch.setenv("RACKSTREAM_JARS", str(Settings().jars_dir.resolve()))
    monkeypatch.setenv("RACKSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", QUICK_JAVA)
    monkeypatch.setenv(MARK, str(tmp_path))
    yield tmp_path
    eventually(lambda: started(tmp_path), lambda left: not left)


def started(home: Path) -> list[str]:
    """Return the command lines of what was started for this test and still runs."""
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


def held(home: Path, name: str) -> Saved:
    return load(home / "load" / name)


def test_a_tiny_plan_gives_a_valid_point_and_a_report(home: Path) -> None:
    with program("loadtest", "run", plan(home), output=home / "output.log") as process:
        status = process.wait(timeout=300)
    said = (home / "output.log").read_text(encoding="utf-8")
    assert status == 0, said
    saved = held(home, "tiny")
    (point,) = saved.points
    assert point.valid, point.reasons
    assert [gate.holds for gate in point.gates] == [True] * 6
    # 300 readings/s for 10 s, a fiftieth of them once or twice more; 1 % can be no reading.
    assert 3000 < point.sent <= 3130
    assert point.in_per_s == pytest.approx(300, rel=0.2)
    assert point.from_schedule is not None
    assert point.from_append is not None
    assert point.from_schedule.count >= 100
    assert 0 < point.from_append.p50 <= point.from_schedule.p50 <= point.from_schedule.max
    assert point.processes["jobs (JVM)"].rss_mib > 100
    assert (saved.run.ended, saved.run.points) == ("", 1)

    folder = saved.folder / "points" / point.folder
    table = pq.read_table(folder / "latencies.parquet")
    late = [
        seen - due
        for due, seen in zip(
            *(table.column(name).to_pylist() for name in ("scheduled_ms", "seen_ms")), strict=True
        )
        if point.measured_ms[0] <= due < point.measured_ms[1]
    ]
    assert len(late) == point.from_schedule.count
    assert max(late) == point.from_schedule.max
    with (saved.folder / "points.csv").open(encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)] == ["point", "300/s"]
    assert "1 of 1 points, 1 of them valid" in (saved.folder / "report.html").read_text(encoding="utf-8")
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


def test_a_catch_up_that_is_killed_recovers_and_misses_nothing(home: Path) -> None:
    with program(
        "loadtest", "run", plan(home, KILLED), "--name=killed", output=home / "output.log"
    ) as process:
        status = process.wait(timeout=300)
    assert status == 0, (home / "output.log").read_text(encoding="utf-8")
    (point,) = held(home, "killed").points
    assert point.valid, point.reasons
    assert point.start_s is not None
    assert point.recovery_s is not None
    assert point.start_s > 1
    assert point.recovery_s > 1


SENDING = """
description: A few records, by the project's producer twice at once and by Kafka's own.
jobs: []
count: 20001
truth: false
variants:
  - {name: two, senders: 2}
  - {name: kafka, sender: producer-performance}
"""


def test_senders_are_measured_without_jobs(home: Path) -> None:
    with program("loadtest", "run", plan(home, SENDING), output=home / "output.log") as process:
        status = process.wait(timeout=120)
    assert status == 0, (home / "output.log").read_text(encoding="utf-8")
    two, kafka = held(home, "tiny").points
    for point in (two, kafka):
        assert point.valid, point.reasons
        assert point.sent == 20_001
        assert point.whole_per_s is not None
        # No faster than any machine writes, and no slower than in the time that the test gives.
        assert 200 < point.whole_per_s < 50_000_000
    folders = held(home, "tiny").folder / "points"
    sent = [
        json.loads(log.read_text().splitlines()[-1])["sent"] for log in folders.glob("two-*/sender-*.log")
    ]
    assert sorted(sent) == [10_000, 10_001]


def test_ctrl_c_leaves_a_report_and_no_process(home: Path) -> None:
    text = PLAN.replace("duration: 6", "duration: 600")
    with program("loadtest", "run", plan(home, text), "--name=cut", output=home / "output.log") as process:
        eventually(
            lambda: (home / "output.log").read_text(encoding="utf-8"),
            lambda said: " of 604 s" in said,
            timeout_s=180,
        )
        process.send_signal(signal.SIGINT)
        eventually(lambda: started_java(home), lambda left: left < 2, timeout_s=60)
        process.send_signal(signal.SIGINT)  # of an impatient person, while the rest is being ended
        status = process.wait(timeout=120)
    assert status == 130, (home / "output.log").read_text(encoding="utf-8")
    saved = held(home, "cut")
    assert (saved.points, saved.run.ended) == ([], "it was ended by Ctrl-C")
    page = (saved.folder / "report.html").read_text(encoding="utf-8")
    assert "This report is not complete: it was ended by Ctrl-C." in page
