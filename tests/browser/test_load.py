"""The page with 1,000 racks: what a frame costs at 5,000 readings/s, and whether its heap grows.

`DASHBOARD_SECONDS=300 REQUIRE_CHROMIUM=1 python -m pytest tests/browser/test_load.py -s` watches
the heap for five minutes instead of one.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, CDPSession, Page

from broker.server import RunningBroker
from broker.topics import create_topics
from events.inventory import write_inventory
from tests.browser.bench import LEAST_SHARE_OF_RATE, readings_in, replaying
from tests.browser.dashboard import running_dashboard
from tests.browser.replay import inventory_of
from tests.browser.tracing import CATEGORIES, frame_costs_ms, percentile
from tests.promises import Promises
from tests.support import Kafka, above, eventually

pytestmark = pytest.mark.full

RACKS, READINGS_PER_SECOND = 1_000, 5_000
READINGS_OF_THE_HEAP = 1_000
"""The page gets no more at 5,000: the server takes a rack's newest reading, once a second."""
MOST_PER_FRAME_MS = 16.0
MOST_GROWTH = 0.10
SECONDS = float(os.environ.get("DASHBOARD_SECONDS", "60"))
WARM_UP_S, TRACED_S = 10.0, 10.0
COLLECTIONS, COLLECTED_EVERY_S = 10, 0.5
HISTORY_S = 60.0
"""After so long the page's histories of rates are full; until then its heap grows by them."""


def test_a_thousand_racks_cost_little_per_frame_and_the_heap_does_not_grow(
    browser: Browser, broker: RunningBroker, tmp_path: Path, promises: Promises
) -> None:
    kafka, inventory = Kafka(broker.bootstrap, "load-"), tmp_path / "inventory.jsonl"
    create_topics(kafka.bootstrap, kafka.prefix)
    write_inventory(inventory, inventory_of(RACKS))
    with running_dashboard(kafka, inventory, home=tmp_path) as dashboard:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        with replaying(kafka, tmp_path / "traced.jsonl", RACKS, READINGS_PER_SECOND):
            page.goto(dashboard.url)
            eventually(lambda: page.locator("button.tile").count(), lambda count: count == RACKS)
            cdp = page.context.new_cdp_session(page)
            wait(WARM_UP_S)
            temperatures = shown(page)
            with keeping(READINGS_PER_SECOND, kafka, promises):
                browser.start_tracing(page=page, categories=list(CATEGORIES))
                wait(TRACED_S)
            costs = frame_costs_ms(browser.stop_tracing())
            assert sum(a != b for a, b in zip(temperatures, shown(page), strict=True)) > RACKS / 2
        with replaying(kafka, tmp_path / "watched.jsonl", RACKS, READINGS_OF_THE_HEAP):
            wait(HISTORY_S - WARM_UP_S - TRACED_S)
            began_mb = heap_mb(cdp)
            with keeping(READINGS_OF_THE_HEAP, kafka, promises):
                wait(SECONDS)
            ended_mb = heap_mb(cdp)
        page.close()
    p95 = percentile(costs, 0.95)
    print(  # noqa: T201 - for docs/dashboard.md
        f"\n{len(costs)} frames: p50 {percentile(costs, 0.5):.1f} ms, p95 {p95:.1f} ms; "
        f"heap {began_mb:.1f} MB, after {SECONDS:g} s {ended_mb:.1f} MB"
    )
    assert len(costs) > 2 * TRACED_S, "the page was drawn"
    promises.compare("95th percentile of a frame", p95, MOST_PER_FRAME_MS, "ms", margin=1)
    assert ended_mb <= (1 + MOST_GROWTH) * began_mb


@contextmanager
def keeping(rate: float, kafka: Kafka, promises: Promises) -> Iterator[None]:
    """Note whether the replay keeps its rate while the context lasts."""
    began, readings = time.monotonic(), readings_in(kafka)
    yield
    took_s = time.monotonic() - began
    sent = readings_in(kafka) - readings
    at_most_s = sent / rate / LEAST_SHARE_OF_RATE
    promises.compare(f"replay of {sent} readings", took_s, at_most_s, margin=1)


def wait(seconds: float) -> None:
    """Let the page run for a while."""
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began, above(seconds), timeout_s=seconds + 5, every_s=0.5)


def shown(page: Page) -> list[str]:
    """Return what each tile says."""
    tiles = "[...document.querySelectorAll('button.tile')].map(t => t.getAttribute('aria-label'))"
    labels: list[str] = page.evaluate(tiles)
    return labels


def heap_mb(cdp: CDPSession) -> float:
    """Return the smallest size of the page's heap after some forced collections.

    One collection may meet a message that is being read: that is a tenth of the heap. On a busy
    machine every second one does.
    """

    def collected() -> float:
        wait(COLLECTED_EVERY_S)
        cdp.send("HeapProfiler.collectGarbage")
        return float(cdp.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

    return min(collected() for _ in range(COLLECTIONS))
