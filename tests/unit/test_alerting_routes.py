"""How notices look on each route, and how routes fail: by real HTTP to servers of this test's own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alerting import config
from alerting.config import RouteSettings
from alerting.delivery import Patience, Worker
from alerting.notices import Item, Notice, body, title
from alerting.outbox import Outbox
from alerting.routes import (
    AppriseUrl,
    PagerDuty,
    Route,
    RouteError,
    Webhook,
    alertmanager_alerts,
    pagerduty_event,
)
from events.cli import PersonError
from tests.alerting import HOUR, MINUTE, World
from tests.support import free_port

FIRING = Item(
    kind="firing",
    alert_id="a1b2c3d4e5f6",
    rule="rack-overheating",
    subject="rack-1",
    severity="error",
    was=None,
    start_time="2026-11-21T06:26:00.123Z",
    end_time=None,
    summary="Rack 1 is too hot.",
    changes=1,
)
RESOLVED = msgspec.structs.replace(FIRING, kind="resolved", end_time="2026-11-21T06:40:00.000Z")


def notice_of(*items: Item, open_count: int = 1, severity: Any = "error") -> Notice:
    return Notice("n1", "site-1", "2026-11-21T06:50:00.000Z", severity, open_count, list(items))


class Receiver(ThreadingHTTPServer):
    """A server that keeps what is posted to it, and answers what it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.received: list[Any] = []
        self.answers: list[int] = []

    @property
    def url(self) -> str:
        """The address to post to."""
        return f"http://127.0.0.1:{self.server_port}/api"


