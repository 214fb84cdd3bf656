"""A compressed demo until Ctrl-C: every rule, compared with the truth; and nobody is paged."""

import json
import math
import os
import signal
import socket
from pathlib import Path

import pytest

from broker.server import free_port
from events.catalog import (
    LOST_SIGNAL,
    RACK_OVERHEATING,
    RULES,
    SILENT_SENSOR,
    SITE_OUTAGE,
    WEAK_SIGNAL,
)
from tests.demo import (
    RULES_IN_BOTH_STATES,
    RunningDemo,
    alerts_in,
    first_alert_s,
    longest_delays,
    running_demo,
    table_of,
)
from tests.promises import Promises
from tests.support import ROOT

pytestmark = pytest.mark.alone

OPTIONS = (
    f"--scenario={ROOT / 'demo' / 'quick_scenario.yaml'}",
    f"--rules={ROOT / 'demo' / 'quick_rules.yaml'}",
    "--watermark=5",
    "--no-clickstream",
    "--start-jobs-first",
)

FIRST_ALERT_WITHIN_S = 30.0
DELAYS_WITHIN_S = {WEAK_SIGNAL: 1.0, LOST_SIGNAL: 5.0, SILENT_SENSOR: 4.0, SITE_OUTAGE: 5.0}
"""From the moment when a rule can decide, for alerts due after its job's first batch.

The bounds of docs/operations.md ("Delays of alerts") for the demo's interval; `test_silence_delay`
measures 2 s for `silent_sensor` alone.
"""


def every_rule_in_both_states(running: RunningDemo) -> bool:
    """Tell whether each rule has an alert of each state."""
    states = {(alert["rule"], alert["state"]) for alert in alerts_in(running.text())}
    return states == RULES_IN_BOTH_STATES


def ready_jobs(home: Path) -> set[str]:
    """Return the jobs of which a driver has noted when they were ready."""
    files = (home.parent / "status" / "starts").glob("*.json")
    noted = [json.loads(file.read_text(encoding="utf-8"))["ready_times"] for file in files]
    return {job for ready_times in noted for job, time in ready_times.items() if time}


def test_every_rule_gives_the_expected_alerts_until_ctrl_c(
    tmp_path: Path, promises: Promises
) -> None:
    port, folder = free_port(), tmp_path / "with a blank"
    folder.mkdir()
    checkout, jars = folder / "checkout", folder / "jars"
    checkout.symlink_to(ROOT)
    jars.symlink_to(os.environ["RACKSTREAM_JARS"])
    with socket.create_server(("127.0.0.1", 0)) as pager:
        pager.setblocking(False)
        webhook = f"ALERTING_WEBHOOK_URL=http://127.0.0.1:{pager.getsockname()[1]}/"
        (folder / ".env").write_text(f"{webhook}\n", encoding="utf-8")
        places = {"PYTHONPATH": str(checkout), "RACKSTREAM_JARS": str(jars)}
        env = {"PORT": str(port), **places}
        with running_demo(folder, *OPTIONS, folder=folder, env=env) as running:
            running.reach(every_rule_in_both_states)
            running.process.send_signal(signal.SIGINT)
            assert running.status() == 0, running.text()
            assert running.survivors() == []
            text = running.text()
        with pytest.raises(BlockingIOError):
            pager.accept()
    assert f"localhost:{port}" in text
    assert "waiting for the outputs that are still missing" in text
    assert text.splitlines()[-1].endswith(": 0 missing, 0 wrong.")
    table = table_of(text)
    jobs = ["dead letters", "rack-temperature windows", "archived records"]
    assert list(table) == ["input records", *RULES, "incidents", *jobs, "dashboard figures"]
    assert [name for name, (expected, *_) in table.items() if not expected] == []
    alerts = alerts_in(text)
    overheating = [alert for alert in alerts if alert["rule"] == RACK_OVERHEATING]
    assert len(overheating) == table[RACK_OVERHEATING][0]
    # By the file of rules. The defaults are three readings, and `error`.
    warnings = [alert for alert in alerts if alert["state"] == "WARNING"]
    evidence = {len(alert["evidence"]) for alert in warnings if alert["rule"] == RACK_OVERHEATING}
    assert evidence == {2}
    assert {alert["severity"] for alert in warnings if alert["rule"] == SITE_OUTAGE} == {"critical"}
    assert ready_jobs(running.home) == {"lost_signal", "silent_sensor", "site_outage"}
    promises.compare("first alert of the demo", first_alert_s(text), FIRST_ALERT_WITHIN_S)
    delays = longest_delays(text)
    for rule, promised_s in DELAYS_WITHIN_S.items():
        # No delay: all alerts were due before the first batch of the rule's job.
        promises.compare(f"delay of {rule}", delays.get(rule, math.inf), promised_s)
