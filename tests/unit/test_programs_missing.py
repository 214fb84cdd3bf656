"""Tests that lack a program are named as not run, or fail if the program is required."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT


class Missing(NamedTuple):
    """A program, where tests need it, and what they say of it."""

    file: str
    names: tuple[str, ...]
    required_by: str
    reason: str


DOCKER = Missing(
    "tests/containers/test_image.py",
    (
        "test_the_image_is_small_enough_and_nobody_in_it_is_root",
        "test_compose_understands_the_file",
    ),
    "REQUIRE_DOCKER",
    "no Docker engine answers",
)
ALERTMANAGER = Missing(
    "tests/integration/test_alerting_alertmanager/test_alerting_alertmanager.py",
    ("test_alertmanager_knows_open_escalated_and_resolved_alerts",),
    "REQUIRE_ALERTMANAGER",
    "prometheus-alertmanager is not installed",
)
PROMTOOL = Missing(
    "tests/unit/test_metrics_promtool.py",
    ("test_promtool_accepts_the_metrics_of_every_program",),
    "REQUIRE_PROMTOOL",
    "promtool (package prometheus) is not installed",
)
CHROMIUM = Missing(
    "tests/browser/test_page.py",
    ("test_hostile_names_are_only_text",),
    "REQUIRE_CHROMIUM",
    "chromium is not installed",
)


@pytest.mark.parametrize(
    "missing", [DOCKER, ALERTMANAGER, PROMTOOL, CHROMIUM], ids=lambda each: each.reason
)
def test_tests_without_their_program_are_named_or_fail(missing: Missing, tmp_path: Path) -> None:
    done = run_without_programs(missing, tmp_path)
    assert done.returncode == 0, done.stdout
    last = done.stdout[done.stdout.index(f"NOT RUN, as {missing.reason}") :]
    for name in missing.names:
        assert f"{missing.file}::{name}" in last
    assert "passed" not in done.stdout.splitlines()[-1]

    done = run_without_programs(missing, tmp_path, **{missing.required_by: "1"})
    assert done.returncode == 1
    program = missing.reason.replace(" (package prometheus)", "")
    assert f"{missing.required_by} is 1, and {program}" in done.stdout
    assert "NOT RUN" not in done.stdout


def run_without_programs(
    missing: Missing, tmp_path: Path, **env: str
) -> "subprocess.CompletedProcess[str]":
    """Run a file's tests with an empty PATH, and no Docker engine at the given address."""
    clean = {name: value for name, value in os.environ.items() if name != missing.required_by}
    nothing = {"PATH": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", missing.file, "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=clean | nothing | env,
        capture_output=True,
        text=True,
        check=False,
    )
