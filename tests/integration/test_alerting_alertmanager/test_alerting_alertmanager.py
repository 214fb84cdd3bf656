"""A real Alertmanager takes what fires, knows when it is over or worse, and tells the receivers that it has."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from alerting.routes import Webhook
from events.times import now_ms
from tests.alerting import HOUR, MINUTE, World
from tests.support import eventually, free_port
from tests.unit.test_alerting_routes import Receiver, serving

CONFIG = """
route: {{receiver: test, group_by: [site_id], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: test
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return the server to which Alertmanager tells what it heard."""
    with serving(Receiver()) as receiver:
        yield receiver


@pytest.fixture
def api(alertmanager: str, receiver: Receiver, tmp_path: Path) -> Iterator[str]:
    """Run an Alertmanager on a free port, and return the address of its alerts."""
    config = tmp_path / "alertmanager.yml"
    config.write_text(CONFIG.format(url=receiver.url))
    port = free_port()
    arguments = [
        f"--config.file={config}",
        f"--storage.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([alertmanager, *arguments], stdout=log, stderr=log)
    api = f"http://127.0.0.1:{port}/api/v2/alerts"
    try:
        eventually(lambda: process.poll() is None and answers(api))
        yield api
    finally:
        process.kill()
        process.wait()


def answers(api: str) -> bool:
    with suppress(OSError):
        return alerts(api) == []
    return False


def alerts(api: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(api, timeout=5) as answer:  # noqa: S310 - the address is this test's own
        return json.load(answer)  # type: ignore[no-any-return]


def known(api: str) -> list[tuple[str, str]]:
    """Return subject and severity of what Alertmanager holds for firing."""
    return sorted((each["labels"]["subject"], each["labels"]["severity"]) for each in alerts(api))


def said(receiver: Receiver) -> set[tuple[str, str, str]]:
    """Return status, subject and severity of all that Alertmanager told its receiver."""
    return {
        (each["status"], each["labels"]["subject"], each["labels"]["severity"])
        for notice in list(receiver.received)
        for each in notice["alerts"]
    }


def test_it_knows_what_fires_what_got_worse_and_what_is_over(
    api: str, receiver: Receiver, tmp_path: Path
) -> None:
    world = World(tmp_path / "db", now_ms=now_ms() - 2 * HOUR)
    route = Webhook(api)

    def tell(for_ms: int) -> None:
        for notice in world.wait(for_ms):
            route.send(notice)

    world.alert("rack-1")
    world.alert("rack-2")
    tell(10 * MINUTE)
    eventually(lambda: known(api), lambda found: found == [("rack-1", "error"), ("rack-2", "error")])

    world.alert("rack-1", severity="critical")
    world.alert("rack-2", "NORMAL")
    tell(now_ms() - world.now_ms)
    eventually(lambda: known(api), lambda found: found == [("rack-1", "critical")])
    eventually(
        lambda: said(receiver),
        lambda heard: (
            {
                ("firing", "rack-1", "error"),
                ("firing", "rack-2", "error"),
                ("resolved", "rack-1", "error"),
                ("resolved", "rack-2", "error"),
                ("firing", "rack-1", "critical"),
            }
            == heard
        ),
    )
    world.close()
