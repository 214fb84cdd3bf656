"""One round trip through a real broker: producer, topic, job, topic, alert log, and the truth."""

import json
from pathlib import Path

from events.topics import DEAD_LETTERS
from tests.demo import read_truth
from tests.spark.rack_histories import alerts_by_id
from tests.support import Kafka, run

FAULTS = (
    "--fault=overheating=3,start_s=1,length_s=3,every_s=6",
    "--fault=duplicate=0.05",
    "--fault=malformed=0.02",
)


def test_every_expected_alert_is_logged_once_and_every_malformed_record_set_aside(
    topics: Kafka, tmp_path: Path
) -> None:
    inventory, truth_path = tmp_path / "racks.jsonl", tmp_path / "truth.jsonl"
    size = ("--rate=max", "--count=1000", "--racks=8")
    files = (f"--inventory={inventory}", f"--truth={truth_path}")
    produced = run("producer", "run", *size, *FAULTS, *files, env=topics.env)
    assert produced.returncode == 0, produced.stderr
    checkpoints = f"--checkpoint-root={tmp_path / 'checkpoints'}"
    options = ("--trigger=available-now", f"--inventory={inventory}", checkpoints)
    jobs = run("spark_jobs", "run", "overheating", *options, env=topics.env)
    assert jobs.returncode == 0, jobs.stderr[-2000:]
    database = f"--database={tmp_path / 'alerts.sqlite3'}"
    logged = run("alerting", "run", database, "--idle-exit=1", env=topics.env)
    assert logged.returncode == 0, logged.stderr

    truth = read_truth(truth_path)
    alerts = [json.loads(line) for line in logged.stdout.splitlines()]
    assert len(alerts) == len(truth.alerts) >= 6
    for row in (*alerts, *truth.alerts):
        row.pop("first_seen_time", None)  # added by the alert log
        for added in ("kind", "decidable_time"):  # by the truth file
            row.pop(added, None)
    assert alerts_by_id(alerts) == alerts_by_id(truth.alerts)
    dead_letters = [json.loads(record.value or b"") for record in topics.read_all(DEAD_LETTERS)]
    found = sorted((row["partition"], row["offset"]) for row in dead_letters)
    assert found == sorted((row["partition"], row["offset"]) for row in truth.dead_letters)
    assert len(found) >= 10
