"""The dashboard over HTTP: streams, refusals, limits, and commands without a broker."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
import requests

from broker.server import free_port
from dashboard import app as app_module
from dashboard import hub as hub_module
from dashboard import server as server_module
from dashboard.app import new_app
from dashboard.commands import CommandError, CommandPublisher
from dashboard.hub import Hub
from dashboard.received import Received
from dashboard.run_command import health, listen
from dashboard.server import new_server
from dashboard.state import State
from events.cli import UserFacingError
from events.records import AlertCommand, encode
from events.settings import Settings
from events.times import now_ms, to_ms, to_text
from events.topics import INCIDENTS, RACK_READINGS
from tests.builders import T0, incident, rack, reading
from tests.support import above, equal_to, eventually
from tests.unit import test_alerting_channels as channels

PAGE = {"X-Requested-With": "rackstream-dashboard"}
ACK = {"command": "ack", "rule": "rack-overheating", "subject": "rack-0001"}


class RecordingPublisher(CommandPublisher):
    """Keeps commands instead of sending them, or fails as an unreachable broker does."""

    def __init__(self) -> None:
        super().__init__(Settings(_env_file=None))
        self.commands: list[AlertCommand] = []
        self.is_down = False

    def _send(self, command: AlertCommand) -> None:
        if self.is_down:
            raise CommandError(503, "The broker did not accept the command (no answer): try again.")
        self.commands.append(command)


class Served:
    """A server on a thread of its own, with its hub and publisher."""

    def __init__(self, hub: Hub, publisher: RecordingPublisher, port: int) -> None:
        self.hub, self.publisher, self.port = hub, publisher, port
        self.url = f"http://localhost:{port}"

    def get(self, path: str, **headers: str) -> requests.Response:
        """Get a path of the server."""
        return requests.get(self.url + path, headers=headers, timeout=10)

    def command(self, body: object, **headers: str) -> requests.Response:
        """Post a command as the page does, except for some headers."""
        as_page = {"Origin": self.url, "Content-Type": "application/json", **PAGE}
        data = body if isinstance(body, bytes) else json.dumps(body)
        return requests.post(
            f"{self.url}/api/commands", data=data, headers=as_page | headers, timeout=10
        )

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        """Return a connection; a small buffer fills soon when nobody reads."""
        connection = socket.socket()
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def set_temperature(
        self, sequence: int, temperature_c: float, rack_id: str = "rack-0001"
    ) -> None:
        """Give the state a reading."""
        record = reading(sequence, temperature_c, rack_id)
        with self.hub.state() as state:
            state.apply(RACK_READINGS.name, [Received(None, encode(record), 0)])


@contextmanager
def serving() -> Iterator[Served]:
    """Serve a state with two racks, one with an open incident, without a broker."""
    state = State("broker:9092", [rack("rack-0001"), rack("rack-0002")], now_ms())
    state.set_broker(reachable=True, now_ms=now_ms())
    state.apply(INCIDENTS.name, [Received(None, encode(incident()), 0)])
    hub, publisher = Hub(state), RecordingPublisher()
    server = new_server(new_app(hub, publisher), hub)
    with listen("127.0.0.1", 0) as listener:

        async def serve() -> None:
            ticker = asyncio.create_task(hub.run())
            await server.serve([listener])
            await ticker

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            eventually(lambda: server.started)
            yield Served(hub, publisher, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a server for one test."""
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def refusing() -> Iterator[Served]:
    """Return a server for all tests that change nothing; nothing is published."""
    with serving() as found:
        yield found
        assert found.publisher.commands == []


class Stream:
    """An open stream, whose events are read one by one."""

    def __init__(self, served: Served) -> None:
        self._connection = http.client.HTTPConnection("localhost", served.port, timeout=10)
        self._connection.request("GET", "/stream")
        self._response = self._connection.getresponse()
        self.status = self._response.status

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def next(self) -> tuple[str, dict[str, Any]]:
        """Return the next event's name and data."""
        name = ""
        while line := self._response.readline():
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            if line.startswith(b"data: "):
                return name, json.loads(line[6:])
        raise AssertionError("the stream has ended")

    def until(self, accept: Any) -> dict[str, Any]:
        """Return the data of the first event that is accepted."""
        while True:
            _, data = self.next()
            if accept(data):
                return data


