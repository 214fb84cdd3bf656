"""The dashboard's page in a real browser: what people see, do and are protected from."""

import time
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from events.records import encode
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    AD_CLICKS,
    AD_IMPRESSIONS,
    ALERTS,
    USER_SESSIONS,
    USER_TOTALS,
    Topic,
)
from tests.browser.site import HOSTILE_RACKS, RACKS, Site, incident, tile
from tests.builders import click, impression
from tests.support import eventually
from tests.unit.test_dashboard_clickstream import action_count, attribution, session, total

pytestmark = [pytest.mark.full, pytest.mark.alone]

SEEN_WITHIN_MS = 1000
OUTAGE_SEEN_WITHIN_S = 5
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
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


def firing(site: Site, page: Page, rack_id: str) -> Locator:
    """Make a rack overheat, and return its row when the page shows it as firing."""
    site.alert(rack_id)
    row = incident(page, rack_id)
    expect(row).to_have_attribute("data-status", "firing", timeout=15_000)
    return row


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
    site.alert(rack_id, "NORMAL")
    expect(tile(page, rack_id)).to_have_attribute("data-state", "NORMAL", timeout=15_000)


def test_what_one_person_does_everybody_sees(site: Site, browser: Browser, page: Page) -> None:
    rack_id = RACKS[2]
    row = firing(site, page, rack_id)
    with site.opened(browser) as other:
        row.get_by_role("button", name="Acknowledge").click()
        expect(incident(other, rack_id)).to_have_attribute("data-status", "acknowledged")
        assert site.listed()[rack_id]["acknowledged_by"] == "dashboard"

        in_other = incident(other, rack_id)
        in_other.get_by_role("button", name="Silence").click()
        in_other.get_by_role("button", name="1 hour").click()
        expect(row).to_have_attribute("data-status", "silenced")
        assert site.listed()[rack_id]["silenced_until"] is not None

        row.get_by_role("button", name="Unsilence").click()
        expect(in_other).not_to_have_attribute("data-status", "silenced")
    site.alert(rack_id, "NORMAL")
    expect(row).to_have_count(0, timeout=15_000)


def test_every_action_works_by_keyboard(site: Site, page: Page) -> None:
    rack_id = RACKS[3]
    site.read(rack_id, 95.5)
    row = firing(site, page, rack_id)
    expect(tile(page, rack_id)).to_contain_text("95.5")

    page.locator("#rack-filter").focus()
    reach(page, page.locator("button.tile[tabindex='0']"))
    page.keyboard.press("Home")
    for _ in RACKS:
        if focused_rack(page) == rack_id:
            break
        page.keyboard.press("ArrowRight")
    assert focused_rack(page) == rack_id
    assert_focus_is_visible(page, tile(page, rack_id))
    page.keyboard.press("Enter")
    panel = page.locator("#rack-panel")
    expect(panel).to_be_visible()
    expect(page.locator("#rack-id")).to_have_text(rack_id)
    expect(panel).to_contain_text("95.5")
    assert_focus_is_visible(page, page.locator("#rack-close"))
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert focused_rack(page) == rack_id

    for name, status in (
        ("Acknowledge", "acknowledged"),
        ("Silence", None),
        ("1 hour", "silenced"),
    ):
        button = row.get_by_role("button", name=name, exact=True)
        reach(page, button)
        assert_focus_is_visible(page, button)
        page.keyboard.press("Enter")
        if status is not None:
            expect(row).to_have_attribute("data-status", status)
    reach(page, row.get_by_role("button", name="Unsilence"))
    page.keyboard.press("Space")
    expect(row).to_have_attribute("data-status", "acknowledged")
    site.alert(rack_id, "NORMAL")


def focused_rack(page: Page) -> str:
    """Return the rack whose tile has the focus."""
    return str(page.evaluate("document.activeElement.dataset.rack"))


