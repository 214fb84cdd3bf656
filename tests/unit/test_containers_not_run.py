"""Without a Docker engine the container tests are listed as not run, or fail if it is required."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

FILE = "tests/containers/test_image.py"
NAMES = (
    "test_the_image_is_small_enough_and_nobody_in_it_is_root",
    "test_compose_understands_the_file",
)


def run_without_engine(tmp_path: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run one file of the container tests with an address at which no engine is."""
    clean = {name: value for name, value in os.environ.items() if name != "REQUIRE_DOCKER"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", FILE, "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**clean, "DOCKER_HOST": f"unix://{tmp_path}/none.sock", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_they_are_named_in_the_last_lines(tmp_path: Path) -> None:
    done = run_without_engine(tmp_path)
    assert done.returncode == 0, done.stdout
    last = done.stdout[done.stdout.index("NOT RUN, as no Docker engine answers") :]
    for name in NAMES:
        assert f"{FILE}::{name}" in last
    assert "3 skipped" in done.stdout.splitlines()[-1]


def test_they_fail_where_an_engine_is_required(tmp_path: Path) -> None:
    done = run_without_engine(tmp_path, REQUIRE_DOCKER="1")
    assert done.returncode == 1
    assert "REQUIRE_DOCKER is 1, and no Docker engine answers" in done.stdout
    assert "NOT RUN" not in done.stdout
