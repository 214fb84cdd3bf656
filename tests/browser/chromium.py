"""Start the system's Chromium."""

from playwright.sync_api import Browser, Playwright

FLAGS = (
    "--no-sandbox",  # tests may run as root, in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def launch(playwright: Playwright, path: str) -> Browser:
    """Return a headless browser."""
    return playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
