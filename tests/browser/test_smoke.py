"""A look at the page in the quick tier; test_page.py looks at all of it."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from events.records import encode
from events.topics import ALERTS, INCIDENTS, RACK_READINGS
from tests.browser.dashboard import running_dashboard
from tests.browser.site import incident as incident_row
from tests.browser.site import opened
from tests.builders import alert_value, incident, reading
from tests.support import Kafka
from tests.unit.test_dashboard_state import RULE

RACK = "rack-0001"


def test_the_page_shows_a_rack_and_its_alert(
    browser: Browser, topics: Kafka, tmp_path: Path
) -> None:
    with (
        running_dashboard(topics, home=tmp_path) as dashboard,
        opened(browser, dashboard.url) as page,
    ):
        topics.send(RACK_READINGS, [(RACK, encode(reading(1, 95.5, RACK)))])
        tile = page.locator(f"button.tile[data-rack={RACK}]")
        expect(tile).to_contain_text("95.5")
        expect(tile).to_have_attribute("data-state", "NORMAL")
        topics.send(ALERTS, [(RACK, alert_value(1))])
        topics.send(INCIDENTS, [(f"{RULE}|{RACK}", encode(incident(RACK)))])
        expect(tile).to_have_attribute("data-state", "WARNING")
        expect(incident_row(page, RACK)).to_contain_text("firing")
        tile.click()
        expect(page.locator("#rack-alerts > li")).to_contain_text("WARNING")
