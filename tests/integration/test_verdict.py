"""The verdict on producers that were killed and started again, and on outputs that were spoilt."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from events.topics import DEAD_LETTERS, RACK_READINGS, RACK_TEMPERATURE
from tests.demo import VERDICT_ROWS, table_of
from tests.support import ROOT, Kafka, above, eventually, kill, program, run

pytestmark = pytest.mark.full

SCENARIO = ROOT / "demo" / "quick_scenario.yaml"
QUICK_RULES = ROOT / "demo" / "quick_rules.yaml"
OUTAGE = "rule: site-outage"
ANY_RACK = f"{OUTAGE}\n    share: 0.05"
"""One of a site's ten racks is an outage. More must be in `WARNING` at the same time, which they
are not if the jobs are slow: they write the alerts of one rack after those of another."""
LONG_ENOUGH = "--duration=26"
"""By then all racks of a site have recovered, and lost-signal's windows since then are closed."""
RULE_JOBS = ("overheating", "weak_signal", "lost_signal", "silent_sensor", "site_outage")
OTHER_JOBS = (
    *("rack_temperature", "ad_attribution", "action_counts", "user_sessions", "user_totals"),
    *("signal_statistics", "deduplicate", "archive"),
)
CLICKSTREAM = ("--streams=clicks,actions", "--rate=400", "--duration=12", "--time-scale=2000")


def test_the_verdict_on_all_runs_and_on_each_output_that_was_spoilt(
    topics: Kafka, tmp_path: Path
) -> None:
    names = ("racks.jsonl", "ledger", "db", "archive", "rules.yaml")
    inventory, ledger, database, archive, rules_file = (tmp_path / name for name in names)
    text = QUICK_RULES.read_text(encoding="utf-8")
    assert OUTAGE in text
    rules_file.write_text(text.replace(OUTAGE, ANY_RACK), encoding="utf-8")
    env = topics.env
    racks = ["producer", "run", f"--scenario={SCENARIO}", f"--ledger={ledger}"]
    with program(*racks, f"--inventory={inventory}", env=env, output=tmp_path / "out") as killed:
        eventually(lambda: len(topics.read_all(RACK_READINGS)), above(1500), timeout_s=60)
        kill(killed, signal.SIGKILL)
    for command in ([*racks, LONG_ENOUGH], ["producer", "run", *CLICKSTREAM, racks[-1]]):
        done = run(*command, env=env)
        assert done.returncode == 0, done.stderr
    options = (
        "--trigger=available-now",
        f"--inventory={inventory}",
        f"--checkpoint-root={tmp_path / 'checkpoints'}",
    )
    rules = (*RULE_JOBS, f"--rules={rules_file}", "--watermark=5 seconds")
    others = (*OTHER_JOBS, f"--archive={archive}")
    alerting = ("alerting", "run", f"--database={database}", "--idle-exit=2")
    for words in (("spark_jobs", "run", *rules, *options), alerting):
        done = run(*words, env=env, timeout_s=240)
        assert done.returncode == 0, done.stderr[-2000:]
    # Last, as the archive has what all others write.
    done = run("spark_jobs", "run", *others, *options, env=env, timeout_s=240)
    assert done.returncode == 0, done.stderr[-2000:]

    def verdict() -> tuple[int, str]:
        files = (f"--ledger={ledger}", f"--inventory={inventory}", f"--database={database}")
        judge = ("--lost-signal-watermark=5", f"--rules={rules_file}", "--wait=3")
        judged = run("demo", "verdict", *files, f"--archive={archive}", *judge, env=env)
        assert "Traceback" not in judged.stderr
        return judged.returncode, judged.stdout + judged.stderr

    status, text = verdict()
    assert "All outputs match the truth: 0 missing, 0 wrong." in text, text
    assert status == 0
    table = table_of(text)
    assert tuple(table) == VERDICT_ROWS
    assert [name for name, (expected, *_) in table.items() if not expected] == []

    log = archive / "landing" / topics.name(RACK_READINGS) / "_spark_metadata" / "0"
    entries = log.read_text(encoding="utf-8")
    log.write_text("v1\n", encoding="utf-8")
    assert "of rack-readings is not archived" in verdict()[1]
    log.write_text(entries, encoding="utf-8")

    window = topics.read_all(RACK_TEMPERATURE)[-1]
    row = json.loads(window.value or b"") | {"reading_count": 1_000_000}
    topics.send(RACK_TEMPERATURE, [(window.key, json.dumps(row).encode())])
    status, text = verdict()
    assert status == 1
    assert "reading_count is 1000000, not " in text

    with closing(sqlite3.connect(database)) as alerts, alerts:
        (alert_id,) = alerts.execute("SELECT alert_id FROM alerts LIMIT 1").fetchone()
        alerts.execute("PRAGMA foreign_keys = OFF")
        alerts.execute("DELETE FROM alerts WHERE alert_id = ?", (alert_id,))
    assert f"missing: alert {alert_id}" in verdict()[1]

    letter = {"source_topic": "rack-readings", "partition": 0, "offset": 77_777_777}
    topics.send(DEAD_LETTERS, [(None, json.dumps(letter).encode())])
    topics.send(RACK_READINGS, [("rack-0001", b"{}")])
    text = verdict()[1]
    assert "wrong: dead letter ('rack-readings', 0, 77777777) was not expected" in text
    assert "of rack-readings is of no run" in text
