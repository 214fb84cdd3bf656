"""The Alertmanager program; without it the tests are skipped, or fail if it is required."""

import os
import shutil

import pytest

NAMES = ("prometheus-alertmanager", "alertmanager")
"""The program's name in Debian and in its own releases."""


@pytest.fixture
def alertmanager() -> str:
    """Return Alertmanager's path, or skip the test."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return found
    if os.environ.get("REQUIRE_ALERTMANAGER") == "1":
        pytest.fail("REQUIRE_ALERTMANAGER is 1, and Alertmanager is not installed", pytrace=False)
    pytest.skip("prometheus-alertmanager is not installed")
