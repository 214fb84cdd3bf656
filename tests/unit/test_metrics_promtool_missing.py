"""Without promtool, the tests that need it are named as not run, or fail if it is required."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

FILE = "tests/unit/test_metrics_promtool.py"
NAME = "test_promtool_accepts_the_metrics_of_every_program"


def run_without_it(tmp_path: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the file with an empty PATH."""
    clean = {name: value for name, value in os.environ.items() if name != "REQUIRE_PROMTOOL"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", FILE, "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**clean, "PATH": str(tmp_path), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tests_are_named_at_the_end(tmp_path: Path) -> None:
    done = run_without_it(tmp_path)
    assert done.returncode == 0, done.stdout
    last = done.stdout[done.stdout.index("NOT RUN, as promtool") :]
    assert f"{FILE}::{NAME}" in last


def test_a_required_but_missing_promtool_fails_the_tests(tmp_path: Path) -> None:
    done = run_without_it(tmp_path, REQUIRE_PROMTOOL="1")
    assert done.returncode == 1
    assert "REQUIRE_PROMTOOL is 1" in done.stdout and "NOT RUN" not in done.stdout
