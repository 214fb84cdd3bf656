"""A real Alertmanager receives open, escalated and resolved alerts and notifies its receivers."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from alerting.notifications.channels import WebhookChannel
from broker.server import free_port
from events.times import now_ms
from tests.alerting import HOUR, MINUTE, AlertingSimulation
from tests.support import eventually
from tests.unit.test_alerting_channels import Receiver, serving

pytestmark = pytest.mark.full

CONFIG = """
route:
  {{receiver: test, group_by: [site_id], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: test
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return the server that Alertmanager notifies."""
    with serving(Receiver()) as receiver:
        yield receiver


@pytest.fixture
def api(alertmanager: str, receiver: Receiver, tmp_path: Path) -> Iterator[str]:
    """Run Alertmanager on a free port, and return the URL of its alerts."""
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


def open_alerts(api: str) -> list[tuple[str, str]]:
    """Return subject and severity of the alerts that Alertmanager considers open."""
    return sorted((each["labels"]["subject"], each["labels"]["severity"]) for each in alerts(api))


def notified_alerts(receiver: Receiver) -> set[tuple[str, str, str]]:
    """Return status, subject and severity of all alerts that Alertmanager sent."""
    return {
        (each["status"], each["labels"]["subject"], each["labels"]["severity"])
        for notice in list(receiver.received)
        for each in notice["alerts"]
    }


def test_alertmanager_knows_open_escalated_and_resolved_alerts(
    api: str, receiver: Receiver, tmp_path: Path
) -> None:
    sim = AlertingSimulation(tmp_path / "db", now_ms=now_ms() - 2 * HOUR)
    channel = WebhookChannel(api)

    def send_notices(for_ms: int) -> None:
        for notice in sim.wait(for_ms):
            channel.send(notice)

    sim.alert("rack-1")
    sim.alert("rack-2")
    send_notices(10 * MINUTE)
    eventually(
        lambda: open_alerts(api), lambda found: found == [("rack-1", "error"), ("rack-2", "error")]
    )
    # Alertmanager never notifies of an alert that has ended before its group's wait is over.
    firing = {("firing", "rack-1", "error"), ("firing", "rack-2", "error")}
    eventually(lambda: notified_alerts(receiver), firing.issubset)

    sim.alert("rack-1", severity="critical")
    sim.alert("rack-2", "NORMAL")
    send_notices(now_ms() - sim.now_ms)
    eventually(lambda: open_alerts(api), lambda found: found == [("rack-1", "critical")])
    eventually(
        lambda: notified_alerts(receiver),
        lambda found: (
            {
                *firing,
                ("resolved", "rack-1", "error"),
                ("resolved", "rack-2", "error"),
                ("firing", "rack-1", "critical"),
            }
            == found
        ),
    )
    sim.close()
