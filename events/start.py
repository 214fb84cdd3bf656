"""Prepare a program before it imports its modules, which takes up to three seconds."""

import os
import signal
from types import FrameType


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the program at once with status 130, until `expect_ctrl_c` is called.

    Nothing has been started yet. A `KeyboardInterrupt` would show where the imports were.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, _end)


def expect_ctrl_c() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` from now on, as is Python's default."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(128 + signal.SIGINT)
