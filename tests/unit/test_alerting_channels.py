"""What each channel sends, and how failures are handled, by real HTTP to local servers."""

import smtplib
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email import message_from_string
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

from alerting import config
from alerting.config import AlertingSettings
from alerting.notifications import channels as channels_module
from alerting.notifications import delivery
from alerting.notifications.channels import (
    AppriseChannel,
    Channel,
    DeliveryError,
    PagerDutyChannel,
    WebhookChannel,
    alertmanager_alerts,
    pagerduty_event,
)
from alerting.notifications.delivery import DeliveryThreads, DeliveryWorker, RetryPolicy
from alerting.notifications.notice import Notice, NoticeItem, body, title
from alerting.notifications.outbox import Outbox
from broker.server import free_port
from events.cli import UserFacingError
from tests.alerting import HOUR, MINUTE, AlertingSimulation
from tests.support import ROOT

FIRING = NoticeItem(
    kind="firing",
    alert_id="a1b2c3d4e5f6",
    rule="rack-overheating",
    subject="rack-1",
    severity="error",
    previous_severity=None,
    start_time="2026-11-21T06:26:00.123Z",
    end_time=None,
    summary="Rack 1 is too hot.",
    changes=1,
)
RESOLVED = msgspec.structs.replace(FIRING, kind="resolved", end_time="2026-11-21T06:40:00.000Z")


def notice_of(*items: NoticeItem, open_count: int = 1, severity: Any = "error") -> Notice:
    return Notice("n1", "site-1", "2026-11-21T06:50:00.000Z", severity, open_count, list(items))


class Receiver(ThreadingHTTPServer):
    """An HTTP server that records what is posted and answers with given statuses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RequestHandler)
        self.received: list[Any] = []
        self.answers: list[int] = []

    @property
    def url(self) -> str:
        """The URL to post to."""
        return f"http://127.0.0.1:{self.server_port}/api"


class RequestHandler(BaseHTTPRequestHandler):
    """Handles one request."""

    server: Receiver

    def do_POST(self) -> None:
        """Record the request; answer with the next given status, or 200."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status < 300:
            self.server.received.append(msgspec.json.decode(content))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"details")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving(receiver: Receiver) -> Iterator[Receiver]:
    """Run a server during the block."""
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
    """Return a running server."""
    with serving(Receiver()) as receiver:
        yield receiver


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[AlertingSimulation]:
    """Return a simulation whose notices go to the webhook."""
    sim = AlertingSimulation(tmp_path / "db", channels=("webhook",))
    yield sim
    sim.close()


def test_a_webhook_receives_open_alerts_with_a_distant_end_and_resolved_ones_with_theirs(
    receiver: Receiver,
) -> None:
    WebhookChannel(receiver.url).send(
        notice_of(FIRING, msgspec.structs.replace(RESOLVED, subject="rack-2"))
    )
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


def test_for_alertmanager_a_changed_severity_ends_one_alert_and_starts_another() -> None:
    escalated = msgspec.structs.replace(
        FIRING, kind="escalated", severity="critical", previous_severity="error"
    )
    old, new = alertmanager_alerts(notice_of(escalated))
    assert (old["labels"]["severity"], old["endsAt"]) == ("error", "2026-11-21T06:49:00.000Z")
    assert (new["labels"]["severity"], new["endsAt"]) == ("critical", "2027-11-21T06:50:00.000Z")


def test_a_racks_wrong_clock_never_ends_an_alert_before_its_start_or_in_the_future() -> None:
    starts = ("2036-01-01T00:00:00.000Z", "2026-11-21T06:26:00.000Z")
    ends = ("2036-01-01T00:00:00.000Z", "1999-01-01T00:00:00.000Z")
    for start_time, end_time in product(starts, ends):
        wrong = msgspec.structs.replace(RESOLVED, start_time=start_time, end_time=end_time)
        still_open = msgspec.structs.replace(wrong, kind="firing")
        resolved_alert, open_alert = alertmanager_alerts(notice_of(wrong, still_open))
        for alert in (resolved_alert, open_alert):
            assert alert["startsAt"] <= alert["endsAt"], (start_time, end_time)
            assert alert["startsAt"] <= "2026-11-21T06:50:00.000Z", (start_time, end_time)
        assert resolved_alert["endsAt"] <= "2026-11-21T06:49:00.000Z", (start_time, end_time)