def has_temperature(data: dict[str, Any], temperature_c: float) -> bool:
    """Tell whether an event has a rack of this temperature."""
    return any(each["temperature_c"] == temperature_c for each in data.get("racks", ()))


def test_a_browser_gets_a_snapshot_and_then_what_changes(served: Served) -> None:
    with Stream(served) as stream:
        name, snapshot = stream.next()
        assert (name, len(snapshot["racks"]), len(snapshot["incidents"])) == ("snapshot", 2, 1)
        served.set_temperature(1, 81.5)
        name, update = stream.next()
        assert name == "update"
        assert [(each["rack_id"], each["temperature_c"]) for each in update["racks"]] == [
            ("rack-0001", 81.5)
        ]
        assert "incidents" not in update


def test_browsers_that_come_within_a_second_share_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = State("broker:9092", [rack("rack-0001")], T0)
    hub = Hub(state)
    version, snapshot = hub.update_since(0)
    state.apply(RACK_READINGS.name, [Received(None, encode(reading(1, 81.5)), T0)])
    again_version, again = hub.update_since(0)
    assert again is snapshot, "whoever never reads it would keep another one in memory"
    assert (again_version, b"81.5" in again) == (version, False)
    newest, update = hub.update_since(version)
    assert (newest, b"81.5" in update) == (state.version, True)
    monkeypatch.setattr(hub_module, "SNAPSHOT_S", 0.0)
    assert b"81.5" in hub.update_since(0)[1]


def test_a_change_waits_for_the_next_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "TICK_S", 0.01)
    state = State("broker:9092", [rack("rack-0001")], T0)
    hub = Hub(state)
    version, _ = hub.update_since(0)
    state.apply(RACK_READINGS.name, [Received(None, encode(reading(1, 81.5)), T0)])

    async def wait_before_and_after_a_tick() -> list[bool]:
        before = await hub.wait_for_change(version, 0.05)
        ticker = asyncio.create_task(hub.run())
        after = await hub.wait_for_change(version, 10)
        hub.close()
        await ticker
        return [before, after]

    assert asyncio.run(wait_before_and_after_a_tick()) == [False, True]


def test_who_asks_only_for_the_headers_of_the_stream_opens_none(refusing: Served) -> None:
    response = requests.head(f"{refusing.url}/stream", timeout=10)
    assert (response.status_code, refusing.hub.watching) == (200, 0)
    assert response.headers["Content-Type"].startswith("text/event-stream")


def test_every_answer_has_the_security_headers(refusing: Served) -> None:
    for path, status in (("/health", 200), ("/nothing", 404), ("/api/rack?rack_id=no", 404)):
        response = refusing.get(path)
        assert response.status_code == status
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil", "", "a@b"])
@pytest.mark.parametrize("path", ["/", "/stream", "/api/dead-letters", "/static/app.js"])
def test_a_name_that_somebody_else_controls_is_refused(
    refusing: Served, path: str, host: str
) -> None:
    response = refusing.get(path, Host=host)
    assert (response.status_code, "error" in response.json()) == (421, True)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000"])
def test_this_machine_is_a_good_host(refusing: Served, host: str) -> None:
    assert refusing.get("/health", Host=host).status_code == 200


def test_health_says_that_the_broker_is_away(served: Served) -> None:
    with served.hub.state() as state:
        state.set_broker(reachable=False, now_ms=now_ms())
    response = served.get("/health")
    assert response.status_code == 503
    assert "broker:9092" in response.json()["error"]


