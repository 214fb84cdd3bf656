"""Measure how fast this machine computes now: neighbours of a virtual machine may halve its speed.

They use the same core's other hardware thread, which no count of processor time shows.
Figures of two days can be compared only where the machine was equally fast.
"""

import time
from statistics import median

ADDITIONS = 200_000
"""A loop of so many takes some 10 ms."""
MEASURE_S = 0.5


def loop() -> None:
    """Compute for a moment, as an interpreter does: a hash would use other parts of a core."""
    total = 0
    for number in range(ADDITIONS):
        total += number


def additions_per_us(measure_s: float = MEASURE_S) -> float:
    """Return the additions per microsecond of one Python process, the median over some time."""
    times_s: list[float] = []
    end_s = time.perf_counter() + measure_s
    while not times_s or time.perf_counter() < end_s:
        before_s = time.perf_counter()
        loop()
        times_s.append(time.perf_counter() - before_s)
    return ADDITIONS / median(times_s) / 1e6
