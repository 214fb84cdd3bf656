"""A compressed demo: every rule, compared with the truth; and nobody is paged."""

import socket
from pathlib import Path

import pytest

from events.catalog import LOST_SIGNAL, RULES, SILENT_SENSOR, SITE_OUTAGE, WEAK_SIGNAL
from tests.demo import alerts_in, first_alert_s, longest_delays, running_demo, table_of
from tests.promises import Promises
from tests.readme import as_on_a_terminal, not_printed
from tests.support import ROOT, free_port

pytestmark = pytest.mark.alone

OPTIONS = (
    f"--scenario={ROOT / 'demo' / 'quick_scenario.yaml'}",
    f"--rules={ROOT / 'demo' / 'quick_rules.yaml'}",
    "--duration=16",
    "--watermark=5",
    "--no-clickstream",
    "--start-jobs-first",
)

FIRST_ALERT_WITHIN_S = 30.0
DELAYS_WITHIN_S = {WEAK_SIGNAL: 1.0, LOST_SIGNAL: 5.0, SILENT_SENSOR: 2.0, SITE_OUTAGE: 5.0}
"""From the moment when a rule can decide, for alerts due after its job's first batch."""


def test_every_rule_gives_the_expected_alerts(tmp_path: Path, promises: Promises) -> None:
    with socket.create_server(("127.0.0.1", 0)) as pager:
        pager.setblocking(False)
        webhook = f"ALERTING_WEBHOOK_URL=http://127.0.0.1:{pager.getsockname()[1]}/"
        (tmp_path / ".env").write_text(f"{webhook}\n", encoding="utf-8")
        options = (*OPTIONS, f"--port={free_port()}")
        with running_demo(tmp_path, *options, folder=tmp_path) as running:
            assert running.status() == 0, running.text()
            assert running.survivors() == []
            text = running.text()
        with pytest.raises(BlockingIOError):
            pager.accept()
    assert text.splitlines()[-1].endswith(": 0 missing, 0 wrong.")
    table = table_of(text)
    others = ["dead letters", "rack-temperature windows", "archived records", "dashboard figures"]
    assert list(table) == ["input records", *RULES, *others]
    assert [name for name, (expected, *_) in table.items() if not expected] == []
    warnings = [alert for alert in alerts_in(text) if alert["state"] == "WARNING"]
    assert {alert["rule"] for alert in warnings} == set(RULES), text
    # By the file of rules; the default is `error`.
    assert {alert["severity"] for alert in warnings if alert["rule"] == SITE_OUTAGE} == {"critical"}
    assert not_printed([*text.splitlines(), *map(as_on_a_terminal, alerts_in(text))]) == []
    promises.judge("first alert of the demo", first_alert_s(text), FIRST_ALERT_WITHIN_S)
    delays = longest_delays(text)
    for rule, promised_s in DELAYS_WITHIN_S.items():
        if rule in delays:
            promises.judge(f"delay of {rule}", delays[rule], promised_s)
        else:
            promises.skip(f"delay of {rule}: all alerts were due before the first batch of its job")