def test_pagerduty_receives_one_incident_per_site_that_is_triggered_and_resolved(
    receiver: Receiver,
) -> None:
    channel = PagerDutyChannel("key-1", receiver.url)
    channel.send(notice_of(FIRING))
    channel.send(notice_of(RESOLVED, open_count=0, severity="info"))
    trigger, resolve = receiver.received
    assert trigger["event_action"] == "trigger" and resolve["event_action"] == "resolve"
    assert trigger["dedup_key"] == resolve["dedup_key"]
    assert trigger["routing_key"] == resolve["routing_key"] == "key-1"
    assert trigger["payload"]["severity"] == "error"
    assert trigger["payload"]["summary"] == "site-1: 1 firing (highest open severity: error)"
    assert trigger["payload"]["source"] == "site-1"
    assert pagerduty_event(notice_of(FIRING), "key-1") != pagerduty_event(
        msgspec.structs.replace(notice_of(FIRING), site_id="site-2"), "key-1"
    )


def test_pagerduty_ignores_partial_and_unnotified_resolutions() -> None:
    unnotified = msgspec.structs.replace(RESOLVED, kind="resolved_unnotified")
    assert pagerduty_event(notice_of(RESOLVED, open_count=3), "key-1") is None
    assert pagerduty_event(notice_of(unnotified, open_count=0, severity="info"), "key-1") is None


def test_an_apprise_channel_sends_title_and_body(receiver: Receiver) -> None:
    AppriseChannel(f"json://127.0.0.1:{receiver.server_port}/api").send(notice_of(FIRING))
    [sent] = receiver.received
    assert sent["title"] == "site-1: 1 firing (highest open severity: error)"
    assert (
        "FIRING error rack-overheating rack-1: Rack 1 is too hot. (since 2026-11-21T06:26:00.123Z"
        in sent["message"]
    )
    assert sent["type"] == "failure"


def test_mail_keeps_its_lines_and_takes_no_id_for_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    smtp = MagicMock()
    smtp.sendmail.return_value = {}  # no recipient was refused
    monkeypatch.setattr(smtplib, "SMTP", lambda *_, **__: smtp)
    subject = "<b>rack & 1</b>"
    item = msgspec.structs.replace(FIRING, subject=subject)
    AppriseChannel("mailto://localhost?from=a@example.org&to=b@example.org").send(
        notice_of(item, FIRING)
    )
    mail = message_from_string(smtp.sendmail.call_args[0][2])
    assert mail.get_content_type() == "text/plain"
    content = mail.get_payload(decode=True)
    assert isinstance(content, bytes)
    lines = content.decode().splitlines()
    assert len(lines) == 2 and subject in lines[0]


def test_an_apprise_channels_name_holds_its_service_but_no_secret() -> None:
    name = AppriseChannel("json://user:secret@localhost/path").name
    assert name.startswith("apprise-json-") and "secret" not in name
    assert name != AppriseChannel("json://user:other@localhost/path").name


def test_a_storms_notice_lists_twenty_incidents_the_most_severe_first() -> None:
    items = [msgspec.structs.replace(FIRING, subject=f"rack-{number}") for number in range(1000)]
    items.append(msgspec.structs.replace(FIRING, severity="critical", subject="most-severe"))
    lines = body(notice_of(*items, open_count=1001)).splitlines()
    assert len(lines) == 21 and "most-severe" in lines[0]
    assert lines[-1] == "... and 981 more: python -m alerting list"
    assert (
        title(notice_of(RESOLVED, open_count=0, severity="info"))
        == "site-1: 1 resolved (nothing is open)"
    )


def test_an_unsuccessful_answer_is_a_failure_and_only_a_rejection_is_permanent(
    receiver: Receiver,
) -> None:
    is_permanent = {400: True, 422: True, 401: False, 429: False, 503: False, 302: False}
    receiver.answers = list(is_permanent)
    found = {}
    for status in is_permanent:
        with pytest.raises(DeliveryError, match=f"it answered {status} .*details") as failed:
            WebhookChannel(receiver.url).send(notice_of(FIRING))
        found[status] = failed.value.permanent
    assert found == is_permanent


def test_an_unreachable_server_is_reported_without_its_url() -> None:
    url = f"http://user:secret@127.0.0.1:{free_port()}/path"
    for channel in (WebhookChannel(url), AppriseChannel(url.replace("http", "json"))):
        with pytest.raises(DeliveryError) as failed:
            channel.send(notice_of(FIRING))
        assert "secret" not in str(failed.value) and not failed.value.permanent


HEAD = "HTTP/1.1 {}\r\nContent-Length: 1000000000\r\n\r\n"
CHUNKED_HEAD = "HTTP/1.1 {}\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def answering(head: str, part: bytes, pause_s: float) -> Iterator[str]:
    """Serve answers that never end; yield the URL."""
    ended = threading.Event()

    class EndlessHandler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            """Send the part again and again."""
            with suppress(OSError):
                self.request.sendall(head.encode())
                while not ended.wait(pause_s):
                    self.request.sendall(part)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), EndlessHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            ended.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
