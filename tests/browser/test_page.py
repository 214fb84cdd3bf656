"""The dashboard's page in a real browser: what people see, do and are protected from."""

import base64
import re
import time
import unicodedata
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from events.constants import FLEET_SCOPE
from events.driver_status import PROGRAM
from events.records import DeadLetter, RackTemperature, SignalStatistics, encode
from events.status_file import status_folder, write_status
from events.times import now_ms, to_text
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    AD_CLICKS,
    AD_IMPRESSIONS,
    DEAD_LETTERS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_SESSIONS,
    USER_TOTALS,
    Topic,
)
from tests.browser.keyboard import (
    TWO_FRAMES,
    UNREACHED,
    assert_focus_is_visible,
    at_rest,
    focused_rack,
    press,
    reach,
)
from tests.browser.site import HOSTILE_RACKS, RACKS, Site, firing, incident, tile
from tests.builders import START, T0, click, impression
from tests.driver_statuses import driver, query
from tests.promises import Promises
from tests.support import eventually
from tests.unit.test_dashboard_clickstream import action_count, attribution, session, total

pytestmark = pytest.mark.full

OUTAGE_SEEN_WITHIN_S = 5
"""Beside other tests it is seen within 1.5 s."""
LOWEST_THRESHOLD_C = 90
MOST_ROWS_ON_A_PHONE = 10
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
INVISIBLE_ON_PAGE = """() => {
  const texts = [document.body.textContent];
  for (const node of document.querySelectorAll('[aria-label], [title]')) {
    texts.push(node.getAttribute('aria-label') ?? '', node.title);
  }
  return texts.filter(text => /[\\p{Cf}\\u2028\\u2029]/u.test(text));
}"""
INVISIBLE = {"Cc", "Cf", "Zl", "Zp"}
"""Unicode's categories of control and format characters, and of separators of lines."""
COUNT_ANIMATIONS = """() => {
  window.animations = 0;
  document.addEventListener('animationstart', () => { window.animations++; });
}"""


def test_what_one_person_does_everybody_sees(site: Site, browser: Browser, page: Page) -> None:
    rack_id = RACKS[2]
    row = firing(site, page, rack_id)
    with site.opened(browser) as other:
        row.get_by_role("button", name="Acknowledge").click()
        expect(incident(other, rack_id)).to_have_attribute("data-status", "acknowledged")
        assert site.listed()[rack_id]["acknowledged_by"] == "dashboard"

        row.get_by_role("button", name="Silence").click()
        row.locator(".durations button").first.focus()
        in_other = incident(other, rack_id)
        in_other.get_by_role("button", name="Silence").click()
        in_other.get_by_role("button", name="1 hour").click()
        expect(row).to_have_attribute("data-status", "silenced")
        expect(row.get_by_role("button", name="Unsilence")).to_be_focused()
        assert site.listed()[rack_id]["silenced_until"] is not None

        row.get_by_role("button", name="Unsilence").click()
        expect(in_other).not_to_have_attribute("data-status", "silenced")

    # A silence of the site is not ended by the rack's.
    until = to_text(now_ms() + 3_600_000)
    assert command_of_page(page, "site-a", command="silence", until=until)["status"] < 300
    expect(row).to_have_attribute("data-status", "silenced")
    row.get_by_role("button", name="Unsilence").click()
    expect(row.locator(".notice")).to_contain_text("Is its site silenced, too", timeout=15_000)
    command_of_page(page, "site-a")
    expect(row).not_to_have_attribute("data-status", "silenced")
    site.alert(rack_id, "NORMAL")
    expect(row).to_have_count(0)


