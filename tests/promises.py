"""Compare what tests measure with promised times.

A test run fails above `MARGIN` times a promise (some tests have their own) on a machine that is
fast enough, and reports it as not judged on another. `make promises` is the benchmark: no margin,
whatever the machine.
"""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

import pytest

from tests import calibration
from tests.support import ROOT

MARGIN = 1.5
PROMISED_SPEED = 25.0
"""Additions per microsecond (`loadtest.machine_speed`) where the promised times were measured."""
FAST_ENOUGH = 0.8
"""A machine is overloaded if a busy process per processor computes at less of that speed."""
CALIBRATION_S = 1.0
BEGIN_WITHIN_S = 0.3
"""How long the processes of a calibration take until they run."""
MEASURED = "measured"
"""The property of a test's report that has one measurement and its promise, as a sentence."""


def speed_share() -> float:
    """Return how fast the slowest of as many processes as processors is, 1 as for the promises.

    Programs take time of a processor, and neighbours make it slower (`loadtest.machine_speed`).
    """
    start_s = time.monotonic() + BEGIN_WITHIN_S
    command = [sys.executable, "-S", "-m", calibration.__name__]
    interval = [str(start_s), str(start_s + CALIBRATION_S)]
    processes = [
        subprocess.Popen([*command, *interval], cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    return min(float(process.communicate()[0]) for process in processes) / PROMISED_SPEED


class Promises:
    """Compares what one test measures.

    - `record` takes a property of the test's report, as pytest's `record_property` does.
    - `benchmark`: a missed promise fails, without margin and on any machine.
    - `calibrate` returns the machine's speed, 1 as for the promises. It is called at the start, and
      for a promise that is missed, when the test's own programs have ended.
    """

    def __init__(
        self,
        record: Callable[[str, object], None],
        *,
        benchmark: bool,
        calibrate: Callable[[], float] = speed_share,
    ) -> None:
        self._record, self._benchmark, self._calibrate = record, benchmark, calibrate
        self._speed_before = calibrate()
        self.failed: list[str] = []
        """The promises that the test must fail for."""

    def compare(
        self,
        name: str,
        measured: float,
        promised: float,
        unit: str = "s",
        *,
        margin: float = MARGIN,
    ) -> None:
        """Note a measurement, infinity if there was none, and whether the promise is kept."""
        value = "not measured" if math.isinf(measured) else f"{measured:.1f} {unit}"
        found = f"{name}: {value} (promised: {promised:g} {unit})"
        if measured > promised:
            found += ", missed"
            if measured > margin * promised or self._benchmark:
                speed = min(self._speed_before, self._calibrate())
                if speed >= FAST_ENOUGH or self._benchmark:
                    self.failed.append(found)
                else:
                    found += f", not judged: the machine has {speed:.0%} of the promises' speed"
        self._record(MEASURED, found)


def measured(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each measurement of the tests."""
    return [
        str(value)
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == MEASURED
    ]
