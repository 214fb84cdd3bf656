"""These tests need Alertmanager: where it is not installed they are named as not run, or fail if it is required."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support import name_not_run

HERE = Path(__file__).parent
NAMES = ("prometheus-alertmanager", "alertmanager")
"""What Debian calls it, and what its makers do."""


@pytest.fixture
def alertmanager() -> str:
    """Return where Alertmanager is; do not begin a test that cannot be run."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return found
    if os.environ.get("REQUIRE_ALERTMANAGER") == "1":
        pytest.fail("REQUIRE_ALERTMANAGER is 1, and Alertmanager is not installed", pytrace=False)
    pytest.skip("Alertmanager is not installed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each test of this folder that was not run."""
    name_not_run(terminalreporter, HERE, "prometheus-alertmanager is not installed")