@pytest.mark.parametrize(
    ("head", "part"),
    [
        (HEAD, b"x"),
        (HEAD.replace("Content-Length", "X-Length"), b"x"),
        (CHUNKED_HEAD, b"1\r\nx\r\n"),
        (CHUNKED_HEAD, b"0"),
    ],
    ids=["length", "no length", "chunks", "length of a chunk"],
)
def test_an_answer_that_never_ends_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, head: str, part: bytes, status: str
) -> None:
    monkeypatch.setattr(channels_module, "TIMEOUT_S", 0.2)
    with answering(head.format(status), part, 0.02) as url:
        began = time.monotonic()
        with pytest.raises(DeliveryError, match=r"its answer did not end within 0\.4 s") as failed:
            WebhookChannel(url).send(notice_of(FIRING))
        assert 0.4 <= time.monotonic() - began < 5
    assert not failed.value.permanent


def test_of_a_huge_answer_only_the_beginning_is_read() -> None:
    part = b"x" * 65_536
    with answering(HEAD.format("200 OK"), part, 0) as url:
        WebhookChannel(url).send(notice_of(FIRING))
    with (
        answering(HEAD.format("400 Bad Request"), part, 0) as url,
        pytest.raises(DeliveryError, match=r"it answered 400 Bad Request: x{200}$") as failed,
    ):
        WebhookChannel(url).send(notice_of(FIRING))
    assert failed.value.permanent


def worker(
    sim: AlertingSimulation, channel: Channel, tmp_path: Path, reports: list[str], **policy: Any
) -> DeliveryWorker:
    outbox = Outbox(sim.path, channel.name)
    return DeliveryWorker(
        channel, outbox, tmp_path / "dead.jsonl", RetryPolicy(**policy), reports.append
    )


def test_a_recovered_channel_receives_all_notices_in_order(
    sim: AlertingSimulation, receiver: Receiver, tmp_path: Path
) -> None:
    reports: list[str] = []
    receiver.answers = [503, 500, 200, 200]
    for subject in ("rack-1", "rack-2"):
        sim.alert(subject)
        sim.wait(10 * MINUTE)
    delivery = worker(sim, WebhookChannel(receiver.url), tmp_path, reports)
    pauses = [delivery.step() for _ in range(5)]
    delivery._outbox.close()
    assert [alerts[0]["labels"]["subject"] for alerts in receiver.received] == ["rack-1", "rack-2"]
    assert (
        0.75 <= pauses[0] <= 1 and 1.5 <= pauses[1] <= 2 and pauses[2:4] == [0, 0] and pauses[4] > 0
    )
    assert len(reports) == 2
    assert "failed (it answered 503" in reports[0] and "accepts notices again" in reports[1]
    assert not (tmp_path / "dead.jsonl").exists()


def test_attempts_are_counted_across_restarts_until_the_notice_is_a_dead_letter(
    sim: AlertingSimulation, tmp_path: Path
) -> None:
    reports: list[str] = []
    sim.alert()
    [notice] = sim.wait(1 * HOUR)
    channel = WebhookChannel(f"http://127.0.0.1:{free_port()}/")
    for _ in range(3):
        delivery = worker(sim, channel, tmp_path, reports, max_attempts=3)
        delivery.step()
        delivery._outbox.close()
        sim.restart()
    [dead_letter] = [
        msgspec.json.decode(line) for line in (tmp_path / "dead.jsonl").read_bytes().splitlines()
    ]
    assert (dead_letter["channel"], dead_letter["attempts"], dead_letter["error"]) == (
        "webhook",
        3,
        "no connection",
    )
    assert msgspec.convert(dead_letter["notice"], Notice) == notice
    assert "did not accept a notice about site-1 in 3 attempts" in reports[-1]
    last = worker(sim, channel, tmp_path, reports)
    assert last._outbox.head() is None
    last._outbox.close()


def test_a_rejected_notice_is_a_dead_letter_at_once_and_delays_no_other(
    sim: AlertingSimulation, receiver: Receiver, tmp_path: Path
) -> None:
    for subject in ("rack-1", "rack-2"):
        sim.alert(subject)
        sim.wait(10 * MINUTE)
    receiver.answers = [400, 200]
    # A full disk has cut the file's last line off.
    (tmp_path / "dead.jsonl").write_bytes(b'{"dead_ti')
    delivery = worker(sim, WebhookChannel(receiver.url), tmp_path, [])
    assert [delivery.step(), delivery.step()] == [0, 0]
    delivery._outbox.close()
    assert [alerts[0]["labels"]["subject"] for alerts in receiver.received] == ["rack-2"]
    cut_off, line = (tmp_path / "dead.jsonl").read_bytes().splitlines()
    assert cut_off == b'{"dead_ti'
    assert msgspec.json.decode(line)["attempts"] == 1


