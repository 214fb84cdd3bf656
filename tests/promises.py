"""Times that the documentation promises, judged only on a machine that is not overloaded."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier

import pytest

MARGIN = 1.5
"""A test fails above so many times the promised time."""
FREE_ENOUGH = 0.8
"""A machine is overloaded if a busy thread per processor computes more slowly than this."""
CALIBRATION_S = 0.5
NOT_JUDGED = "not judged"
"""The property of a test's report that names a promise which could not be judged."""
_BLOCK = bytes(16 << 20)
"""A hash of it takes some 10 ms."""
_fastest = 0.0
"""The most blocks per second that a thread has hashed since the process began."""


def free_share() -> float:
    """Return how fast the slowest of as many threads as processors is, 1 at the fastest ever.

    Programs take time of a processor, and neighbours of a virtual machine make it slower: they use
    the same core's other hardware thread, which no count of processor time shows.
    """
    global _fastest  # noqa: PLW0603 - the machine's, as of all tests of the process
    threads = os.cpu_count() or 1
    together = Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        speeds = list(pool.map(lambda _: _speeds(together), range(threads)))
    _fastest = max(_fastest, *(fastest for _, fastest in speeds))
    return min(average for average, _ in speeds) / _fastest


def _speeds(together: Barrier) -> tuple[float, float]:
    """Return the blocks per second that a thread hashes on average, and at its fastest."""
    together.wait()
    times_s = [time.monotonic()]
    while times_s[-1] - times_s[0] < CALIBRATION_S:
        hashlib.sha256(_BLOCK)  # without Python's lock, so that all threads compute at once
        times_s.append(time.monotonic())
    each_s = [after - before for before, after in pairwise(times_s)]
    # The other threads may have ended before the last block.
    return len(each_s) / sum(each_s), 1 / min(each_s[:-1] or each_s)


class Promises:
    """Judges the times that a test measures.

    - `record` takes a property of the test's report, as pytest's `record_property` does.
    - `calibrate` returns how much of the machine is free, from 0 to 1. It is called at the start
      and for a promise that is missed, when the test's own programs have ended.
    """

    def __init__(
        self,
        record: Callable[[str, object], None],
        calibrate: Callable[[], float] = free_share,
    ) -> None:
        self._record, self._calibrate = record, calibrate
        self._free_before = calibrate()

    def judge(self, name: str, measured_s: float, promised_s: float) -> None:
        """Fail above the margin; on an overloaded machine, report instead as not judged."""
        self._record(name, f"{measured_s:.1f} s")
        if measured_s <= MARGIN * promised_s:
            return
        free = min(self._free_before, self._calibrate())
        found = f"{name}: {measured_s:.1f} s instead of {promised_s:g} s"
        if free >= FREE_ENOUGH:
            pytest.fail(found)
        self.skip(f"{found}, on an overloaded machine with {free:.0%} of a processor free")

    def skip(self, because: str) -> None:
        """Report a promise that this run cannot judge."""
        self._record(NOT_JUDGED, because)


def not_judged(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each promise that tests could not judge."""
    return [
        str(value)
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == NOT_JUDGED
    ]
