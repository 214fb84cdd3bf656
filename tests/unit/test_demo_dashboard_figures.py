"""The demo's comparison of what the dashboard shows with the outputs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import msgspec
import pytest

from dashboard.hub import Hub
from dashboard.received import Received
from dashboard.state import State
from demo import dashboard_figures
from demo.dashboard_figures import (
    compare_dashboard,
    compare_figures,
    expected_figures,
    shown_figures,
)
from demo.verdict import Actual
from events.records import DeadLetter, encode
from events.times import to_text
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    ALERTS,
    DEAD_LETTERS,
    INCIDENTS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_SESSIONS,
    USER_TOTALS,
    Topic,
)
from tests.builders import START, T0, alert_value, incident
from tests.unit.test_dashboard_clickstream import action_count, attribution, session, total
from tests.unit.test_dashboard_state import signals, window

RECORDS: dict[Topic, list[bytes]] = {
    ALERTS: [alert_value(1, subject="hot"), alert_value(1, subject="hot"), alert_value(2)],
    INCIDENTS: [encode(incident("hot")), encode(incident("rack-0002"))],
    AD_ATTRIBUTION: [
        *(encode(attribution("a", click, 5.0)) for click in "112"),
        encode(attribution("b")),
    ],
    ACTION_COUNTS: [encode(action_count(0, "open", 4)), encode(action_count(1, "open", 5))],
    USER_SESSIONS: [encode(session("ada")), encode(session("ada")), encode(session("bob"))],
    USER_TOTALS: [encode(total("ada", "1.25")), encode(total("bob", "2.50"))],
    DEAD_LETTERS: [
        encode(
            DeadLetter(
                source_topic="rack-readings",
                partition=0,
                offset=offset,
                reason="unreadable",
                value="{",
                value_base64=None,
                value_size=1,
                error="not JSON",
                seen_time=START,
            )
        )
        for offset in (1, 1, 2)
    ],
    SIGNAL_STATISTICS: [
        record.value or b""
        for record in (
            signals(1, 12, device_type="gpu"),
            signals(0, 99, device_type="gpu"),
            signals(1, 3, rack_id="rack-0001"),
            signals(0, 7, device_type="switch"),
        )
    ],
}
SECOND_START = "2026-11-18T11:11:40.000Z"
WINDOWS = [window("fleet", 0, 9), window("fleet", 1, 8), window("rack-0001", 0, 7)]


def actual() -> Actual:
    """Return the outputs as the demo reads them: of a total or a count the last record."""
    rows = {
        topic: [msgspec.json.decode(value) for value in values] for topic, values in RECORDS.items()
    }
    return Actual(
        alerts=[rows[ALERTS][0], rows[ALERTS][2]],
        dead_letters=rows[DEAD_LETTERS],
        windows=[msgspec.json.decode(record.value or b"") for record in WINDOWS],
        clickstream={
            "attribution": rows[AD_ATTRIBUTION],
            "session": rows[USER_SESSIONS],
            "total": rows[USER_TOTALS],
            "action-count": rows[ACTION_COUNTS],
        },
        alert_topic=[(row, T0) for row in rows[ALERTS]],
        signal_statistics=rows[SIGNAL_STATISTICS],
    )


def snapshot(without: Topic | None = None) -> dict[str, Any]:
    """Return what a browser is sent, unless a record of a topic was not read."""
    state = State("broker:9092", [], T0)
    state.apply(RACK_TEMPERATURE.name, WINDOWS[without is RACK_TEMPERATURE :])
    for topic, values in RECORDS.items():
        records = [Received(None, value, T0) for value in values]
        state.apply(topic.name, records[:-1] if topic is without else records)
    state.publish_sections(T0)
    _, event = Hub(state).update_since(0)
    found: dict[str, Any] = msgspec.json.decode(event.partition(b"data: ")[2])
    return found


def test_the_figures_of_the_dashboard_are_those_of_the_outputs() -> None:
    expected = expected_figures(actual())
    assert expected == {
        "alerts of rack-overheating": 2,
        "open rack-overheating of hot": True,
        "open rack-overheating of rack-0002": True,
        "dead letters unreadable": 2,
        f"readings of the fleet from {START}": 9,
        f"readings of the fleet from {SECOND_START}": 8,
        **{
            f"{name} temperature of the fleet from {start}": temperature_c
            for start in (START, SECOND_START)
            for name, temperature_c in (("lowest", 60.0), ("average", 70.0), ("highest", 80.0))
        },
        "window of signals of gpu": to_text(T0 + 60_000),
        "readings of signals of gpu": 12,
        "window of signals of switch": START,
        "readings of signals of switch": 7,
        **{
            f"{name} signal of {device_type}": strength
            for device_type in ("gpu", "switch")
            for name, strength in (("weakest", 0.1), ("average", 0.5), ("strongest", 0.9))
        },
        "clicks that joined": 2,
        "clicked impressions": 1,
        "unclicked impressions": 1,
        "sessions": 2,
        "users with a total": 2,
        "amount of all totals": "3.75",
        "action open": 9,
    }
    assert shown_figures(snapshot()) == expected


def test_without_a_clickstream_its_figures_are_zero() -> None:
    state = State("broker:9092", [], T0)
    _, event = Hub(state).update_since(0)
    shown = shown_figures(msgspec.json.decode(event.partition(b"data: ")[2]))
    assert compare_figures(expected_figures(Actual()), shown).passed
    assert set(shown.values()) == {0, "0.00"}


@pytest.mark.parametrize("topic", [*RECORDS, RACK_TEMPERATURE], ids=lambda topic: str(topic.name))
def test_a_record_that_the_dashboard_missed_is_found(topic: Topic) -> None:
    compared = compare_figures(expected_figures(actual()), shown_figures(snapshot(topic)))
    assert not compared.passed


@pytest.mark.parametrize(
    ("section", "field"),
    [
        *(("windows", f"temperature_c_{name}") for name in ("min", "avg", "max")),
        *(("signals", f"signal_strength_{name}") for name in ("min", "avg", "max")),
    ],
)
def test_a_wrong_value_on_the_page_is_found(section: str, field: str) -> None:
    shown = snapshot()
    rows = shown["windows"]["fleet"] if section == "windows" else shown[section]
    rows[0][field] += 0.001
    assert not compare_figures(expected_figures(actual()), shown_figures(shown)).passed


@contextmanager
def page(answer: Callable[[], tuple[int, bytes]]) -> Iterator[str]:
    """Serve a page that answers each request with a status and a body; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"", "answers with status 500"),
        (200, b"", "sends something other than its figures"),
        (200, b"data: <html>\n\n", "sends something other than its figures"),
        (200, b"data: \xff\n\n", "sends something other than its figures"),
        (200, b"data: []\n\n", "sends something other than its figures"),
        (200, b'data: {"clickstream": {}, "pipeline": {}}\n\n', "sends something other than its"),
    ],
)
def test_a_page_without_figures_fails_the_verdict_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, reason: str
) -> None:
    monkeypatch.setattr(dashboard_figures, "SETTLE_S", 0.0)
    with page(lambda: (status, body)) as address:
        compared = compare_dashboard(address, actual(), lambda: None)
    assert not compared.passed
    assert (compared.actual, compared.missing) == (0, [])
    (sentence,) = compared.wrong
    assert sentence.startswith(f"the dashboard at {address} {reason}")


def test_a_page_that_nobody_serves_fails_the_verdict_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dashboard_figures, "SETTLE_S", 0.0)
    with page(lambda: (200, b"")) as address:
        pass
    compared = compare_dashboard(address, actual(), lambda: None)
    assert compared.wrong == [f"the dashboard at {address} does not answer (ConnectionError)"]


def test_a_page_that_answers_a_moment_later_is_compared() -> None:
    figures = b"data: " + msgspec.json.encode(snapshot()) + b"\n\n"
    answers = iter([(503, b""), (200, figures)])
    steps: list[None] = []
    with page(lambda: next(answers)) as address:
        compared = compare_dashboard(address, actual(), lambda: steps.append(None))
    assert compared.passed
    assert len(steps) == 1