def test_a_kill_between_delivery_and_its_record_sends_the_same_notice_again(
    sim: AlertingSimulation, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim.alert()
    sim.wait(1 * HOUR)
    delivery = worker(sim, WebhookChannel(receiver.url), tmp_path, [])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Outbox, "record_outcome", kill_process)
        delivery.step()
    delivery.step()
    delivery._outbox.close()
    first, second = receiver.received
    assert first == second


def kill_process(*_: object) -> None:
    raise KeyboardInterrupt


class BuggyChannel:
    """A channel with a bug."""

    name = "webhook"

    def send(self, notice: Notice) -> None:
        """Raise an unexpected error."""
        raise LookupError(notice.site_id)


def test_a_bug_in_a_services_code_fails_only_that_channel(
    sim: AlertingSimulation, tmp_path: Path
) -> None:
    reports: list[str] = []
    sim.alert()
    sim.wait(1 * HOUR)
    delivery = worker(sim, BuggyChannel(), tmp_path, reports)
    assert delivery.step() > 0
    queued = delivery._outbox.head()
    assert queued is not None and queued.failed_attempts == 1
    assert reports == ["The channel webhook failed (LookupError) and is retried."]
    delivery._outbox.close()


def test_delays_double_up_to_the_maximum() -> None:
    policy = RetryPolicy(initial_delay_s=2, max_delay_s=60)
    assert all(3 <= policy.delay_s(2) <= 4 for _ in range(100))
    assert all(45 <= policy.delay_s(tries) <= 60 for tries in (6, 100, 10_000))


class HangingChannel:
    """Accepts no notice until it is released."""

    def __init__(self, name: str, released: threading.Event) -> None:
        self.name, self._released = name, released
        self.called = threading.Event()

    def send(self, _: Notice) -> None:
        """Wait for the release."""
        self.called.set()
        self._released.wait(30)


def test_the_end_waits_for_all_channels_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SHUTDOWN_SECONDS", 0.3)
    released = threading.Event()
    channels = [HangingChannel(f"channel-{number}", released) for number in range(20)]
    sim = AlertingSimulation(tmp_path / "db", channels=tuple(each.name for each in channels))
    sim.alert()
    sim.wait(MINUTE)
    with DeliveryThreads(
        tmp_path / "db", channels, tmp_path / "dead", RetryPolicy(), lambda _: None
    ) as deliveries:
        assert all(channel.called.wait(30) for channel in channels)
        began = time.monotonic()
    waited_s = time.monotonic() - began
    released.set()
    for thread in deliveries._threads:
        thread.join()
    sim.close()
    assert 0.3 <= waited_s < 0.3 * len(channels), "not one after the other"


def test_an_attempt_ends_before_the_end_stops_waiting_for_it() -> None:
    assert 2 * channels_module.TIMEOUT_S < delivery.SHUTDOWN_SECONDS


@pytest.fixture
def no_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder without .env."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("no_env_file")
def test_channels_are_off_until_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.load().channels() == []
    monkeypatch.setenv("ALERTING_WEBHOOK_URL", "http://localhost:9093/api/v2/alerts")
    monkeypatch.setenv("ALERTING_PAGERDUTY_KEY", "key-1")
    monkeypatch.setenv(
        "ALERTING_APPRISE_URLS", "json://localhost/a  json://localhost/b json://localhost/a"
    )
    names = [channel.name for channel in config.load().channels()]
    assert names[:2] == ["webhook", "pagerduty"]
    assert len(names) == 4 and all(name.startswith("apprise-json-") for name in names[2:])


@pytest.mark.usefixtures("no_env_file")
@pytest.mark.parametrize(
    ("name", "value"),
    [("ALERTING_WEBHOOK_URL", "secret-9093"), ("ALERTING_APPRISE_URLS", "unknown://secret")],
)
def test_an_invalid_setting_is_named_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UserFacingError) as wrong:
        config.load().channels()
    assert name in str(wrong.value) and "secret" not in str(wrong.value)


def test_every_setting_is_in_the_env_example_and_documented() -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    docs = (ROOT / "docs" / "alerting.md").read_text(encoding="utf-8")
    names = [name.upper() for name in AlertingSettings.model_fields]
    assert [name for name in names if f"\n# {name}=" not in example] == []
    assert [name for name in names if f"`{name}`" not in docs] == []
