"""The dashboard on a real broker: what it shows of each topic, and commands."""

import itertools
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import requests

from broker.server import RunningBroker
from broker.topics import create_topics
from dashboard.app import MAX_STREAMS
from demo.dashboard_figures import read_snapshot
from events.inventory import write_inventory
from events.records import encode
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    AD_CLICKS,
    AD_IMPRESSIONS,
    ALERT_COMMANDS,
    ALERTS,
    ALL,
    INCIDENTS,
    RACK_READINGS,
    USER_SESSIONS,
    USER_TOTALS,
)
from tests.browser.dashboard import RunningDashboard, running_dashboard
from tests.builders import alert_value, click, impression, incident, rack, reading
from tests.readme import transcript
from tests.support import Kafka, equal_to, eventually
from tests.unit.test_dashboard_clickstream import action_count, attribution, session, total

MOST_BYTES_PER_BROWSER = 200_000
"""What waits for a browser that does not read, with the server's own objects."""


@pytest.fixture
def kafka(broker: RunningBroker, request: pytest.FixtureRequest) -> Kafka:
    """Return a broker and a prefix under which no topic exists yet."""
    return Kafka(broker.bootstrap, f"{request.node.name.replace('_', '-')[:100]}-")


@pytest.fixture
def dashboard(kafka: Kafka, tmp_path: Path) -> Iterator[RunningDashboard]:
    """Run a dashboard, started before its topics exist."""
    inventory = tmp_path / "inventory.jsonl"
    write_inventory(inventory, [rack("rack-0001")])
    with running_dashboard(kafka, inventory, home=tmp_path) as running:
        eventually(lambda: missing_topics(running), equal_to({topic.name for topic in ALL}))
        create_topics(kafka.bootstrap, kafka.prefix)
        yield running


def missing_topics(dashboard: RunningDashboard) -> set[str]:
    """Return the topics that the page names as missing."""
    return set(read_snapshot(dashboard.url)["topics_missing"])


def test_by_default_only_this_machine_is_served(dashboard: RunningDashboard) -> None:
    connections = psutil.Process(dashboard.process.pid).net_connections(kind="tcp")
    listening = {each.laddr for each in connections if each.status == psutil.CONN_LISTEN}
    assert listening == {("127.0.0.1", dashboard.port)}
    said = dashboard.log.read_text(encoding="utf-8").replace(f":{dashboard.port}/", ":8000/")
    assert transcript("docs/dashboard.md", ".venv/bin/python -m dashboard run") == said.splitlines()


def test_topics_that_were_missing_at_the_start_are_shown(
    kafka: Kafka, dashboard: RunningDashboard
) -> None:
    assert requests.get(f"{dashboard.url}health", timeout=5).status_code == 200
    kafka.send(RACK_READINGS, [("rack-0001", encode(reading(1, 95.5)))])
    kafka.send(ALERTS, [("rack-0001", alert_value(1, subject="rack-0001"))])
    kafka.send(INCIDENTS, [("rack-overheating|rack-0001", encode(incident()))])
    kafka.send(AD_IMPRESSIONS, [(name, encode(impression(name))) for name in "abc"])
    kafka.send(AD_CLICKS, [("a", encode(click("1", "a")))])
    rows = [attribution("a", "1", 5.0), attribution("b")]
    kafka.send(AD_ATTRIBUTION, [(row.impression_id, encode(row)) for row in rows])
    kafka.send(ACTION_COUNTS, [("key", encode(action_count(0, "open", 4)))])
    kafka.send(USER_SESSIONS, [("ada", encode(session("ada")))])
    kafka.send(USER_TOTALS, [("ada", encode(total("ada", "1.25")))])

    def shown() -> dict[str, Any]:
        snapshot = read_snapshot(dashboard.url)
        (only,) = snapshot["racks"]
        clicks = snapshot["clickstream"]
        names = ("impressions", "clicks", "clicked", "unclicked", "actions", "sessions")
        return {
            "rack": (only["temperature_c"], only["state"], only["rules"]),
            "alerts": snapshot["alerts"],
            "missing": snapshot["topics_missing"],
            "amount": clicks["amount_total"],
            **{name: clicks[name] for name in names},
        }

    expected = {
        "rack": (95.5, "WARNING", ["rack-overheating"]),
        "alerts": {"rack-overheating": 1},
        "missing": [],
        "amount": "1.25",
        "impressions": 3,
        "clicks": 1,
        "clicked": 1,
        "unclicked": 1,
        "actions": {"open": 4},
        "sessions": 1,
    }
    eventually(shown, equal_to(expected))
    details = requests.get(f"{dashboard.url}api/rack?rack_id=rack-0001", timeout=5).json()
    assert [alert["rule"] for alert in details["alerts"]] == ["rack-overheating"]
    assert [temperature for _, temperature, _ in details["readings"]] == [95.5]

    response = requests.post(
        f"{dashboard.url}api/commands",
        json={"command": "ack", "rule": "rack-overheating", "subject": "rack-0001"},
        headers={
            "Origin": dashboard.url.rstrip("/"),
            "X-Requested-With": "rackstream-dashboard",
        },
        timeout=10,
    )
    assert response.status_code == 202, response.text
    (record,) = kafka.read_all(ALERT_COMMANDS)
    command = msgspec.json.decode(record.value or b"")
    assert (record.key, command["command_id"]) == (b"rack-0001", response.json()["command_id"])


@pytest.mark.full
def test_two_hundred_browsers_that_never_read_cost_little_and_delay_nobody(
    kafka: Kafka, dashboard: RunningDashboard
) -> None:
    process = psutil.Process(dashboard.process.pid)
    racks = [f"rack-{number:04d}" for number in range(1, 501)]
    sequences = itertools.count(1)

    def send_readings() -> float:
        sequence = next(sequences)
        values = [encode(reading(sequence, sequence / 10, name)) for name in racks]
        kafka.send(RACK_READINGS, zip(racks, values, strict=True))
        return sequence / 10

    def temperatures(snapshot: Mapping[str, Any]) -> set[float]:
        return {each["temperature_c"] for each in snapshot["racks"]}

    first = send_readings()
    eventually(lambda: temperatures(read_snapshot(dashboard.url)), equal_to({first}))

    def connections() -> int:
        found = process.net_connections("tcp")
        return sum(each.laddr.port == dashboard.port and bool(each.raddr) for each in found)

    eventually(connections, equal_to(0))  # the server has noticed that the browsers above are gone
    before = process.memory_info().rss
    with ExitStack() as stack:
        for number in range(MAX_STREAMS - 1):
            if number % 10 == 0:
                send_readings()  # so that they begin at different versions
            deaf = stack.enter_context(socket.create_connection(("127.0.0.1", dashboard.port)))
            deaf.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        last = stack.enter_context(socket.create_connection(("127.0.0.1", dashboard.port)))
        last.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert last.recv(12) == b"HTTP/1.1 200"

        def refused() -> int:
            with requests.get(f"{dashboard.url}stream", stream=True, timeout=10) as response:
                return response.status_code

        eventually(refused, equal_to(503))
        last.close()

        def shown() -> set[float]:
            # A place is free when the server has noticed that its browser is gone.
            with suppress(requests.HTTPError):
                return temperatures(read_snapshot(dashboard.url))
            return set()

        for _ in range(3):
            newest = send_readings()
            eventually(shown, equal_to({newest}))
        grown = process.memory_info().rss - before
        assert grown < MAX_STREAMS * MOST_BYTES_PER_BROWSER, f"{grown / 1e6:.0f} MB"
