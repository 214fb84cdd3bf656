"""The demo as people see it: its scenario, its verdict, its page, and the data that it leaves."""

import json
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, sync_playwright

from broker import server
from broker.server import free_port
from demo.__main__ import RULES as RULES_FILE
from demo.__main__ import SCENARIO
from events.catalog import RACK_OVERHEATING, RULES, WEAK_SIGNAL
from events.topics import (
    DEAD_LETTERS,
    EVENT_TOPICS,
    INCIDENTS,
    RACK_READINGS,
    RACK_TEMPERATURE,
)
from producer.scenario import load_scenario
from tests.browser.chromium import launch
from tests.demo import (
    RULES_IN_BOTH_STATES,
    VERDICT_ROWS,
    RunningDemo,
    alerts_in,
    first_alert_s,
    longest_delays,
    running_demo,
    table_of,
)
from tests.promises import Promises
from tests.readme import as_on_a_terminal, not_printed
from tests.support import Kafka, eventually, run

pytestmark = [pytest.mark.full, pytest.mark.alone]

DURATION_S = 60
"""So long, as the rule `lost-signal` decides after its watermark that the signal is back."""
FIRST_ALERT_WITHIN_S = 30.0
EVERY_RULE_WITHIN_S = 120.0
WEAK_SIGNAL_WITHIN_S = 1.0
"""From the moment when the rule can decide. `test_quick_demo` judges the rules in micro-batches.

Beside the clickstream's jobs two processors are not enough for their bounds.
"""
FIGURES = {
    "dead letters": "dead_letters",
    "clicked impressions": "attributed_clicks",
    "unclicked impressions": "unclicked",
    "sessions": "sessions",
    "user totals": "totals",
}
"""The page's figures that count what a row of the table counts."""
READ_PAGE = """() => {
  const named = (list, name, value) => Object.fromEntries(
    [...document.querySelectorAll(list)].map(n => [name(n), Number(value(n).replaceAll(',', ''))]));
  return {
    figures: Object.fromEntries([...document.querySelectorAll('[data-figure]')]
      .map(node => [node.dataset.figure, node.dataset.value])),
    alerts: named('#alerts-by-rule > li', n => n.querySelector('.bar-name').textContent,
      n => n.querySelector('.bar-value').textContent),
    records: named('#topics td[data-topic]', n => n.dataset.topic, n => n.textContent),
    open: [...document.querySelectorAll('#incidents-list > li.incident')]
      .map(node => [node.dataset.rule, node.dataset.subject]),
  };
}"""


@dataclass(frozen=True, slots=True)
class PlayedDemo:
    """What a demo has printed, what its page showed at the end, how it went, and its folder."""

    text: str
    status: int
    survivors: int
    every_rule_s: float
    page: Mapping[str, Any] | None
    """None where Chromium is not installed."""
    home: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedDemo]:
    """Play the demo's own scenario once, beside a page that is open from its start to its end."""
    chromium = shutil.which("chromium")
    options = (f"--duration={DURATION_S}", f"--port={free_port()}")
    began = time.monotonic()
    with (
        running_demo(tmp_path_factory.mktemp("demo"), *options) as running,
        ExitStack() as stack,
    ):
        running.reach(address_of)
        page = open_page(stack, chromium, address_of(running)) if chromium else None
        running.reach(lambda _: {alert["rule"] for alert in alerts_in(running.text())} >= {*RULES})
        every_rule_s = time.monotonic() - began
        status = running.status()
        # The page keeps what it was sent last.
        shown = page.evaluate(READ_PAGE) if page else None
        survivors = len(running.survivors())
        text, home = running.text(), running.home
        yield PlayedDemo(text, status, survivors, every_rule_s, shown, home)


def address_of(running: RunningDemo) -> str:
    """Return the address of the page that a demo has printed, empty before it has."""
    found = re.search(r"^Dashboard: (http://\S+)$", running.text(), re.MULTILINE)
    return found[1] if found else ""


def open_page(stack: ExitStack, chromium: str, address: str) -> Page:
    """Open the page in a browser that ends with the stack."""
    page = launch(stack.enter_context(sync_playwright()), chromium).new_page()
    eventually(lambda: is_served(address), every_s=0.5)
    page.goto(address)
    page.locator("#connection[data-state=live]").wait_for()
    return page


def is_served(address: str) -> bool:
    """Tell whether the page can be opened."""
    try:
        return requests.get(address, timeout=5).ok
    except requests.ConnectionError:
        return False


