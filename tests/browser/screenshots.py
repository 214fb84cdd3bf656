"""Make the pictures of the docs from the real demo: `make screenshots`.

It runs the demo, and takes desktop and phone in light and dark while racks overheat, the panel of a
rack, and an animation of a few seconds.
"""

import io
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import requests
import typer
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from broker.server import free_port
from events import cli
from events.cli import UserFacingError
from tests.browser.chromium import launch
from tests.support import ROOT, eventually

IMAGES = ROOT / "docs" / "images"
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
FRAMES, FRAME_MS = 16, 500
ANIMATION_WIDTH = 640
COLORS = 96
"""Few colours keep the files small; a floor plan has not many more."""

app = cli.new_app("Make the pictures of the docs from the real demo.")


@app.command()
def main(
    folder: Annotated[Path, typer.Option(help="Where the pictures go.")] = IMAGES,
    seconds: Annotated[int, typer.Option(help="How long the demo sends, at most.")] = 900,
    address: Annotated[
        str | None,
        typer.Option(help="The address of a running dashboard, instead of a demo of its own."),
    ] = None,
) -> None:
    """Run the demo, and take the pictures when racks are in warning and clicks have joined."""
    path = shutil.which("chromium")
    if path is None:
        raise UserFacingError("chromium is not installed: install it, such as by apt-get.")
    folder.mkdir(parents=True, exist_ok=True)
    with running_demo(seconds, address) as (url, demo), sync_playwright() as playwright:
        browser = launch(playwright, path)
        page = browser.new_page(viewport=DESKTOP)
        eventually(lambda: is_served(url), timeout_s=120, every_s=0.5)
        page.goto(url)
        wait_for_something_to_see(page, demo)
        animate(page, folder / "dashboard.webp")
        take(browser, url, folder)
        browser.close()
    for file in sorted(folder.glob("dashboard*")):
        typer.echo(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


@contextmanager
def running_demo(
    seconds: int, address: str | None
) -> Iterator[tuple[str, "subprocess.Popen[bytes] | None"]]:
    """Yield the dashboard's address and the demo, which runs until the context ends."""
    if address is not None:
        yield address, None
        return
    port = free_port()
    with tempfile.TemporaryFile() as output:
        demo = subprocess.Popen(
            [
                *(sys.executable, "-m", "demo", "run", f"--duration={seconds}"),
                *(f"--port={free_port()}", f"--dashboard-port={port}"),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield f"http://localhost:{port}/", demo
        finally:
            demo.terminate()
            demo.wait()


def is_served(url: str) -> bool:
    """Tell whether the page can be opened."""
    try:
        return requests.get(url, timeout=5).ok
    except requests.ConnectionError:
        return False


def wait_for_something_to_see(page: Page, demo: "subprocess.Popen[bytes] | None") -> None:
    """Wait until racks are in warning and clicks have joined, while readings come.

    Windows, sessions and totals take minutes: two processors have no room for so long beside it.
    """
    seen = """() => document.querySelectorAll('button.tile[data-state=WARNING]').length > 1
      && Number(document.querySelector('[data-figure=clicked]')?.dataset.value) > 0
      && document.querySelectorAll('button.tile[data-stale]').length < 5"""

    def look() -> object:
        if demo is not None and demo.poll() is not None:
            raise UserFacingError("the demo has ended: see .rackstream/demo/logs.")
        return page.evaluate(seen)

    eventually(look, timeout_s=420, every_s=0.5)


def take(browser: Browser, url: str, folder: Path) -> None:
    """Take desktop and phone in light and dark, and the panel of a rack in warning."""
    for device, viewport in (("desktop", DESKTOP), ("phone", PHONE)):
        for scheme in SCHEMES:
            page = browser.new_page(viewport=viewport, device_scale_factor=1)
            page.emulate_media(color_scheme=scheme)
            page.goto(url)
            page.locator("#connection[data-state=live]").wait_for()
            page.locator("button.tile").first.wait_for()
            page.locator("#rates svg, #rates canvas").first.wait_for()
            save(
                page.screenshot(full_page=device == "desktop"),
                folder / f"dashboard-{device}-{scheme}.png",
            )
            if device == "desktop":
                page.locator("button.tile[data-state=WARNING]").first.click()
                page.locator("#rack-alerts li").first.wait_for()
                save(page.screenshot(), folder / f"dashboard-rack-{scheme}.png")
            page.close()


def save(picture: bytes, path: Path) -> None:
    """Write a PNG with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)


def animate(page: Page, path: Path) -> None:
    """Write an animation of the page's first screen."""
    frames = []
    for _ in range(FRAMES):
        began = time.monotonic()
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        height = round(picture.height * ANIMATION_WIDTH / picture.width)
        frames.append(picture.resize((ANIMATION_WIDTH, height), Image.Resampling.LANCZOS))
        page.wait_for_timeout(max(0, FRAME_MS - 1000 * (time.monotonic() - began)))
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=FRAME_MS, loop=0, quality=50
    )


if __name__ == "__main__":
    cli.run(app, "tests.browser.screenshots")
