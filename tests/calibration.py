"""Measure how fast a process computes from START to END: `python -m tests.calibration START END`.

Both are seconds of the monotonic clock. Prints the additions per microsecond on average.
"""

import sys
import time

from loadtest.machine_speed import ADDITIONS, loop


def main() -> None:
    """Compute from the start to the end, and before it: others may begin later."""
    start_s, end_s = float(sys.argv[1]), float(sys.argv[2])
    while time.monotonic() < start_s:
        pass
    began_s, loops = time.monotonic(), 0
    while time.monotonic() < end_s or not loops:
        loop()
        loops += 1
    print(loops * ADDITIONS / (time.monotonic() - began_s) / 1e6)  # noqa: T201 - for the caller


if __name__ == "__main__":
    main()
