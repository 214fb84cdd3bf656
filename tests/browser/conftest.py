"""Start Chromium, a broker, and a dashboard that all tests of the page share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import launch
from tests.browser.site import Site, serving
from tests.monitoring import installed

# Beside other tests a page may be slow. A test that promises a time gives its own.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Return Chromium's path; without it skip the test, or fail if it is required."""
    return installed("chromium", package="chromium", required_by="REQUIRE_CHROMIUM")


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """Run one Chromium for a file."""
    with sync_playwright() as playwright:
        found = launch(playwright, chromium_path)
        yield found
        found.close()


@pytest.fixture(scope="module")
def site(chromium_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a broker, alerting and a dashboard for a file."""
    assert chromium_path
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """Open the page in a window of its own; fail when it reports an error."""
    with site.opened(browser) as found:
        yield found
