"""Run a demo as a process beside the test, and read what demos and producers write."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil

from broker.server import free_port
from demo.comparison import Row
from demo.outputs import read_json_lines
from demo.verdict import Truth
from events import settings
from events.catalog import RULES
from tests.support import ROOT, eventually

VERDICT_ROWS = (
    "input records",
    *RULES,
    "incidents",
    "dead letters",
    "rack-temperature windows",
    "signal statistics",
    "clicked impressions",
    "unclicked impressions",
    "sessions",
    "user totals",
    "action counts",
    "distinct actions",
    "archived records",
)
"""The rows of a verdict on all jobs, in its order."""
RULES_IN_BOTH_STATES = {(rule, state) for rule in RULES for state in ("WARNING", "NORMAL")}


@dataclass
class RunningDemo:
    """A demo: its process, folder and output, and every process seen below it."""

    process: "subprocess.Popen[bytes]"
    home: Path
    output: Path
    started: set[psutil.Process] = field(default_factory=set)

    def note(self) -> set[psutil.Process]:
        """Add the processes that run now to those seen before."""
        with suppress(psutil.NoSuchProcess):
            self.started.update(psutil.Process(self.process.pid).children(recursive=True))
        return self.started

    def child(self, words: str) -> psutil.Process | None:
        """Return the process with these words on its command line, if there is one."""
        for process in self.note():
            with suppress(psutil.Error):
                if words in " ".join(process.cmdline()):
                    return process
        return None

    def reach(self, moment: Callable[["RunningDemo"], object]) -> None:
        """Wait for a moment while the demo runs; fail at once when it ends before."""

        def look() -> object:
            reached = moment(self)
            assert reached or self.process.poll() is None, self.text()
            return reached

        eventually(look, timeout_s=180, every_s=0.01)
        self.note()

    def status(self) -> int:
        """Wait until the demo has ended, and return its exit status."""

        def ended() -> int | None:
            self.note()
            return self.process.poll()

        status = eventually(ended, lambda status: status is not None, timeout_s=480)
        assert status is not None
        return status

    def text(self) -> str:
        """Return what it has printed so far."""
        return self.output.read_text(encoding="utf-8")

    def survivors(self) -> list[psutil.Process]:
        """Return the processes that it started and that still run."""
        return [process for process in self.started if _runs(process)]


def read_truth(path: Path) -> Truth:
    """Read the truth file of a run that sent readings only."""
    rows: dict[str, list[Row]] = {}
    for row in read_json_lines(path):
        rows.setdefault(row["kind"], []).append(row)
    (summary,) = rows["summary"]
    return Truth(
        summary,
        rows.get("alert", []),
        rows.get("dead-letter", []),
        rows.get("window", []),
        signal_statistics=rows.get("signal-statistic", []),
    )


def alerts_in(text: str) -> list[dict[str, Any]]:
    """Return the alerts of a demo's output, except a half-written last line."""
    whole, _, _ = text.rpartition("\n")
    return [msgspec.json.decode(line) for line in whole.splitlines() if line.startswith("{")]


def table_of(text: str) -> dict[str, list[int]]:
    """Return the numbers of each row of a demo's table: expected, actual, missing, wrong."""
    count, delays = r" +([\d,]+)", r"(?: +[\d.,]+ s){0,2}"
    rows = re.findall(rf"^ *(\w.*?){4 * count}{delays} *$", text, re.MULTILINE)
    return {name: [int(cell.replace(",", "")) for cell in cells] for name, *cells in rows}


def longest_delays(text: str) -> dict[str, float]:
    """Return the longest delay of each rule that a demo's table has one of, in seconds."""
    rows = re.findall(r"^ *(\w[\w-]*) .* ([\d.,]+) s *$", text, re.MULTILINE)
    return {name: float(delay.replace(",", "")) for name, delay in rows if name in RULES}


def first_alert_s(text: str) -> float:
    """Return how long a demo's first alert took from its start, in seconds."""
    (found,) = re.findall(r"^from start to first alert: ([\d.]+) s$", text, re.MULTILINE)
    return float(found)


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def running_demo(
    tmp_path: Path,
    *options: str,
    folder: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> Iterator[RunningDemo]:
    """Run `python -m demo run OPTIONS` in a folder; on leaving, kill all its processes."""
    home, output = tmp_path / "home", tmp_path / "output"
    places = {
        "PYTHONPATH": str(ROOT),
        "RACKSTREAM_HOME": str(home),
        "RACKSTREAM_JARS": str(settings.load().jars_dir.resolve()),
        "DASHBOARD_PORT": str(free_port()),
    }
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "demo", "run", *options],
            cwd=folder,
            env={**os.environ, **places, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    running = RunningDemo(process, home / "demo", output)
    try:
        yield running
    finally:
        running.note()
        process.kill()
        process.wait()
        for each in running.started:
            with suppress(psutil.NoSuchProcess):
                each.kill()
