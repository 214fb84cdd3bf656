"""Judge times that the documentation promises, only on a machine that is not overloaded."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

import pytest

from loadtest.machine_speed import ADDITIONS
from tests import calibration
from tests.support import ROOT

MARGIN = 1.5
"""A test fails above so many times the promised time."""
PROMISED_AT_LOOPS_PER_S = 25e6 / ADDITIONS
"""How fast a process computes on the machine for which times are promised: 25 additions/µs."""
FREE_ENOUGH = 0.8
"""A machine is overloaded if a busy process per processor computes more slowly than this."""
CALIBRATION_S = 1.0
BEGIN_WITHIN_S = 0.3
"""How long the processes of a calibration take until they run."""
NOT_JUDGED = "not judged"
"""The property of a test's report that names a promise which could not be judged."""
_fastest = 0.0
"""The most loops per second of a process of any calibration so far."""


def free_share() -> float:
    """Return how fast the slowest of as many processes as processors is, 1 at the fastest ever.

    Programs take time of a processor, and neighbours make it slower (`loadtest.machine_speed`).
    """
    global _fastest  # noqa: PLW0603 - the machine's, as of all tests of the process
    start_s = time.monotonic() + BEGIN_WITHIN_S
    command = [sys.executable, "-S", "-m", calibration.__name__]
    interval = [str(start_s), str(start_s + CALIBRATION_S)]
    processes = [
        subprocess.Popen([*command, *interval], cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    speeds = [json.loads(process.communicate()[0]) for process in processes]
    _fastest = max(_fastest, *(fastest for _, fastest in speeds))
    return float(min(average for average, _ in speeds) / _fastest)


def speed() -> float:
    """Return how fast this machine is at its fastest, 1 for that of the promises or a faster one.

    Before the first calibration it is 1.
    """
    return min(1.0, _fastest / PROMISED_AT_LOOPS_PER_S) if _fastest else 1.0


class Promises:
    """Judges the times that a test measures.

    - `record` takes a property of the test's report, as pytest's `record_property` does.
    - `calibrate` returns how much of the machine is free, from 0 to 1. It is called at the start
      and for a promise that is missed, when the test's own programs have ended.
    - `speed` returns how fast the machine is, 1 where times are promised. A machine of half that
      speed may take twice as long.
    """

    def __init__(
        self,
        record: Callable[[str, object], None],
        calibrate: Callable[[], float] = free_share,
        speed: Callable[[], float] = speed,
    ) -> None:
        self._record, self._calibrate, self._speed = record, calibrate, speed
        self._free_before = calibrate()

    def judge(
        self,
        name: str,
        measured: float,
        promised: float,
        *,
        margin: float = MARGIN,
        unit: str = "s",
    ) -> None:
        """Fail above the margin; on an overloaded machine, report instead as not judged.

        A slow machine fails above the margin in proportion; what is between is not judged, nor is
        what never came (infinity), which has no proportion. A share (`%`) is promised for machines
        of any speed.
        """
        self._record(name, f"{measured:.1f} {unit}")
        if measured <= margin * promised:
            return
        speed = 1.0 if unit == "%" else self._speed()
        too_slow = speed == 1 or margin * promised / speed < measured < math.inf
        free = min(self._free_before, self._calibrate())
        found = f"{name}: {measured:.1f} {unit} instead of {promised:g} {unit}"
        if speed < 1:
            found += f", on a machine of {speed:.0%} of the usual speed"
        if too_slow and free >= FREE_ENOUGH:
            pytest.fail(found)
        self._record(NOT_JUDGED, f"{found}, with {free:.0%} of the machine free")


def not_judged(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each promise that tests could not judge."""
    return [
        str(value)
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == NOT_JUDGED
    ]
