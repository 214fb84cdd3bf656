"""How soon the page shows an alert, and opens a silent connection again."""

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from events.topics import ALERTS
from tests.browser.site import RACKS, Site, firing, tile
from tests.support import eventually

pytestmark = [pytest.mark.full, pytest.mark.alone]

SEEN_WITHIN_MS = 1000
SILENCE_MS = 10_000
"""The server sends every 2 s."""
OPENED_AGAIN_WITHIN_MS = 5000
NOTE_WHEN_SEEN = """rackId => {
  window.seen = {};
  const note = () => {
    const tile = [...document.querySelectorAll('button.tile')].find(t => t.dataset.rack === rackId);
    if (tile.dataset.state === 'WARNING') window.seen.tile ??= Date.now();
    const rows = [...document.querySelectorAll('#incidents-list li.incident')];
    if (rows.some(row => row.dataset.subject === rackId && row.dataset.status === 'firing')) {
      window.seen.list ??= Date.now();
    }
  };
  note();
  new MutationObserver(note).observe(document, {subtree: true, childList: true, attributes: true});
}"""


def test_an_overheating_rack_is_seen_within_a_second_of_its_alert(site: Site, page: Page) -> None:
    rack_id = RACKS[0]
    firing(site, page, RACKS[1])  # alerting and the page have worked once
    page.evaluate(NOTE_WHEN_SEEN, rack_id)
    assert page.evaluate("window.seen") == {}
    alert = site.alert(rack_id)
    eventually(lambda: page.evaluate("window.seen"), lambda seen: len(seen) == 2)
    (appended_ms,) = (
        record.timestamp_ms
        for record in site.kafka.read_all(ALERTS)
        if alert.alert_id.encode() in (record.value or b"")
    )
    seen = page.evaluate("window.seen")
    after_ms = {where: at_ms - appended_ms for where, at_ms in seen.items()}
    assert max(after_ms.values()) <= SEEN_WITHIN_MS, after_ms
    for each in (rack_id, RACKS[1]):
        site.alert(each, "NORMAL")
    expect(tile(page, rack_id)).to_have_attribute("data-state", "NORMAL")


def test_a_connection_that_fell_silent_is_opened_again(site: Site, browser: Browser) -> None:
    context = browser.new_context()
    page, held_routes = context.new_page(), list[Route]()

    def hold_the_first(route: Route) -> None:
        if held_routes:
            route.continue_()
        else:
            held_routes.append(route)

    page.clock.install()
    page.route("**/stream", hold_the_first)
    with page.expect_request("**/stream"):
        page.goto(site.dashboard.url)
    connection = page.locator("#connection")
    expect(connection).to_have_attribute("data-state", "lost")
    page.clock.fast_forward(SILENCE_MS)
    expect(connection).to_have_attribute("data-state", "live", timeout=OPENED_AGAIN_WITHIN_MS)
    assert len(held_routes) == 1
    context.close()
