"""Provide what container tests need: an engine, the image, and a Compose project of their own.

Without an engine they are listed as not run. With REQUIRE_DOCKER=1 they fail.
"""

import os
import subprocess
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.containers.stack import Stack
from tests.support import ROOT

HERE = Path(__file__).parent
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = (
    "true"  # its image may not be had; each test removes what it made
)


@cache
def engine_missing() -> str:
    """Return why no container can be run here, in Docker's words; nothing if they can."""
    try:
        done = subprocess.run(
            ["docker", "compose", "ls"], capture_output=True, text=True, timeout=180, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() or "docker compose does not work" if done.returncode else ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not begin a test of this folder that cannot be run."""
    if not item.path.is_relative_to(HERE) or not engine_missing():
        return
    if os.environ.get("REQUIRE_DOCKER") == "1":
        pytest.fail(
            f"REQUIRE_DOCKER is 1, and no Docker engine answers: {engine_missing()}", pytrace=False
        )
    pytest.skip("no Docker engine answers")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failed test what its containers wrote last: afterwards they are removed."""
    report = yield
    if call.when == "call" and report.failed and isinstance(item, pytest.Function):
        stack = item.funcargs.get("stack")
        if isinstance(stack, Stack):
            try:
                lines = stack.last_lines()
            except (OSError, subprocess.TimeoutExpired) as error:
                lines = str(error)
            report.sections.append(("last lines of the containers", lines))
    return report


@pytest.fixture(scope="session")
def image() -> None:
    """Build the image that the Compose file names; at once when nothing has changed.

    All services share it, so that one of them is enough.
    """
    build = ["docker", "compose", "build", "--quiet", "topic-init"]
    subprocess.run(build, cwd=ROOT, check=True, timeout=900)


@pytest.fixture
def stack(
    image: None,  # noqa: ARG001
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Stack]:
    """Return a Compose project of the test's own, on free ports; remove it afterwards.

    `@pytest.mark.profiles(...)` names the profiles to switch on, and with `also=` a file that
    overrides parts of the Compose file.
    """
    marker = request.node.get_closest_marker("profiles")
    stack = Stack(tmp_path, marker.args, **marker.kwargs) if marker else Stack(tmp_path, ())
    for name, value in stack.env.items():
        monkeypatch.setenv(name, value)
    try:
        yield stack
    finally:
        stack.remove()
