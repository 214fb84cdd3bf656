"""The project's own programs as child processes, with their own prefix, ended whatever happens."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from events.cli import PersonError

STOP_SECONDS = 30
PYTHON_M = (sys.executable, "-m")


def environment(bootstrap: str, prefix: str) -> dict[str, str]:
    """Return the environment of a child: ours, with the broker and the prefix of the experiment."""
    return {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bootstrap, "TOPIC_PREFIX": prefix}


def produce(env: Mapping[str, str], *options: str) -> dict[str, Any]:
    """Run the producer to its end and return the summary that it prints; raise `PersonError` if it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "producer", "run", *options],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PersonError(
            f"the producer ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        )
    summary: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return summary


def start(
    log: Path, env: Mapping[str, str], *command: str, by: tuple[str, ...] = PYTHON_M
) -> "subprocess.Popen[bytes]":
    """Start a command, one of the project's own modules unless `by` says otherwise; its output goes to a log file."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*by, *command],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C in the terminal reaches the experiment alone, which ends the others
        )


@contextmanager
def running(
    log: Path, env: Mapping[str, str], *command: str, by: tuple[str, ...] = PYTHON_M
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run what `start` starts while the block runs."""
    child = start(log, env, *command, by=by)
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
    """End a program and all that it started, as a power cut would."""
    parent = psutil.Process(pid)
    family = [parent, *parent.children(recursive=True)]
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=STOP_SECONDS)