def test_the_demos_own_scenario_proves_every_rule_and_every_job(
    played: PlayedDemo, promises: Promises
) -> None:
    text = played.text
    assert played.status == 0, text
    assert played.survivors == 0
    assert text.splitlines()[-1].endswith(": 0 missing, 0 wrong.")
    table = table_of(text)
    assert tuple(table) == (*VERDICT_ROWS, "dashboard figures")
    assert [name for name, (expected, *_) in table.items() if not expected] == []
    states = {(alert["rule"], alert["state"]) for alert in alerts_in(text)}
    assert states == RULES_IN_BOTH_STATES
    assert not_printed([*text.splitlines(), *map(as_on_a_terminal, alerts_in(text))]) == []
    assert "a rack's last 3 readings are all at\nor above its threshold" in text

    promises.compare("first alert of make demo", first_alert_s(text), FIRST_ALERT_WITHIN_S)
    promises.compare("every rule of make demo", played.every_rule_s, EVERY_RULE_WITHIN_S)
    delay_s = longest_delays(text)[WEAK_SIGNAL]
    promises.compare("delay of weak-signal in make demo", delay_s, WEAK_SIGNAL_WITHIN_S)


def test_the_page_shows_the_figures_of_the_truth(played: PlayedDemo, chromium_path: str) -> None:
    page = played.page
    assert page is not None, chromium_path
    assert played.status == 0, played.text
    table = table_of(played.text)
    logged, shown = alerts_in(played.text), page["alerts"]
    shown_by_rule = {name.lower().replace(" ", "-"): count for name, count in shown.items()}
    # As the truth has them: the demo has compared those that were logged with it.
    assert shown_by_rule == Counter(alert["rule"] for alert in logged)
    last = {(alert["rule"], alert["subject"]): alert["state"] for alert in logged}
    still_open = {incident for incident, state in last.items() if state == "WARNING"}
    assert {(rule, subject) for rule, subject in page["open"]} == still_open
    figures = {
        "input records": sum(page["records"][topic.name] for topic in EVENT_TOPICS),
        **{name: int(page["figures"][figure]) for name, figure in FIGURES.items()},
    }
    assert figures == {name: table[name][0] for name in figures}
    assert int(page["figures"]["incidents"]) == len(still_open)
    assert int(page["figures"]["racks"]) == load_scenario(SCENARIO, {}, []).racks


def test_a_verdict_on_what_the_demo_leaves_names_each_output_that_was_spoilt(
    played: PlayedDemo,
) -> None:
    assert played.status == 0, played.text
    database, archive = played.home / "alerting.sqlite3", played.home / "archive"
    (landed,) = archive.glob(f"landing/*-{RACK_READINGS.name}")
    broker = server.start(free_port(), played.home / "kafka")
    try:
        kafka = Kafka(broker.bootstrap, landed.name.removesuffix(RACK_READINGS.name))
        window = kafka.read_all(RACK_TEMPERATURE)[0]
        row = json.loads(window.value or b"") | {"reading_count": 1_000_000}
        kafka.send(RACK_TEMPERATURE, [(window.key, json.dumps(row).encode())])
        with closing(sqlite3.connect(database)) as alerts, alerts:
            (alert_id,) = alerts.execute(
                "SELECT alert_id FROM alerts WHERE json_extract(alert, '$.rule') = ? LIMIT 1",
                (RACK_OVERHEATING,),
            ).fetchone()
            alerts.execute("DELETE FROM alerts WHERE alert_id = ?", (alert_id,))
        dead_letter = json.loads(kafka.read_all(DEAD_LETTERS)[0].value or b"")
        place = {"source_topic": "rack-readings", "partition": 0, "offset": 77_777_777}
        kafka.send(DEAD_LETTERS, [(None, json.dumps(dead_letter | place).encode())])
        kafka.send(INCIDENTS, [(kafka.read_all(INCIDENTS)[0].key, None)])
        kafka.send(RACK_READINGS, [("rack-0001", b"{}")])
        files = (f"--ledger={played.home / 'ledger'}", f"--database={database}")
        world = (f"--inventory={played.home / 'inventory.jsonl'}", f"--rules={RULES_FILE}")
        options = (*files, *world, f"--archive={archive}", "--wait=3")
        verdict = run("demo", "verdict", *options, env=kafka.env)
    finally:
        broker.stop()
    assert "Traceback" not in verdict.stderr
    text = verdict.stdout + verdict.stderr
    assert verdict.returncode == 1, text
    assert tuple(table_of(text)) == VERDICT_ROWS
    # All other rows match the truth.
    spoilt = {name: counts[2:] for name, counts in table_of(text).items() if any(counts[2:])}
    assert spoilt == {
        "input records": [0, 1],
        RACK_OVERHEATING: [1, 0],
        "incidents": [1, 0],
        "dead letters": [0, 1],
        "rack-temperature windows": [0, 1],
        # The four records that were added.
        "archived records": [4, 0],
    }
    assert f"FAILED in {', '.join(spoilt)}: 6 missing, 3 wrong." in text
    assert re.search("^wrong: record .* of rack-readings is of no run$", text, re.MULTILINE)
    assert f"missing: alert {alert_id} " in text
    assert "wrong: dead letter ('rack-readings', 0, 77777777) was not expected" in text
    assert "reading_count is 1000000, not " in text
    for topic in (RACK_READINGS, RACK_TEMPERATURE, DEAD_LETTERS, INCIDENTS):
        assert f" of {topic.name} is not archived" in text