def reach(page: Page, wanted: Locator) -> None:
    """Press Tab until an element has the focus; it must take less than twice around the page."""
    for _ in range(200):
        if wanted.evaluate("node => node === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("Tab does not reach it")


def assert_focus_is_visible(page: Page, focused: Locator) -> None:
    """Compare screenshots of an element with and without the focus."""
    focused.scroll_into_view_if_needed()
    box = focused.bounding_box()
    assert box is not None
    around: Any = {
        "x": max(0, box["x"] - 6),
        "y": max(0, box["y"] - 6),
        "width": box["width"] + 12,
        "height": box["height"] + 12,
    }
    assert focused.evaluate("node => node === document.activeElement")
    with_focus = page.screenshot(clip=around, animations="disabled")
    focused.evaluate("node => node.blur()")
    without = page.screenshot(clip=around, animations="disabled")
    focused.evaluate("node => node.focus({focusVisible: true})")
    assert with_focus != without, "the focus does not show"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_no_violation(
    site: Site, browser: Browser, scheme: str, viewport: dict[str, int]
) -> None:
    options = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce"}
    with site.opened(browser, **options) as page:
        firing(site, page, RACKS[4])
        assert_no_violation(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        tile(page, RACKS[4]).click()
        expect(page.locator("#rack-alerts")).to_contain_text("95.5")
        assert_no_violation(page)


def assert_no_violation(page: Page) -> None:
    """Run axe's checks of WCAG and of good practice."""
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()
    assert len(result.response["passes"]) > 10, "axe has checked something"


def test_hostile_names_are_only_text(site: Site, page: Page) -> None:
    scripts = page.locator("script").count()
    for number, rack_id in enumerate(HOSTILE_RACKS):
        site.read(rack_id, 60.0 + number)
        site.alert(rack_id)
    eventually(lambda: len(tiles_of(page) & set(HOSTILE_RACKS)), lambda n: n == len(HOSTILE_RACKS))
    eventually(
        lambda: open_subjects(page) & set(HOSTILE_RACKS),
        lambda found: len(found) == len(HOSTILE_RACKS),
    )
    for number, rack_id in enumerate(HOSTILE_RACKS):
        tile(page, rack_id).click()
        shown = page.locator("#rack-id")
        expect(page.locator("#rack-now")).to_contain_text(f"{60.0 + number:.1f}")
        assert shown.evaluate("node => node.closest('bdi') !== null"), "its direction stays inside"
        assert shown.locator("*").count() == 0, "no element was made of it"
        page.locator("#rack-close").click()
    assert page.locator("script").count() == scripts
    assert page.locator("img[src='x']").count() == 0
    assert page.title() != "owned"
    assert page.evaluate("document.documentElement.scrollWidth") <= DESKTOP["width"]
    for rack_id in HOSTILE_RACKS:
        site.alert(rack_id, "NORMAL")


def tiles_of(page: Page) -> set[str]:
    """Return the racks of the floor plan."""
    return set(
        page.evaluate("[...document.querySelectorAll('button.tile')].map(t => t.dataset.rack)")
    )


def open_subjects(page: Page) -> set[str]:
    """Return the subjects in the list of incidents."""
    rows = (
        "[...document.querySelectorAll('#incidents-list li.incident')].map(r => r.dataset.subject)"
    )
    return set(page.evaluate(rows))


def test_the_figures_are_those_of_the_topics(site: Site, page: Page) -> None:
    rows = [attribution("a", "1", 5.0), attribution("a", "2", 70.0), *map(attribution, "bcd")]
    records: dict[Topic, list[bytes]] = {
        AD_IMPRESSIONS: [encode(impression(name)) for name in "abcd"],
        AD_CLICKS: [encode(click(name, "a")) for name in "12"],
        AD_ATTRIBUTION: [encode(row) for row in (*rows, rows[0])],
        ACTION_COUNTS: [encode(action_count(0, "open", 4)), encode(action_count(1, "open", 5))],
        USER_SESSIONS: [encode(session("ada")), encode(session("bob"))],
        USER_TOTALS: [encode(total("ada", "1200.25")), encode(total("ada", "1300.25"))],
    }
    for topic, values in records.items():
        site.kafka.send(topic, [("key", value) for value in values])
    expected = {
        "impressions": "4",
        "clicks": "2",
        "attributed_clicks": "2",
        "clicked": "1",
        "unclicked": "3",
        "sessions": "2",
        "totals": "1",
        "amount_total": "1300.25",
        "racks": str(page.locator("button.tile").count()),
    }
    for name, value in expected.items():
        figures = page.locator(f"[data-figure={name}]")
        expect(figures.first).to_have_attribute("data-value", value, timeout=15_000)
    expect(page.locator("#actions")).to_contain_text("9")
    expect(page.locator("[data-figure=amount_total]")).to_have_text("1,300.25")


def test_times_are_those_of_the_viewer_with_utc_at_hand(site: Site, browser: Browser) -> None:
    with site.opened(browser, timezone_id="Asia/Tokyo", locale="en-GB") as page:
        zone, clock = page.locator("#clock-zone"), page.locator("#clock")
        expect(zone).to_contain_text("9")
        local = int(clock.inner_text().partition(":")[0])
        page.locator("#zone").click()
        expect(zone).to_have_text("UTC")
        utc = int(clock.inner_text().partition(":")[0])
        assert (local - utc) % 24 in (8, 9), "it may be a moment before the hour"


def test_nothing_is_loaded_from_elsewhere_and_no_inline_script_can_run(
    site: Site, browser: Browser
) -> None:
    context = browser.new_context()
    page, addresses = context.new_page(), set[str]()
    page.on("request", lambda request: addresses.add(request.url))
    page.goto(site.dashboard.url)
    page.locator("#connection[data-state=live]").wait_for()
    assert len(addresses) > 5
    assert {address for address in addresses if not address.startswith(site.dashboard.url)} == set()
    refused = page.evaluate(
        """async () => {
          const violated = new Promise(done =>
            document.addEventListener('securitypolicyviolation', e => done(e.violatedDirective)));
          try {
            const script = document.createElement('script');
            script.textContent = "window.ran = true";
            document.head.append(script);
          } catch { return 'trusted types'; }
          return window.ran ? 'it ran' : await violated;
        }"""
    )
    assert refused in (
        "trusted types",
        "script-src-elem",
        "script-src",
        "require-trusted-types-for",
    )
    assert page.evaluate("window.ran") is None
    context.close()


def test_who_prefers_less_motion_sees_none(site: Site, browser: Browser) -> None:
    with site.opened(browser, reduced_motion="reduce") as page:
        firing(site, page, RACKS[5])
        running = "document.getAnimations().filter(a => a.playState === 'running').length"
        assert page.evaluate(running) == 0
    site.alert(RACKS[5], "NORMAL")


def test_a_stopped_broker_is_seen_within_five_seconds_and_the_page_recovers(
    site: Site, page: Page
) -> None:
    banner = page.locator("#banner")
    expect(banner).to_be_hidden()
    site.read(RACKS[6], 61.5)
    expect(tile(page, RACKS[6])).to_contain_text("61.5")
    expect(tile(page, RACKS[6])).not_to_have_attribute("data-stale", "")
    site.broker.stop()
    stopped = time.monotonic()
    expect(banner).to_be_visible(timeout=15_000)
    assert time.monotonic() - stopped <= OUTAGE_SEEN_WITHIN_S
    # Nothing is sent any more, and the page says how old what it shows is.
    expect(tile(page, RACKS[6])).to_have_attribute("data-stale", "", timeout=15_000)
    refused = incident_command(page, RACKS[7])
    assert refused["status"] in (404, 503)
    assert refused["error"]
    site.restart_broker()
    expect(banner).to_be_hidden(timeout=30_000)
    site.read(RACKS[6], 62.5)
    expect(tile(page, RACKS[6])).to_contain_text("62.5", timeout=15_000)
    row = firing(site, page, RACKS[7])
    assert row.count() == 1


def incident_command(page: Page, rack_id: str) -> dict[str, Any]:
    """Send a command as the page does; return the status and the error."""
    found: dict[str, Any] = page.evaluate(
        """async rackId => {
          const response = await fetch('/api/commands', {method: 'POST', headers: {
            'Content-Type': 'application/json', 'X-Requested-With': 'rackstream-dashboard'},
            body: JSON.stringify(
              {command: 'unsilence', rule: 'rack-overheating', subject: rackId})});
          return {status: response.status, ...await response.json()};
        }""",
        rack_id,
    )
    return found