def test_every_control_works_by_keyboard(site: Site, page: Page) -> None:
    rack_id = RACKS[3]
    site.kafka.send(RACK_TEMPERATURE, [window(FLEET_SCOPE, 70.0)])
    site.kafka.send(DEAD_LETTERS, [("key", encode(dead_letter(value="x" * 3_000)))])
    row = firing(site, page, rack_id)

    use_header(page)
    # A rack that sends nothing becomes stale, and is no longer the hottest.
    with site.reading(rack_id, 95.5):
        expect(tile(page, rack_id)).to_contain_text("95.5")
        expect(page.locator("#hottest")).to_have_attribute("data-rack", rack_id)
        use_floor_plan(page, rack_id)
    use_incident(page, row, rack_id)
    use_details(page)
    use_panel(page, rack_id)
    assert page.evaluate(UNREACHED) == []
    site.alert(rack_id, "NORMAL")
    expect(row).to_have_count(0)


def use_header(page: Page) -> None:
    """Skip the header, follow its links, and switch the zone and the theme."""
    press(page, page.locator(".skip"))
    assert page.evaluate("document.activeElement.id") == "main"
    links = page.locator("nav a").all()
    for link in links:
        reach(page, link)
        assert_focus_is_visible(page, link)
    for link in (links[-1], links[0]):
        reach(page, link)
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == link.get_attribute("href")
    for control, node, attribute in (
        ("#zone", "#zone", "title"),
        ("#theme", "html", "data-theme"),
    ):
        before = page.locator(node).get_attribute(attribute) or ""
        press(page, page.locator(control))
        expect(page.locator(node)).not_to_have_attribute(attribute, before)
        page.keyboard.press("Space")
        expect(page.locator(node)).to_have_attribute(attribute, before)


def use_floor_plan(page: Page, hot: str) -> None:
    """Open the hottest rack, filter the racks, and open one by the arrow keys."""
    shown, panel = page.locator("button.tile:visible"), page.locator("#rack-panel")
    press(page, page.locator("#hottest"))
    expect(page.locator("#rack-id")).to_have_text(hot)
    press(page, page.locator("#rack-close"))
    expect(panel).to_be_hidden()
    # The focus goes back to the rack's tile, which no filter hides.
    assert focused_rack(page) == hot
    racks = shown.count()

    press(page, page.locator("#rack-filter"), hot[-4:])
    expect(shown).to_have_count(1)
    expect(page.locator("#announcer")).to_have_text("1 rack shown.")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    expect(shown).to_have_count(racks)
    press(page, page.locator("#only-warning"), " ")
    expect(shown).to_have_count(1)
    page.keyboard.press("Space")
    expect(shown).to_have_count(racks)

    reach(page, page.locator("button.tile[tabindex='0']"))
    page.keyboard.press("Home")
    for _ in range(racks):
        if focused_rack(page) == hot:
            break
        page.keyboard.press("ArrowRight")
    assert focused_rack(page) == hot
    press(page, tile(page, hot))
    expect(panel).to_be_visible()
    assert_focus_is_visible(page, page.locator("#rack-close"))
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert focused_rack(page) == hot


def use_incident(page: Page, row: Locator, rack_id: str) -> None:
    """Choose what the list shows; open an incident's rack; acknowledge, silence, unsilence."""
    resolved, still_open = page.locator("#incident-filter button").all()[::-1]
    for button in (resolved, still_open):
        press(page, button)
        expect(button).to_have_attribute("aria-pressed", "true")
    press(page, row.get_by_role("button", name=rack_id))
    expect(page.locator("#rack-id")).to_have_text(rack_id)
    page.keyboard.press("Escape")
    press(page, row.get_by_role("button", name="Acknowledge"))
    expect(row).to_have_attribute("data-status", "acknowledged")
    silence, durations = row.get_by_role("button", name="Silence"), row.locator(".durations")
    press(page, silence)
    reach(page, durations.locator("button").first)
    page.keyboard.press("Escape")
    expect(durations).to_be_hidden()
    assert silence.evaluate("node => node === document.activeElement")
    page.keyboard.press("Space")
    first, *others = durations.locator("button").all()
    reach(page, first)
    assert_focus_is_visible(page, first)
    for duration in others:
        reach(page, duration)
    page.keyboard.press("Enter")
    expect(row).to_have_attribute("data-status", "silenced")
    press(page, row.get_by_role("button", name="Unsilence"), " ")
    expect(row).to_have_attribute("data-status", "acknowledged")