def test_the_command_health_says_in_a_sentence_whether_the_dashboard_works(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    health("127.0.0.1", served.port)
    assert capsys.readouterr().out == "healthy: the dashboard runs and its broker answers\n"
    with served.hub.state() as state:
        state.set_broker(reachable=False, now_ms=now_ms())
    with pytest.raises(UserFacingError, match=r"^the broker at broker:9092 does not answer: see"):
        health("127.0.0.1", served.port)


def test_the_command_health_names_the_port_where_no_dashboard_answers() -> None:
    port = free_port()
    with pytest.raises(UserFacingError, match=f"^no dashboard answers on port {port} of localhost"):
        health("localhost", port)
    with (
        channels.serving(channels.Receiver()) as other,
        pytest.raises(UserFacingError, match="something else than a dashboard answers on port"),
    ):
        health("127.0.0.1", other.server_port)


def test_a_command_is_published_with_what_the_person_saw(served: Served) -> None:
    response = served.command({**ACK, "alert_id": "id of rack-0001", "severity": "error"})
    assert response.status_code == 202
    (command,) = served.publisher.commands
    assert response.json() == {"command_id": command.command_id}
    assert (command.command, command.rule, command.subject, command.by) == (
        "ack",
        "rack-overheating",
        "rack-0001",
        "dashboard",
    )
    assert (command.alert_id, command.severity) == ("id of rack-0001", "error")
    assert abs(to_ms(command.event_time) - now_ms()) < 10_000


@pytest.mark.parametrize("subject", ["rack-0001", "rack-0002", "site-a"])
def test_a_rack_or_site_without_an_incident_can_be_silenced(served: Served, subject: str) -> None:
    until = to_text(now_ms() + 60_000)
    silence = ACK | {"command": "silence", "subject": subject, "until": until}
    assert served.command(silence).status_code == 202
    assert served.command(ACK | {"command": "unsilence", "subject": subject}).status_code == 202
    assert [each.until for each in served.publisher.commands] == [until, None]


def later() -> str:
    return to_text(now_ms() + 60_000)


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 400, "cannot be read"),
        (b"{", 400, "cannot be read"),
        (b"\xff", 400, "cannot be read"),
        (b"[]", 400, "cannot be read"),
        (ACK | {"command": "explode"}, 400, "cannot be read"),
        (ACK | {"subject": 7}, 400, "cannot be read"),
        (ACK | {"extra": 1}, 400, "cannot be read"),
        (ACK | {"severity": "huge"}, 400, "cannot be read"),
        (ACK | {"until": "2026-11-21T06:26:00.123Z"}, 400, "until"),
        (ACK | {"by": ""}, 400, "by"),
        (ACK | {"by": "x" * 101}, 400, "by"),
        (ACK | {"command": "silence"}, 400, "until"),
        (ACK | {"command": "silence", "until": "2020-01-01T00:00:00.000Z"}, 400, "future"),
        (ACK | {"command": "silence", "until": "tomorrow"}, 400, "cannot be read"),
        (ACK | {"command": "silence", "until": "2099-02-30T00:00:00.000Z"}, 400, "calendar"),
        (ACK | {"rule": "no-rule"}, 404, "no-rule"),
        (ACK | {"subject": "rack-unknown"}, 404, "known"),
        (ACK | {"subject": "rack-0002"}, 404, "incident"),
        (ACK | {"command": "unsilence", "subject": "rack-unknown"}, 404, "known"),
        (b'{"subject":"' + b"x" * 4096 + b'"}', 413, "4096"),
    ],
)
def test_a_wrong_command_is_one_sentence(
    refusing: Served, body: object, status: int, word: str
) -> None:
    response = refusing.command(body)
    assert response.status_code == status
    assert word in response.json()["error"]
    assert refusing.publisher.commands == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[evil"}, 403),
        ({"Origin": "http://localhost"}, 403),
        ({"X-Requested-With": "XMLHttpRequest"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_a_command_from_elsewhere_is_refused(
    refusing: Served, headers: dict[str, str], status: int
) -> None:
    response = refusing.command(ACK, **headers)
    assert response.status_code == status
    assert response.json()["error"]
    assert refusing.publisher.commands == []


@pytest.mark.parametrize("missing", ["Origin", "X-Requested-With"])
def test_a_command_without_what_only_the_page_sends_is_refused(
    refusing: Served, missing: str
) -> None:
    headers = {"Origin": refusing.url, "Content-Type": "application/json", **PAGE}
    del headers[missing]
    response = requests.post(
        f"{refusing.url}/api/commands", data=json.dumps(ACK), headers=headers, timeout=10
    )
    assert (response.status_code, refusing.publisher.commands) == (403, [])


def test_a_wrong_method_says_which_one_is_right(refusing: Served) -> None:
    response = refusing.get("/api/commands")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert response.json()["error"]
    assert requests.post(f"{refusing.url}/stream", timeout=10).status_code == 405


def test_a_command_while_the_broker_is_away_is_one_sentence(served: Served) -> None:
    served.publisher.is_down = True
    response = served.command(ACK)
    assert (response.status_code, "broker" in response.json()["error"]) == (503, True)


def test_an_unexpected_error_is_one_protected_sentence(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.publisher, "publish", None)
    response = served.command(ACK)
    assert (response.status_code, "error" in response.json()) == (500, True)
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_a_bug_in_a_stream_is_logged_with_its_cause(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served.hub, "update_since", None)
    with Stream(served) as stream, pytest.raises((AssertionError, http.client.HTTPException)):
        stream.next()
    eventually(lambda: "'NoneType' object is not callable" in caplog.text)


def test_a_body_that_does_not_come_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "BODY_TIMEOUT_S", 0.2)
    with served.connect() as connection:
        connection.sendall(
            f"POST /api/commands HTTP/1.1\r\nHost: localhost:{served.port}\r\n"
            f"Origin: {served.url}\r\nX-Requested-With: rackstream-dashboard\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_a_page_too_many_gets_the_reason_and_the_others_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "MAX_STREAMS", 3)
    with ExitStack() as stack:
        streams = [stack.enter_context(Stream(served)) for _ in range(3)]
        refused = served.get("/stream")
        assert (refused.status_code, "3 pages" in refused.json()["error"]) == (503, True)
        served.set_temperature(1, 77.0)
        for stream in streams:
            stream.until(lambda data: has_temperature(data, 77.0))

    def reopened() -> int:
        with Stream(served) as stream:
            return stream.status

    eventually(reopened, equal_to(200))


def test_a_browser_that_never_reads_delays_nobody_and_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "STALL_TIMEOUT_S", 1.0)
    names = [f"rack-{number}-{'x' * 200}" for number in range(500)]
    with served.connect(receive_buffer=4096) as deaf, Stream(served) as listening:
        deaf.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sequences = iter(range(1, 1_000_000))

        def was_cut_off() -> bool:
            temperature_c = float(sequence := next(sequences))
            for name in names:
                served.set_temperature(sequence, temperature_c, name)
            listening.until(lambda data: has_temperature(data, temperature_c))
            return served.hub.watching == 1

        assert eventually(lambda: served.hub.watching, equal_to(2))
        eventually(was_cut_off, timeout_s=60)


def test_a_connection_that_sends_no_request_is_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HEADER_TIMEOUT_S", 0.3)
    with served.connect() as silent, served.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: local")
        for connection in (silent, slow):
            assert connection.recv(100) == b""


def test_a_body_that_nobody_asked_for_does_not_keep_a_connection_open(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HEADER_TIMEOUT_S", 0.3)
    with closing(http.client.HTTPConnection("localhost", served.port, timeout=10)) as endless:
        endless.request("GET", "/health", headers={"Content-Length": "100000"})
        assert endless.getresponse().read()
        endless.sock.sendall(b"x")
        assert endless.sock.recv(100) == b""


def test_a_connection_too_many_gets_the_reason(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    with served.connect(), served.connect(), served.connect() as third:
        answer = third.recv(1000)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"too many connections" in answer


def test_headers_without_an_end_are_refused(refusing: Served) -> None:
    with refusing.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000)
        assert connection.recv(1000).startswith(b"HTTP/1.1 4")


def test_a_port_that_is_taken_is_one_sentence_or_another_port(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserFacingError, match=f"port {port} of 127.0.0.1 is in use"):
            listen("127.0.0.1", port)
        monkeypatch.setattr("dashboard.run_command.DEFAULT_PORT", port)
        with listen("127.0.0.1", None) as listener:
            other = listener.getsockname()[1]
            assert other != port
            assert (
                f"Port {port} is in use, so the dashboard uses {other}." in capsys.readouterr().err
            )


def test_what_no_host_can_be_called_is_one_sentence() -> None:
    with pytest.raises(UserFacingError, match=r"'ä\.\.b' is no host's name or address"):
        listen("ä..b", 0)


def test_an_empty_host_is_refused_and_not_every_interface() -> None:
    with pytest.raises(UserFacingError, match=r"^--host is empty: give an address, or leave "):
        listen("", 0)


def test_an_address_of_another_machine_is_one_sentence() -> None:
    with pytest.raises(UserFacingError, match=r"cannot listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 0)


def test_streams_end_when_the_server_does(served: Served) -> None:
    with Stream(served) as stream:
        stream.next()
        eventually(lambda: served.hub.watching, above(0))
        served.hub.close()
        with pytest.raises(AssertionError, match="the stream has ended"):
            stream.next()
