"""Run the project's own programs as child processes, with a topic prefix, and always stop them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

STOP_SECONDS = 30
PYTHON_M = (sys.executable, "-m")


def environment(bootstrap: str, prefix: str) -> dict[str, str]:
    """Return a child's environment: this one's, with the run's broker and topic prefix.

    Children serve no metrics, because all would take the same port.
    """
    return {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "TOPIC_PREFIX": prefix,
        "METRICS_PORT": "",
    }


@contextmanager
def running(
    log: Path, env: Mapping[str, str], *command: str, launcher: tuple[str, ...] = PYTHON_M
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command while the block runs; its output is appended to a log file.

    The launcher is `python -m` unless given.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            [*launcher, *command],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only this program, which stops the others
        )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def kill(pid: int) -> None:
    """Kill a process and all its children at once, as a power cut would."""
    parent = psutil.Process(pid)
    family = [parent, *parent.children(recursive=True)]
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=STOP_SECONDS)