def use_details(page: Page) -> None:
    """Open the values of each chart, the dead letters with one record, and the counts."""
    open_all(page, page.locator("#main summary:not(#dead-letters-list *):visible"))
    first = page.locator("#dead-letters-list > li").first
    press(page, first.locator("summary"))
    record = first.locator("pre")
    expect(record).to_be_visible()
    before = len(record.inner_text())
    press(page, first.get_by_role("button"))
    assert len(record.inner_text()) > before
    assert_focus_is_visible(page, record)
    # Those below are reached in the same way.
    page.locator("#dead-letters > summary").evaluate("node => { node.parentNode.open = false; }")


def open_all(page: Page, summaries: Locator) -> None:
    """Open what each of them folds; see that the focus shows on the first."""
    for number, summary in enumerate(summaries.all()):
        reach(page, summary)
        if number == 0:
            assert_focus_is_visible(page, summary)
        page.keyboard.press("Enter")
        expect(summary.locator("..")).to_have_attribute("open", "")


def use_panel(page: Page, rack_id: str) -> None:
    """Open the evidence of an alert and the values of the charts in the panel of a rack."""
    tile(page, rack_id).focus()
    page.keyboard.press("Enter")
    panel = page.locator("#rack-panel")
    expect(panel.locator("#rack-alerts > li")).not_to_have_count(0)
    summaries = panel.locator("summary:visible")
    open_all(page, summaries)
    expect(panel.locator("#rack-alerts > li").first.get_by_role("region")).to_be_visible()
    assert_head_covers_no_focus(page, summaries)
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def assert_head_covers_no_focus(page: Page, controls: Locator) -> None:
    """Go back from the last of the panel's controls to the first, which scrolls upwards."""
    for control in reversed(controls.all()):
        reach(page, control)
        head = at_rest(page.locator("#rack-panel .panel-head"))
        assert at_rest(control)["y"] >= head["y"] + head["height"], "the head covers the focus"


def test_more_incidents_are_shown_by_keyboard(site: Site, browser: Browser) -> None:
    racks = [f"more-{number}" for number in range(MOST_ROWS_ON_A_PHONE + 1)]
    with site.opened(browser, viewport=PHONE) as page:
        for rack_id in racks:
            site.alert(rack_id)
        rows = page.locator("#incidents-list > li")
        expect(page.locator("[data-figure=incidents]")).to_have_attribute(
            "data-value", str(len(racks))
        )
        expect(rows).to_have_count(MOST_ROWS_ON_A_PHONE)
        press(page, page.locator("#incidents-more"))
        expect(rows).to_have_count(len(racks))
        for rack_id in racks:
            site.alert(rack_id, "NORMAL")
        expect(rows).to_have_count(0)


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
        site.read(rack_id, 60.0 + number, site_id=rack_id, device_type=rack_id)
        site.alert(rack_id)
    eventually(lambda: len(tiles_of(page) & set(HOSTILE_RACKS)), lambda n: n == len(HOSTILE_RACKS))
    eventually(
        lambda: open_subjects(page) & set(HOSTILE_RACKS),
        lambda found: len(found) == len(HOSTILE_RACKS),
    )
    for number, rack_id in enumerate(HOSTILE_RACKS):
        tile(page, rack_id).click()
        expect(page.locator("#rack-now")).to_contain_text(f"{60.0 + number:.1f}")
        # The name of the rack, of its site and of its type are the same text.
        for shown in map(page.locator, ("#rack-id", "#rack-site", "#rack-type")):
            expect(shown).to_have_text(visible(rack_id))
            assert shown.evaluate("node => node.closest('bdi') !== null"), "its direction stays"
            assert shown.locator("*").count() == 0, "no element was made of it"
        assert page.evaluate(INVISIBLE_ON_PAGE) == []
        if rack_id == max(HOSTILE_RACKS, key=len):
            summaries = page.locator("#rack-panel summary:visible")
            open_all(page, summaries)
            assert_head_covers_no_focus(page, summaries)
        page.locator("#rack-close").click()
    assert page.locator("script").count() == scripts
    assert page.locator("img[src='x']").count() == 0
    assert page.title() != "owned"
    assert page.evaluate("document.documentElement.scrollWidth") <= DESKTOP["width"]
    for rack_id in HOSTILE_RACKS:
        site.alert(rack_id, "NORMAL")


