"""Tests that lack a program are named as not run, or fail if the program is required."""

import os
import re
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
        "test_compose_understands_the_file_with_every_profile",
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


ALL = (DOCKER, ALERTMANAGER, PROMTOOL, CHROMIUM)
each_program = pytest.mark.parametrize("missing", ALL, ids=lambda each: each.reason)


@pytest.fixture(scope="module")
def without_programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run the tests without the programs; return what pytest prints."""
    done = run_without_programs(tmp_path_factory.mktemp("empty"))
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def programs_required(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run the tests without the programs, each of which is required; return what pytest prints."""
    required = {missing.required_by: "1" for missing in ALL}
    done = run_without_programs(tmp_path_factory.mktemp("empty"), **required)
    assert done.returncode == 1, done.stdout
    return done.stdout


@each_program
def test_tests_without_their_program_are_named(missing: Missing, without_programs: str) -> None:
    sections = dict(re.findall(r"=+ NOT RUN, as (.*?) =+\n((?:tests/.*\n)+)", without_programs))
    named = sections[missing.reason].splitlines()
    for name in missing.names:
        assert f"{missing.file}::{name}" in named
    assert "passed" not in without_programs.splitlines()[-1]


@each_program
def test_tests_without_their_program_fail_if_it_is_required(
    missing: Missing, programs_required: str
) -> None:
    program = missing.reason.replace(" (package prometheus)", "")
    assert f"{missing.required_by} is 1, and {program}" in programs_required
    for name in missing.names:
        assert f"ERROR {missing.file}::{name}" in programs_required
    assert "NOT RUN" not in programs_required


def run_without_programs(empty: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the files' tests with an empty PATH, and no Docker engine at the given address."""
    required_by = {missing.required_by for missing in ALL}
    clean = {name: value for name, value in os.environ.items() if name not in required_by}
    nothing = {"PATH": str(empty), "DOCKER_HOST": f"unix://{empty}/none.sock"}
    files = [missing.file for missing in ALL]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *files, "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=clean | nothing | env,
        capture_output=True,
        text=True,
        check=False,
    )
