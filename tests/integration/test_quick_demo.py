"""A compressed demo until Ctrl-C: every rule, compared with the truth; and nobody is paged."""

import math
import os
import signal
import socket
from pathlib import Path

import pytest

from broker.server import free_port
from demo.delays import first_batches
from demo.outputs import read_json_lines
from demo.run import RULES_BATCH_S
from events.catalog import (
    LOST_SIGNAL,
    RACK_OVERHEATING,
    RULE_JOBS,
    RULES,
    SILENT_SENSOR,
    SITE_OUTAGE,
    WEAK_SIGNAL,
)
from events.times import to_ms
from tests.demo import (
    RULES_IN_BOTH_STATES,
    RunningDemo,
    alerts_in,
    first_alert_s,
    longest_delays,
    running_demo,
    table_of,
)
from tests.promises import MARGIN, Promises
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
DELAYS_WITHIN_S = {WEAK_SIGNAL: 1.0, LOST_SIGNAL: 5.0, SILENT_SENSOR: 2.0, SITE_OUTAGE: 5.0}
"""From the moment when a rule can decide, for alerts due after its job's first batch."""


def every_rule_in_both_states(running: RunningDemo) -> bool:
    """Tell whether each rule has an alert of each state."""
    states = {(alert["rule"], alert["state"]) for alert in alerts_in(running.text())}
    return states == RULES_IN_BOTH_STATES


def longest_batches_s(home: Path) -> dict[str, float]:
    """Return how long each job's longest batch took, without those up to its first with records."""
    batches = read_json_lines(home / "progress.jsonl")
    ready_ms, longest_s = first_batches(batches), dict[str, float]()
    for batch in batches:
        name, took_s = batch["name"], batch["durationMs"]["triggerExecution"] / 1000
        if to_ms(batch["timestamp"]) >= ready_ms.get(name, math.inf):
            longest_s[name] = max(took_s, longest_s.get(name, 0.0))
    return longest_s


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
    promises.judge("first alert of the demo", first_alert_s(text), FIRST_ALERT_WITHIN_S)
    delays, batches_s = longest_delays(text), longest_batches_s(running.home)
    for rule, promised_s in DELAYS_WITHIN_S.items():
        # An alert may wait for an interval and a batch. These batches compile their code as they
        # run: `test_silence_delay` judges the shortest promise on a job that has done so.
        batch_s = min(RULES_BATCH_S, MARGIN * promised_s - RULES_BATCH_S)
        if rule not in delays:
            promises.skip(f"delay of {rule}: all alerts were due before the first batch of its job")
        elif (took_s := batches_s.get(RULE_JOBS[rule])) and took_s > batch_s:
            promises.skip(
                f"delay of {rule}: {delays[rule]:.1f} s instead of {promised_s:g} s, "
                f"with batches of up to {took_s:.1f} s instead of {batch_s:g} s"
            )
        else:
            promises.judge(f"delay of {rule}", delays[rule], promised_s)
