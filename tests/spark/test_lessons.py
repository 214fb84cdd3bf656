"""Every lesson prints its expected output, in one session, and leaves its folders empty."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from events.settings import Settings
from lessons.harness.catalogue import NAMES, load
from lessons.harness.runner import difference_from_expected
from tests.promises import Promises
from tests.support import run

PROMISED_S = 300.0
LIMIT_S = 900
"""Limit for all lessons: four minutes on two idle processors, more on a busy machine."""


def run_lessons(names: Sequence[str], home: Path) -> CompletedProcess[str]:
    env = {
        "RACKSTREAM_JARS": str(Settings().jars_dir.resolve()),
        "RACKSTREAM_HOME": str(home),
        "KAFKA_HEAP_OPTS": os.environ["KAFKA_HEAP_OPTS"],
    }
    return run("lessons", "run", *names, env=env, timeout_s=LIMIT_S)


def differences(names: Sequence[str], stdout: str) -> dict[str, str]:
    """Return, by lesson, what differs from its expected output."""
    found = {}
    for name in names:
        section = re.search(rf"^== {name}: .*\n((?:.*\n)*?)-- [\d.]+ s\n", stdout, re.MULTILINE)
        if section is None:
            found[name] = f"did not end; the last output is\n{stdout[-2000:]}"
        elif difference := difference_from_expected(load(name), section.group(1)):
            found[name] = difference
    return found


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.full
def test_all_lessons_print_their_expected_output(tmp_path: Path, promises: Promises) -> None:
    began_s = time.monotonic()
    done = run_lessons(NAMES, tmp_path)
    took_s = time.monotonic() - began_s
    different = differences(NAMES, done.stdout)
    assert not different, "\n".join([*different.values(), done.stderr[-2000:]])
    assert done.returncode == 0, done.stderr[-2000:]
    assert [path.name for path in (tmp_path / "lessons").iterdir()] == []
    promises.compare("all lessons", took_s, PROMISED_S)
    assert re.search(r"^measured: real-time: median \d+ ms, longest", done.stdout, re.MULTILINE)


def test_a_changed_and_a_missing_output_are_both_found() -> None:
    expected = load("late_rows").expected.read_text(encoding="utf-8")
    stdout = f"== late_rows: title\n{expected}-- 1.0 s\n"
    assert differences(["late_rows"], stdout) == {}
    changed = stdout.replace("10:20  open    2", "10:20  open    3")
    assert "+  10:20  open    3" in differences(["late_rows", "steps"], changed)["late_rows"]
    assert differences(["late_rows", "steps"], changed)["steps"].startswith("did not end")
