"""Run a program on a terminal of its own, and read its output."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import ConsoleDimensions

from tests.support import ROOT

NARROW = ConsoleDimensions(80, 24)


@contextmanager
def on_terminal(
    *arguments: str, size: ConsoleDimensions = NARROW, env: Mapping[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[], str]]]:
    """Run `python -m …` on a terminal; yield the process, and a function that returns its output.

    Standard error is a pipe.
    """
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
    output = bytearray()

    def read() -> str:
        while select.select([controller], [], [], 0)[0]:
            output.extend(os.read(controller, 65536))
        return output.decode(errors="replace")

    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment | {"TERM": "xterm"} | dict(env or {}),
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.PIPE,
    )
    try:
        yield process, read
    finally:
        process.kill()
        process.communicate()
        os.close(controller)
        os.close(terminal)
