"""Run a broker, alerting and a dashboard beside the tests; records reach the page by Kafka only."""

import itertools
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from broker import server
from broker.server import RunningBroker, free_port
from broker.topics import create_topics
from events.inventory import write_inventory
from events.records import Alert, Evidence, encode
from events.times import now_ms, to_text
from events.topics import ALERTS, RACK_READINGS
from tests.browser.dashboard import RunningDashboard, running_dashboard
from tests.builders import new_alert, rack, reading
from tests.support import Kafka, program, run

RACKS = tuple(f"rack-{number:04d}" for number in range(1, 9))
HOSTILE_RACKS = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\u202egpj.rack\u202c",
    "\u200f\u05d0\u05d1\u05d2 rack",
    "x" * 256,
    "a|b\"'&amp; ",
    "rack\u200b-0001",
)
HANGS_AFTER_MS = 120_000
"""How long the page may take to open beside other tests: a second on an idle machine."""
FAILED_REQUEST = "Failed to load resource"
"""What the browser itself logs of an answer such as 503, whatever the page does about it."""


@dataclass(slots=True)
class Site:
    """What runs: a broker that can be stopped, alerting and its database, the dashboard."""

    kafka: Kafka
    dashboard: RunningDashboard
    home: Path
    broker: RunningBroker
    alerting: ExitStack
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(now_ms()))

    @contextmanager
    def opened(self, browser: Browser, **options: Any) -> Iterator[Page]:
        """Open the page in a context of its own; fail if it logs an error."""
        with opened(browser, self.dashboard.url, **options) as page:
            page.locator(f"button.tile[data-rack={RACKS[-1]}]").wait_for()
            yield page

    def read(self, rack_id: str, temperature_c: float, **changes: str) -> None:
        """Send a reading of a rack; `changes` replace its time, its site or its device type."""
        fields: dict[str, Any] = {"event_time": to_text(now_ms())} | changes
        record = reading(next(self.numbers), temperature_c, rack_id, **fields)
        self.kafka.send(RACK_READINGS, [(rack_id, encode(record))])

    @contextmanager
    def reading(self, rack_id: str, temperature_c: float) -> Iterator[None]:
        """Send a reading of a rack every second, as long as the context lasts."""
        ended = threading.Event()

        def send() -> None:
            while not ended.wait(1):
                self.read(rack_id, temperature_c)

        self.read(rack_id, temperature_c)
        with ThreadPoolExecutor(1) as pool:
            sender = pool.submit(send)
            try:
                yield
            finally:
                ended.set()
            sender.result()

    def alert(self, rack_id: str, state: Any = "WARNING") -> Alert:
        """Send an alert about a rack, as the job would."""
        number, at_ms = next(self.numbers), now_ms()
        evidence = Evidence(
            event_id=f"{number}", sequence=1, event_time=to_text(at_ms), temperature_c=95.5
        )
        alert = new_alert(
            number,
            at_ms,
            rack_id,
            state,
            "error" if state == "WARNING" else "info",
            site_id="site-a",
            summary="The last three readings are all at or above 90 °C.",
            evidence=[evidence],
        )
        self.kafka.send(ALERTS, [(rack_id, encode(alert))])
        return alert

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return the open incidents that `alerting list` shows, by subject."""
        database = f"--database={database_in(self.home)}"
        done = run("alerting", "list", "--json", database, env=self.kafka.env)
        assert done.returncode == 0, done.stderr
        incidents = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
        return {incident["subject"]: incident for incident in incidents}

    def restart_broker(self) -> None:
        """Start the broker again after `broker.stop()`, at the same port and with its data."""
        self.broker = server.start(self.broker.port, self.broker.data_dir)

    def stop_alerting(self) -> None:
        """Kill alerting."""
        self.alerting.close()

    def start_alerting(self) -> None:
        """Start alerting again after `stop_alerting()`, with its database."""
        self.alerting.enter_context(alerting_program(self.kafka, self.home))


@contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """Open a dashboard's page in a context of its own; fail if it logs an error."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(HANGS_AFTER_MS)
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(FAILED_REQUEST):
            problems.append(message.text)

    page = context.new_page()
    page.on("console", note)
    page.on("pageerror", lambda error: problems.append(str(error)))
    try:
        page.goto(url)
        page.locator("#connection[data-state=live]").wait_for()
        yield page
        assert problems == []
    finally:
        context.close()


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    """Run everything with some racks."""
    broker = server.start(free_port(), folder / "kafka")
    kafka, inventory = Kafka(broker.bootstrap, "page-"), folder / "inventory.jsonl"
    write_inventory(inventory, [rack(rack_id) for rack_id in RACKS])
    site: Site | None = None
    try:
        create_topics(kafka.bootstrap, kafka.prefix)
        with ExitStack() as alerting:
            alerting.enter_context(alerting_program(kafka, folder))
            with running_dashboard(kafka, inventory, home=folder) as dashboard:
                site = Site(kafka, dashboard, folder, broker, alerting)
                yield site
    finally:
        (site.broker if site else broker).stop()


def alerting_program(kafka: Kafka, home: Path) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """Run alerting, and kill it when the context ends."""
    return program(
        *("alerting", "run", f"--database={database_in(home)}"),
        env={**kafka.env, "RACKSTREAM_HOME": str(home)},
        output=home / "alerting.log",
    )


def database_in(home: Path) -> Path:
    """Return where alerting keeps its incidents."""
    return home / "alerts.sqlite3"


def tile(page: Page, rack_id: str) -> Locator:
    """Return the tile of a rack, whatever its name is."""
    index = page.evaluate(
        "id => [...document.querySelectorAll('button.tile')].findIndex(t => t.dataset.rack === id)",
        rack_id,
    )
    assert index >= 0, f"no tile of {rack_id!r}"
    return page.locator("button.tile").nth(index)


def incident(page: Page, rack_id: str) -> Locator:
    """Return the row of a rack in the list of incidents."""
    return page.locator(f"#incidents-list li.incident[data-subject='{rack_id}']")


def firing(site: Site, page: Page, rack_id: str) -> Locator:
    """Make a rack overheat, and return its row when the page shows it as firing."""
    site.alert(rack_id)
    row = incident(page, rack_id)
    expect(row).to_have_attribute("data-status", "firing")
    return row