def visible(name: str) -> str:
    """Return a name with the code points of its invisible characters, as the page shows it."""
    return "".join(
        f"⟨U+{ord(character):04X}⟩" if unicodedata.category(character) in INVISIBLE else character
        for character in name
    )


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
        expect(figures.first).to_have_attribute("data-value", value)
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


def test_a_tile_flashes_except_for_who_prefers_less_motion(site: Site, browser: Browser) -> None:
    for preference in ("no-preference", "reduce"):
        with site.opened(browser, reduced_motion=preference) as page:
            page.evaluate(COUNT_ANIMATIONS)
            row = firing(site, page, RACKS[5])
            expect(tile(page, RACKS[5])).to_have_attribute("data-state", "WARNING")
            page.evaluate(TWO_FRAMES)
            assert (page.evaluate("window.animations") > 0) == (preference == "no-preference")
            # Hidden by the filter, it has no animation that could end.
            page.locator("#rack-filter").fill("no rack")
            site.alert(RACKS[5], "NORMAL")
            expect(row).to_have_count(0)
            page.locator("#rack-filter").fill("")
            expect(page.locator(".tile.flash")).to_have_count(0)


def test_a_rack_at_another_site_keeps_its_value_and_the_focus(site: Site, page: Page) -> None:
    rack_id = "rack-moved"
    site.read(rack_id, 61.5)
    expect(page.locator("button.tile[data-rack=rack-moved]")).to_contain_text("61.5")
    tile(page, rack_id).focus()
    site.read(rack_id, 62.5, site_id="site-moved")
    moved = page.get_by_role("group", name="Racks of site-moved").locator("button.tile")
    expect(moved).to_contain_text("62.5")
    expect(moved).to_be_focused()


def test_statistics_are_in_the_order_of_their_types_and_name_the_newest_window(
    site: Site, page: Page
) -> None:
    for device_type, minutes in (("b", 2), ("a", 1), ("c", 2)):
        site.kafka.send(SIGNAL_STATISTICS, [signal(device_type, minutes)])
        expect(page.locator("#signals-table tbody th", has_text=device_type)).to_have_count(1)
    rows = page.locator("#signals-table tbody tr")
    assert [row.locator("th").inner_text() for row in rows.all()] == ["a", "b", "c"]
    assert [bool(row.get_attribute("title")) for row in rows.all()] == [True, False, False]
    newest = page.locator("#signals-window").inner_text()
    site.kafka.send(SIGNAL_STATISTICS, [signal("a", 2)])
    expect(rows.first).not_to_have_attribute("title", re.compile("."))
    assert page.locator("#signals-window").inner_text() == newest


def signal(device_type: str, minutes: int) -> tuple[str, bytes]:
    """Return key and value of the statistics of a type of device, some minutes after the start."""
    row = SignalStatistics(
        window_start=to_text(T0 + 60_000 * minutes),
        window_end=to_text(T0 + 60_000 * (minutes + 1)),
        device_type=device_type,
        rack_id=None,
        reading_count=3,
        signal_strength_avg=0.5,
        signal_strength_min=0.25,
        signal_strength_max=0.75,
    )
    return device_type, encode(row)


