"""Promised times: when a missed one fails a test, and what the last lines of a run say."""

import os
import re
import shutil
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from tests.promises import MEASURED, Promises, speed_share
from tests.support import ROOT

TESTS = """
def test_that_keeps(promises):
    promises.compare("first alert", 30.0, 30)
    promises.compare("cost", 1.96, 2, "%")

def test_that_misses_within_the_margin(promises):
    promises.compare("delay", 5.9, 4)
    promises.compare("frame", 9.0, 16, "ms")

def test_without_times(): pass
"""
LINES = [
    "first alert: 30.0 s (promised: 30 s)",
    "cost: 2.0 % (promised: 2 %)",
    "delay: 5.9 s (promised: 4 s), missed",
    "frame: 9.0 ms (promised: 16 ms)",
]


@pytest.mark.parametrize(
    ("measured_s", "speeds", "benchmark", "fails", "ending"),
    [
        (30.0, [0.3], True, False, ""),
        (30.1, [1.0, 1.0], True, True, ", missed"),
        (30.1, [0.3, 0.3], True, True, ", missed"),
        (45.0, [1.0], False, False, ", missed"),
        (46.0, [0.8, 1.0], False, True, ", missed"),
        (46.0, [1.0, 0.3], False, False, ", missed, not judged: the machine has 30% of the"),
        (46.0, [0.3, 1.0], False, False, ", missed, not judged: the machine has 30% of the"),
    ],
)
def test_a_promise_is_judged_by_its_margin_on_a_fast_machine(
    measured_s: float, speeds: list[float], benchmark: bool, fails: bool, ending: str
) -> None:
    found: dict[str, object] = {}
    promises = Promises(found.__setitem__, benchmark=benchmark, calibrate=lambda: speeds.pop(0))
    promises.compare("first alert", measured_s, 30.0)
    said = f"first alert: {measured_s:.1f} s (promised: 30 s){ending}"
    assert str(found[MEASURED]).removesuffix(" promises' speed") == said
    assert promises.failed == ([said] if fails else [])
    assert speeds == []


def test_what_was_not_measured_is_missed() -> None:
    found: dict[str, object] = {}
    Promises(found.__setitem__, benchmark=False, calibrate=lambda: 0.3).compare("delay", inf, 4.0)
    said = str(found[MEASURED])
    assert said.startswith("delay: not measured (promised: 4 s), missed, not judged")


def test_a_promise_may_have_no_margin() -> None:
    promises = Promises(lambda *_: None, benchmark=False, calibrate=lambda: 1.0)
    promises.compare("frame", 16.0, 16.0, "ms", margin=1)
    assert promises.failed == []
    promises.compare("frame", 16.1, 16.0, "ms", margin=1)
    assert promises.failed == ["frame: 16.1 ms (promised: 16 ms), missed"]


def test_a_calibration_is_relative_to_the_promised_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.01 < speed_share() < 4
    monkeypatch.setattr("tests.promises.PROMISED_SPEED", 1e6)
    assert speed_share() < 0.001


@pytest.mark.parametrize(
    ("options", "status", "counts"),
    [
        ((), 0, "3 passed"),
        (("--promises",), 1, "2 passed, 1 deselected, 1 error"),
    ],
)
def test_a_run_names_what_it_measured_and_a_benchmark_fails_for_it(
    options: tuple[str, ...], status: int, counts: str, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("__init__.py", "calibration.py", "conftest.py", "promises.py", "support.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / "tests" / "test_it.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir=."]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *options, "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout
    said = done.stdout.splitlines()
    after = next(place for place, line in enumerate(said) if "MEASURED" in line)
    assert said[after + 1 : after + 1 + len(LINES)] == LINES
    assert re.search(rf"= {counts} in ", said[-1])
    if status:
        assert f"Failed: {LINES[2]}" in done.stdout
