"""These tests need Alertmanager: where it is not installed they are named as not run, or fail if it is required."""

import os
import shutil

import pytest

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
    pytest.skip("prometheus-alertmanager is not installed")