def test_readings_far_apart_are_drawn_as_dots_and_one_with_a_wrong_clock_is_not(
    site: Site, page: Page
) -> None:
    rack_id = RACKS[1]
    site.read(rack_id, 60.0)
    tile(page, rack_id).click()
    line = page.locator("#rack-temperature path.line").first
    expect(line).to_have_attribute("d", re.compile(r"^M[\d.]+ [\d.]+h0"))
    before = line.get_attribute("d") or ""
    site.read(rack_id, 61.0, event_time=to_text(now_ms() + 3_600_000))
    expect(page.locator("#rack-now")).to_contain_text("61")
    page.evaluate(TWO_FRAMES)
    assert (line.get_attribute("d") or "").count("h0") == before.count("h0")
    page.locator("#rack-close").click()


def test_absurd_temperatures_neither_freeze_the_page_nor_spoil_its_scale(
    site: Site, page: Page
) -> None:
    # An axis from 1e16 to 1e16 has no room for steps of one: the sum of both is 1e16.
    temperatures = {"rack-huge": 1e16, "rack-tiny": -1e16}
    for rack_id, temperature_c in temperatures.items():
        site.read(rack_id, temperature_c)
        site.kafka.send(RACK_TEMPERATURE, [window(rack_id, temperature_c)])
    eventually(lambda: tiles_of(page) & temperatures.keys(), lambda found: len(found) == 2)
    for rack_id in temperatures:
        tile(page, rack_id).click()
        expect(page.locator("#rack-temperature .line")).not_to_have_count(0)
        expect(page.locator("#rack-windows .range")).not_to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= DESKTOP["width"]
        page.locator("#rack-close").click()
    site.read("rack-huge", temperatures["rack-huge"])  # lest it is stale, and no longer the hottest
    # The scale follows once a second, just before the figures at the top.
    expect(page.locator("[data-figure=hottest]")).to_have_attribute("data-value", f"{10**16}")
    lowest = page.locator("#legend-labels span").first.inner_text()
    assert int(lowest.partition(" ")[0].replace(",", "")) >= LOWEST_THRESHOLD_C - 60


def window(rack_id: str, temperature_c: float) -> tuple[str, bytes]:
    """Return key and value of a window in which a rack had one temperature."""
    row = RackTemperature(
        scope=rack_id,
        window_start=START,
        window_end=to_text(T0 + 10_000),
        reading_count=1,
        temperature_c_avg=temperature_c,
        temperature_c_min=temperature_c,
        temperature_c_max=temperature_c,
    )
    return f"{rack_id}|{row.window_start}|{row.window_end}", encode(row)


def test_the_end_of_a_name_is_shown_where_the_whole_has_no_room(page: Page) -> None:
    begin, end = tile(page, RACKS[0]).locator(".tile-name > *").all()
    assert begin.inner_text() + end.inner_text() == RACKS[0]
    begin.evaluate("node => { node.textContent = 'a'.repeat(100); }")
    is_whole = "node => node.scrollWidth <= node.clientWidth"
    assert not begin.evaluate(is_whole)
    assert end.evaluate(is_whole)
    is_inside = """node => node.getBoundingClientRect().right
      <= node.closest('.tile').getBoundingClientRect().right"""
    assert end.evaluate(is_inside)


def test_without_alerting_the_page_says_so_and_calls_nothing_normal(site: Site, page: Page) -> None:
    banner, above = page.locator("#banner"), page.locator("#incidents-outdated")
    when_none = page.locator("#incidents-empty")
    expect(when_none).to_contain_text("All racks are normal")
    expect(above).to_be_hidden()
    site.stop_alerting()
    expect(banner).to_contain_text("Alerting is not working. The incidents are as of")
    expect(above).to_contain_text("Alerting is not working. The incidents are as of")
    expect(when_none).not_to_contain_text("normal")
    expect(page.locator("#problems")).to_contain_text("Alerting is not working.")
    site.start_alerting()
    expect(banner).to_have_text("Alerting is working again.")  # which it says for 5 s
    expect(above).to_be_hidden()
    expect(when_none).to_contain_text("All racks are normal")


