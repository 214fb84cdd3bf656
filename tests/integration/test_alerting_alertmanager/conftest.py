"""Find Alertmanager; without it the tests are skipped, or fail if it is required."""

import pytest

from tests import monitoring


@pytest.fixture
def alertmanager() -> str:
    """Return Alertmanager's path, or skip the test."""
    return monitoring.alertmanager()
