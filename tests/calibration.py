"""Measure how fast a process computes from START to END: `python -m tests.calibration START END`.

Both are seconds of the monotonic clock. Prints the loops per second on average and at the fastest.
"""

import json
import sys
import time
from itertools import pairwise

from loadtest.machine_speed import loop


def main() -> None:
    """Compute from the start to the end, and before it: others may begin later."""
    start_s, end_s = float(sys.argv[1]), float(sys.argv[2])
    while time.monotonic() < start_s:
        pass
    times_s = [time.monotonic()]
    while times_s[-1] < end_s:
        loop()
        times_s.append(time.monotonic())
    each_s = [after - before for before, after in pairwise(times_s)]
    # Others may have ended before the last loop has.
    average, fastest = len(each_s) / sum(each_s), 1 / min(each_s[:-1] or each_s)
    json.dump([average, fastest], sys.stdout)


if __name__ == "__main__":
    main()