def test_a_query_that_ends_no_batch_is_shown_as_stuck(site: Site, page: Page) -> None:
    at_ms = now_ms()
    started = to_text(at_ms - 1_200_000)
    times = {"started_time": started, "last_progress_time": started}
    stuck = query("user_totals", without_batch_s=600.0, waiting_records=7, **times)
    status = driver(stuck, query("archive", **times), prefix="page-", written_ms=at_ms)
    file = status_folder(site.home) / f"{PROGRAM}-elsewhere-1.json"
    write_status(file, status)
    rows, facts = page.locator("#queries tbody tr"), page.locator("#queries-facts")
    expect(facts).to_have_text("1 running, 1 stuck")
    sentence = "user_totals has ended no batch for 10 min, although records wait."
    expect(rows.filter(has_text="user_totals")).to_contain_text(f"stuck{sentence}")
    expect(rows.filter(has_text="archive")).to_contain_text("running")
    problems = page.locator("#problems")
    expect(problems).to_contain_text(sentence)
    file.unlink()
    expect(problems).not_to_contain_text(sentence)
    expect(facts).to_be_empty()


def test_a_dead_letter_that_is_no_text_is_shown_as_bytes(site: Site, page: Page) -> None:
    value = b"\xff\xfe rack \x00"
    record = dead_letter(
        source_topic="<b>rack\u200b-readings",
        value_base64=base64.b64encode(value).decode(),
        value_size=len(value),
    )
    site.kafka.send(DEAD_LETTERS, [("key", encode(record))])
    page.locator("#dead-letters > summary").click()
    row = page.locator("#dead-letters-list > li").filter(has_text="<b>rack")
    row.locator("summary").click()
    expect(row).to_contain_text("<b>rack⟨U+200B⟩-readings")
    expect(row.locator("pre")).to_have_text("0000  ff fe 20 72 61 63 6b 20 00  .. rack .")


def dead_letter(**changes: Any) -> DeadLetter:
    """Return a dead letter that no earlier one is equal to."""
    fields: dict[str, Any] = {
        "source_topic": "rack-readings",
        "partition": 0,
        "offset": now_ms(),
        "reason": "unreadable",
        "value": None,
        "value_base64": None,
        "value_size": 3_000,
        "error": "It is not UTF-8.",
        "seen_time": to_text(now_ms()),
    }
    return DeadLetter(**fields | changes)


def test_a_stopped_broker_is_seen_within_five_seconds_and_the_page_recovers(
    site: Site, page: Page, promises: Promises
) -> None:
    banner = page.locator("#banner")
    expect(banner).to_be_hidden()
    site.read(RACKS[6], 61.5)
    expect(tile(page, RACKS[6])).to_contain_text("61.5")
    expect(tile(page, RACKS[6])).not_to_have_attribute("data-stale", "")
    site.broker.stop()
    stopped = time.monotonic()
    expect(banner).to_be_visible()
    seen_s = time.monotonic() - stopped
    promises.compare("stopped broker on the page", seen_s, OUTAGE_SEEN_WITHIN_S, margin=1)
    # Nothing is sent any more, and the page says how old what it shows is.
    expect(tile(page, RACKS[6])).to_have_attribute("data-stale", "")
    refused = command_of_page(page, RACKS[7])
    assert refused["status"] == 503
    assert refused["error"]
    site.restart_broker()
    expect(banner).to_be_hidden()
    site.read(RACKS[6], 62.5)
    expect(tile(page, RACKS[6])).to_contain_text("62.5")
    row = firing(site, page, RACKS[7])
    assert row.count() == 1


def command_of_page(
    page: Page, subject: str, command: str = "unsilence", **fields: str
) -> dict[str, Any]:
    """Send a command as the page does; return the status, and the error if there is one."""
    found: dict[str, Any] = page.evaluate(
        """async command => {
          const response = await fetch('/api/commands', {method: 'POST', headers: {
            'Content-Type': 'application/json', 'X-Requested-With': 'rackstream-dashboard'},
            body: JSON.stringify(command)});
          const answer = await response.text();
          return {status: response.status, ...JSON.parse(answer || '{}')};
        }""",
        {"command": command, "rule": "rack-overheating", "subject": subject, **fields},
    )
    return found