class Answer(BaseHTTPRequestHandler):
    """Takes one request."""

    server: Receiver

    def do_POST(self) -> None:
        """Keep what came, and answer the next of the answers, or 200."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status < 300:
            self.server.received.append(msgspec.json.decode(content))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"so it is")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(receiver: Receiver) -> Iterator[Receiver]:
    """Let a server answer while the block runs."""
    thread = threading.Thread(target=receiver.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a server that answers."""
    with serving(Receiver()) as receiver:
        yield receiver


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a world whose notices go to the webhook."""
    world = World(tmp_path / "db", routes=("webhook",))
    yield world
    world.close()


def test_a_webhook_gets_what_fires_with_an_end_far_away_and_what_is_over_with_its_end(
    receiver: Receiver,
) -> None:
    Webhook(receiver.url).send(notice_of(FIRING, msgspec.structs.replace(RESOLVED, subject="rack-2")))
    assert receiver.received == [
        [
            {
                "labels": {
                    "alertname": "rack-overheating",
                    "subject": "rack-1",
                    "site_id": "site-1",
                    "severity": "error",
                },
                "annotations": {
                    "summary": "Rack 1 is too hot.",
                    "alert_id": "a1b2c3d4e5f6",
                    "notice_id": "n1",
                },
                "startsAt": "2026-11-21T06:26:00.123Z",
                "endsAt": "2027-11-21T06:50:00.000Z",
            },
            {
                "labels": {
                    "alertname": "rack-overheating",
                    "subject": "rack-2",
                    "site_id": "site-1",
                    "severity": "error",
                },
                "annotations": {
                    "summary": "Rack 1 is too hot.",
                    "alert_id": "a1b2c3d4e5f6",
                    "notice_id": "n1",
                },
                "startsAt": "2026-11-21T06:26:00.123Z",
                "endsAt": "2026-11-21T06:40:00.000Z",
            },
        ]
    ]


def test_for_alertmanager_another_severity_is_another_alert_and_the_old_one_ends() -> None:
    risen = msgspec.structs.replace(FIRING, kind="escalated", severity="critical", was="error")
    old, new = alertmanager_alerts(notice_of(risen))
    assert (old["labels"]["severity"], old["endsAt"]) == ("error", "2026-11-21T06:49:00.000Z")
    assert (new["labels"]["severity"], new["endsAt"]) == ("critical", "2027-11-21T06:50:00.000Z")


@pytest.mark.parametrize("start_time", ["2036-01-01T00:00:00.000Z", "2026-11-21T06:26:00.000Z"])
@pytest.mark.parametrize("end_time", ["2036-01-01T00:00:00.000Z", "1999-01-01T00:00:00.000Z"])
def test_wrong_clocks_of_racks_never_make_an_end_before_its_start_or_ahead(
    start_time: str, end_time: str
) -> None:
    wrong = msgspec.structs.replace(RESOLVED, start_time=start_time, end_time=end_time)
    for alert in alertmanager_alerts(notice_of(wrong, msgspec.structs.replace(wrong, kind="firing"))):
        assert alert["startsAt"] <= alert["endsAt"]
        assert alert["startsAt"] <= "2026-11-21T06:50:00.000Z"
    assert alertmanager_alerts(notice_of(wrong))[0]["endsAt"] <= "2026-11-21T06:49:00.000Z"


def test_pagerduty_gets_one_incident_a_site_that_is_triggered_and_resolved(receiver: Receiver) -> None:
    route = PagerDuty("key-1", receiver.url)
    route.send(notice_of(FIRING))
    route.send(notice_of(RESOLVED, open_count=0, severity="info"))
    trigger, resolve = receiver.received
    assert trigger["event_action"] == "trigger" and resolve["event_action"] == "resolve"
    assert trigger["dedup_key"] == resolve["dedup_key"]
    assert trigger["routing_key"] == resolve["routing_key"] == "key-1"
    assert trigger["payload"]["severity"] == "error"
    assert trigger["payload"]["summary"] == "site-1: 1 firing (worst open: error)"
    assert trigger["payload"]["source"] == "site-1"
    assert pagerduty_event(notice_of(FIRING), "key-1") != pagerduty_event(
        msgspec.structs.replace(notice_of(FIRING), site_id="site-2"), "key-1"
    )


def test_pagerduty_calls_nobody_for_what_is_over_while_other_things_are_open_or_nobody_was_called() -> None:
    passed = msgspec.structs.replace(RESOLVED, kind="passed")
    assert pagerduty_event(notice_of(RESOLVED, open_count=3), "key-1") is None
    assert pagerduty_event(notice_of(passed, open_count=0, severity="info"), "key-1") is None


def test_whatever_apprise_reaches_gets_title_and_lines(receiver: Receiver) -> None:
    AppriseUrl(f"json://127.0.0.1:{receiver.server_port}/api").send(notice_of(FIRING))
    [sent] = receiver.received
    assert sent["title"] == "site-1: 1 firing (worst open: error)"
    assert (
        "FIRING error rack-overheating rack-1: Rack 1 is too hot. (since 2026-11-21T06:26:00.123Z"
        in sent["message"]
    )
    assert sent["type"] == "failure"


def test_an_apprise_route_is_named_by_its_service_and_not_by_its_secrets() -> None:
    name = AppriseUrl("json://user:secret@localhost/path").name
    assert name.startswith("apprise-json-") and "secret" not in name
    assert name != AppriseUrl("json://user:other@localhost/path").name


def test_a_storms_notice_names_twenty_the_worst_first_and_counts_the_others() -> None:
    items = [msgspec.structs.replace(FIRING, subject=f"rack-{number}") for number in range(1000)]
    items.append(msgspec.structs.replace(FIRING, severity="critical", subject="the-worst"))
    lines = body(notice_of(*items, open_count=1001)).splitlines()
    assert len(lines) == 21 and "the-worst" in lines[0]
    assert lines[-1] == "... and 981 more: python -m alerting list"
    assert title(notice_of(RESOLVED, open_count=0, severity="info")) == "site-1: 1 resolved (nothing is open)"


@pytest.mark.parametrize(
    ("status", "final"), [(400, True), (422, True), (401, False), (429, False), (503, False), (302, False)]
)
def test_an_answer_that_is_no_success_is_a_failure_and_only_a_refusal_is_final(
    receiver: Receiver, status: int, final: bool
) -> None:
    receiver.answers = [status]
    with pytest.raises(RouteError, match=f"it answered {status} .*so it is") as failed:
        Webhook(receiver.url).send(notice_of(FIRING))
    assert failed.value.final == final


def test_a_server_that_is_away_is_a_failure_in_words_without_its_address() -> None:
    url = f"http://user:secret@127.0.0.1:{free_port()}/path"
    for route in (Webhook(url), AppriseUrl(url.replace("http", "json"))):
        with pytest.raises(RouteError) as failed:
            route.send(notice_of(FIRING))
        assert "secret" not in str(failed.value) and not failed.value.final


def worker(world: World, route: Route, tmp_path: Path, told: list[str], **patience: Any) -> Worker:
    outbox = Outbox(world.path, route.name)
    return Worker(route, outbox, tmp_path / "dead.jsonl", Patience(**patience), told.append)


def test_a_route_that_was_down_gets_all_notices_in_their_order_when_it_is_back(
    world: World, receiver: Receiver, tmp_path: Path
) -> None:
    told: list[str] = []
    receiver.answers = [503, 500, 200, 200]
    for subject in ("rack-1", "rack-2"):
        world.alert(subject)
        world.wait(10 * MINUTE)
    work = worker(world, Webhook(receiver.url), tmp_path, told)
    pauses = [work.step() for _ in range(5)]
    work._outbox.close()
    assert [alerts[0]["labels"]["subject"] for alerts in receiver.received] == ["rack-1", "rack-2"]
    assert 0.75 <= pauses[0] <= 1 and 1.5 <= pauses[1] <= 2 and pauses[2:4] == [0, 0] and pauses[4] > 0
    assert len(told) == 2
    assert "took no notice (it answered 503" in told[0] and "takes notices again" in told[1]
    assert not (tmp_path / "dead.jsonl").exists()


def test_tries_are_counted_over_restarts_and_then_the_notice_is_a_dead_letter(
    world: World, tmp_path: Path
) -> None:
    told: list[str] = []
    world.alert()
    [notice] = world.wait(1 * HOUR)
    route = Webhook(f"http://127.0.0.1:{free_port()}/")
    for _ in range(3):
        work = worker(world, route, tmp_path, told, tries=3)
        work.step()
        work._outbox.close()
        world.restart()
    [letter] = [msgspec.json.decode(line) for line in (tmp_path / "dead.jsonl").read_bytes().splitlines()]
    assert (letter["route"], letter["tries"], letter["error"]) == ("webhook", 3, "no connection")
    assert msgspec.convert(letter["notice"], Notice) == notice
    assert "in none of 3 tries" in told[-1]
    last = worker(world, route, tmp_path, told)
    assert last._outbox.head() is None
    last._outbox.close()


def test_what_is_refused_is_a_dead_letter_at_once_and_holds_up_no_other(
    world: World, receiver: Receiver, tmp_path: Path
) -> None:
    for subject in ("rack-1", "rack-2"):
        world.alert(subject)
        world.wait(10 * MINUTE)
    receiver.answers = [400, 200]
    work = worker(world, Webhook(receiver.url), tmp_path, [])
    assert [work.step(), work.step()] == [0, 0]
    work._outbox.close()
    assert [alerts[0]["labels"]["subject"] for alerts in receiver.received] == ["rack-2"]
    assert len((tmp_path / "dead.jsonl").read_bytes().splitlines()) == 1


def test_a_kill_between_sending_and_noting_it_sends_the_same_notice_again(
    world: World, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.alert()
    world.wait(1 * HOUR)
    work = worker(world, Webhook(receiver.url), tmp_path, [])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Outbox, "done", killed)
        work.step()
    work.step()
    work._outbox.close()
    first, second = receiver.received
    assert first == second


def killed(*_: object) -> None:
    raise KeyboardInterrupt


class Broken:
    """A route with a mistake in its code."""

    name = "webhook"

    def send(self, notice: Notice) -> None:
        """Stumble."""
        raise LookupError(notice.site_id)


def test_a_mistake_in_a_services_code_is_that_routes_failure_alone(world: World, tmp_path: Path) -> None:
    told: list[str] = []
    world.alert()
    world.wait(1 * HOUR)
    work = worker(world, Broken(), tmp_path, told)
    assert work.step() > 0
    waiting = work._outbox.head()
    assert waiting is not None and waiting.tries == 1
    assert told == ["The route webhook took no notice (LookupError); it is tried again."]
    work._outbox.close()


def test_pauses_double_up_to_the_longest() -> None:
    patience = Patience(first_s=2, longest_s=60)
    assert all(3 <= patience.pause_s(2) <= 4 for _ in range(100))
    assert all(45 <= patience.pause_s(tries) <= 60 for tries in (6, 100, 10_000))


@pytest.fixture
def no_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no .env beside this test."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("no_env_file")
def test_routes_are_off_until_their_settings_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.load().routes() == []
    monkeypatch.setenv("ALERTING_WEBHOOK_URL", "http://localhost:9093/api/v2/alerts")
    monkeypatch.setenv("ALERTING_PAGERDUTY_KEY", "key-1")
    monkeypatch.setenv("ALERTING_APPRISE_URLS", "json://localhost/a  json://localhost/b json://localhost/a")
    names = [route.name for route in config.load().routes()]
    assert names[:2] == ["webhook", "pagerduty"]
    assert len(names) == 4 and all(name.startswith("apprise-json-") for name in names[2:])


@pytest.mark.usefixtures("no_env_file")
@pytest.mark.parametrize(
    ("name", "value"),
    [("ALERTING_WEBHOOK_URL", "secret-9093"), ("ALERTING_APPRISE_URLS", "nonsense://secret")],
)
def test_a_wrong_setting_is_named_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(PersonError) as wrong:
        config.load().routes()
    assert name in str(wrong.value) and "secret" not in str(wrong.value)


@pytest.mark.parametrize("name", RouteSettings.model_fields)
def test_every_setting_is_in_the_example_and_documented(name: str) -> None:
    root = Path(__file__).parents[2]
    assert f"\n# {name.upper()}=" in (root / ".env.example").read_text(encoding="utf-8")
    assert f"`{name.upper()}`" in (root / "docs" / "alerting.md").read_text(encoding="utf-8")
