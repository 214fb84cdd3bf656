"""Without Alertmanager, the tests that need it are named as skipped, or fail if required."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

FOLDER = "tests/integration/test_alerting_alertmanager"
NAME = "test_alertmanager_knows_open_escalated_and_resolved_alerts"


def run_without_it(tmp_path: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the folder's tests with an empty PATH."""
    clean = {name: value for name, value in os.environ.items() if name != "REQUIRE_ALERTMANAGER"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", FOLDER, "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**clean, "PATH": str(tmp_path), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_skipped_tests_are_named_at_the_end(tmp_path: Path) -> None:
    done = run_without_it(tmp_path)
    assert done.returncode == 0, done.stdout
    last = done.stdout[done.stdout.index("NOT RUN, as prometheus-alertmanager is not installed") :]
    assert f"{FOLDER}/test_alerting_alertmanager.py::{NAME}" in last


def test_a_required_but_missing_alertmanager_fails_the_tests(tmp_path: Path) -> None:
    done = run_without_it(tmp_path, REQUIRE_ALERTMANAGER="1")
    assert done.returncode == 1
    assert "REQUIRE_ALERTMANAGER is 1" in done.stdout and "NOT RUN" not in done.stdout
