"""A compressed demo: every rule, compared with the truth; and nobody is paged."""

import socket
from pathlib import Path

import pytest

from events.catalog import RULES, SITE_OUTAGE
from tests.demo import alerts_in, running_demo, table_of
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


def test_every_rule_gives_the_expected_alerts(tmp_path: Path) -> None:
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
