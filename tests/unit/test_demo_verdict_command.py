"""The command `verdict` fails, and names the output, when one thing alone was altered."""

import itertools
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaConnectionError
from typer.testing import CliRunner

from demo import outputs, verdict_command
from demo.clickstream import TOPICS
from demo.verdict import Truth
from events.catalog import RULES, SILENT_SENSOR
from events.cli import UserFacingError
from events.inventory import write_inventory
from events.settings import Settings
from events.times import to_text
from events.topics import (
    ALERTS,
    DEAD_LETTERS,
    DISTINCT_EVENTS,
    INCIDENTS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_TOTALS,
    Topic,
)
from tests.alerting import T0 as T0_MS
from tests.alerting import AlertingSimulation
from tests.builders import alert_value, rack
from tests.unit.test_demo_verdict import dead_letter, truth, window

NAMES = {Settings().topic(topic): topic for topic in outputs.READ_TOPICS}
UNJUDGED = {"value": None, "value_base64": None, "error": "", "seen_time": to_text(T0_MS)}
"""Fields of a dead letter that its truth does not have."""


@dataclass
class Pipeline:
    """What a pipeline has written: its topics in memory, and the database of alerting."""

    folder: Path
    topics: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    """Key, value and headers of their records."""
    said: str = ""
    """What the last verdict has printed to the standard error."""

    def __post_init__(self) -> None:
        """Write all that the truth expects."""
        self.database, self.inventory = self.folder / "database", self.folder / "inventory"
        write_inventory(self.inventory, [rack()])
        alerts = [
            json.loads(alert_value(number, rule=rule, subject=f"subject-{pair}", **state))
            for number, (rule, pair, state) in enumerate(
                itertools.product(
                    RULES,
                    (1, 2),
                    (
                        {"state": "WARNING", "severity": "error"},
                        {"state": "NORMAL", "severity": "info"},
                    ),
                )
            )
        ]
        self.truth = replace(truth(), alerts=alerts)
        alerting, incidents = AlertingSimulation(self.database), dict[bytes, bytes]()
        for row in alerts:
            self.write(ALERTS, row)
            alerting.send(json.dumps(row).encode())
        alerting.publish(incidents)
        alerting.close()
        self.topics[INCIDENTS.name] = list(incidents.items())
        expected = {
            DEAD_LETTERS: self.truth.dead_letters,
            RACK_TEMPERATURE: self.truth.windows,
            SIGNAL_STATISTICS: self.truth.signal_statistics,
            DISTINCT_EVENTS: self.truth.distinct,
            **{topic: self.truth.clickstream[kind] for kind, topic in TOPICS.items()},
        }
        for topic, rows in expected.items():
            for number, row in enumerate(rows):
                self.write(topic, row, str(number))

    def write(self, topic: Topic, row: Any, key: str = "key", *headers: tuple[str, bytes]) -> None:
        """Append a record to a topic."""
        if topic == DEAD_LETTERS:
            row = UNJUDGED | row
        record = (key.encode(), json.dumps(row).encode(), *headers)
        self.topics.setdefault(topic.name, []).append(record)

    def execute(self, statement: str, *values: object) -> None:
        """Change the database of alerting."""
        with closing(sqlite3.connect(self.database)) as db, db:
            assert db.execute(statement, values).rowcount == 1


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Return a pipeline whose outputs are all right, and which the command reads."""
    made = Pipeline(tmp_path)

    class Consumer:
        """A consumer of the topics in memory, each of which has its records in partition 0."""

        def __init__(self, **_: Any) -> None:
            self._read: set[TopicPartition] = set()

        def partitions_for_topic(self, _: str) -> set[int]:
            return {0}

        def assign(self, parts: list[TopicPartition]) -> None:
            self._parts = parts

        def assignment(self) -> list[TopicPartition]:
            return self._parts

        def _records(self, part: TopicPartition) -> list[tuple[Any, ...]]:
            return made.topics.get(NAMES[part.topic].name, [])

        def end_offsets(self, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
            return {part: len(self._records(part)) for part in parts}

        def position(self, part: TopicPartition) -> int:
            return len(self._records(part)) if part in self._read else 0

        def poll(self, **_: Any) -> dict[TopicPartition, list[Any]]:
            unread = [part for part in self._parts if part not in self._read]
            self._read.update(unread)
            return {
                part: [
                    SimpleNamespace(
                        partition=0,
                        offset=at,
                        timestamp=T0_MS,
                        key=key,
                        value=value,
                        headers=headers,
                    )
                    for at, (key, value, *headers) in enumerate(self._records(part))
                ]
                for part in unread
            }

        def close(self) -> None: ...

    def read_truth(*_: Any, clickstream_required: bool, **__: Any) -> Truth:
        return replace(made.truth, clickstream_required=clickstream_required)

    monkeypatch.setattr(outputs, "KafkaConsumer", Consumer)
    monkeypatch.setattr(outputs, "now_ms", lambda: T0_MS)
    monkeypatch.setattr(verdict_command, "read_ledger_truth", read_truth)
    monkeypatch.setattr(verdict_command, "QUIET_S", 0.0)
    return made


def judge(pipeline: Pipeline, *options: str) -> tuple[int, list[str]]:
    """Run the command; return its exit status, and what it printed below the table."""
    files = (f"--database={pipeline.database}", f"--inventory={pipeline.inventory}", "--ledger=x")
    result = CliRunner().invoke(verdict_command.app, [*files, "--wait=0", *options])
    assert isinstance(result.exception, SystemExit | None), result.exception
    pipeline.said = result.stderr
    return result.exit_code, result.stdout.splitlines()


def test_outputs_that_are_all_right_pass(pipeline: Pipeline) -> None:
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (0, "All outputs match the truth: 0 missing, 0 wrong.")


def test_a_record_of_another_kind_fails_and_its_topic_is_named(pipeline: Pipeline) -> None:
    pipeline.write(USER_TOTALS, {"user_id": "u"}, "other")
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (1, "FAILED in records of another kind: 0 missing, 1 wrong.")
    assert any("records of another kind in the topic user-totals: 1" in line for line in lines)


def test_closed_windows_are_those_with_the_header(pipeline: Pipeline) -> None:
    closed = dict(pipeline.truth.windows[0])
    pipeline.truth = replace(pipeline.truth, closed_windows=[closed])
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (1, "FAILED in closed windows: 1 missing, 0 wrong.")
    pipeline.write(RACK_TEMPERATURE, closed, "0", ("window-state", b"closed"))
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (0, "All outputs match the truth: 0 missing, 0 wrong.")


def test_alerts_that_were_due_while_no_driver_ran_are_in_a_row_of_their_own(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All alerts are appended at one moment, seconds after a driver has started again."""
    monkeypatch.setenv("RACKSTREAM_STATUS", str(pipeline.folder / "status"))
    folder = pipeline.folder / "status" / "starts"
    folder.mkdir(parents=True)

    def before_s(seconds: float) -> str:
        return to_text(T0_MS - round(1000 * seconds))

    for number, (started_s, ready_s) in enumerate([(900, 880), (20, 5)]):
        start = {
            "topic_prefix": "",
            "started_time": before_s(started_s),
            "ready_times": {"silent_sensor": before_s(ready_s)},
        }
        (folder / f"{number}.json").write_text(json.dumps(start), encoding="utf-8")
    due = {"subject-1": before_s(300), "subject-2": before_s(4)}
    alerts = [
        {**row, "decidable_time": due[row["subject"]]} if row["rule"] == SILENT_SENSOR else row
        for row in pipeline.truth.alerts
    ]
    pipeline.truth = replace(pipeline.truth, alerts=alerts)
    status, lines = judge(pipeline)
    assert status == 0
    rows = [" ".join(line.split()) for line in lines]
    assert "silent-sensor 4 4 0 0 4.0 s 4.0 s" in rows
    assert "due before first batch 2 300 s 300 s" in rows


def test_what_is_not_right_yet_is_said_while_it_is_waited_for(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_command, "PROGRESS_S", 0.0)
    late = pipeline.topics.pop(RACK_TEMPERATURE.name)
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (1, "FAILED in rack-temperature windows: 1 missing, 0 wrong.")
    said = "verdict: missing or wrong until now: rack-temperature windows 1 ...\n"
    assert said in pipeline.said
    pipeline.topics[RACK_TEMPERATURE.name] = late
    assert judge(pipeline)[0] == 0
    assert "until now" not in pipeline.said


def test_an_incident_that_comes_after_its_alert_was_read_is_not_missing(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silence of all racks may bring alerts while the outputs are read for the last time."""
    late, read_to_end = pipeline.topics.pop(INCIDENTS.name), outputs.Outputs.actual

    def actual(self: outputs.Outputs, *, up_to_date: bool = False) -> Any:
        found = read_to_end(self, up_to_date=up_to_date)
        if up_to_date and INCIDENTS.name not in pipeline.topics:
            pipeline.topics[INCIDENTS.name] = late
            self._consumer._read.clear()
        return found

    monkeypatch.setattr(outputs.Outputs, "actual", actual)
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (0, "All outputs match the truth: 0 missing, 0 wrong.")


def test_a_broker_that_ends_meanwhile_is_one_sentence(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poll(*_: Any) -> None:
        raise KafkaConnectionError("gone")

    monkeypatch.setattr(outputs.Outputs, "poll", poll)
    files = (f"--database={pipeline.database}", f"--inventory={pipeline.inventory}", "--ledger=x")
    with pytest.raises(UserFacingError, match=r"the broker at .* does not answer any longer"):
        CliRunner().invoke(verdict_command.app, files, catch_exceptions=False)


def test_a_window_that_was_altered_fails_and_is_named(pipeline: Pipeline) -> None:
    pipeline.write(RACK_TEMPERATURE, window("fleet", reading_count=8), "0")
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (1, "FAILED in rack-temperature windows: 0 missing, 1 wrong.")
    window_start = "2026-11-21T06:20:00.000Z"
    assert lines[-2] == f"wrong: window ('fleet', '{window_start}'): reading_count is 8, not 7"


@pytest.mark.parametrize("rule", RULES)
def test_an_alert_that_was_deleted_fails_and_is_named(pipeline: Pipeline, rule: str) -> None:
    lost = next(row for row in pipeline.truth.alerts if row["rule"] == rule)
    pipeline.execute("DELETE FROM alerts WHERE alert_id = ?", lost["alert_id"])
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (1, f"FAILED in {rule}: 1 missing, 0 wrong.")
    assert lines[-2].startswith(f"missing: alert {lost['alert_id']} (subject-1 ")


def test_a_dead_letter_that_was_added_fails_and_is_named(pipeline: Pipeline) -> None:
    pipeline.write(DEAD_LETTERS, dead_letter(77))
    status, lines = judge(pipeline)
    assert (status, lines[-1]) == (1, "FAILED in dead letters: 0 missing, 1 wrong.")
    assert lines[-2] == "wrong: dead letter ('rack-readings', 2, 77) was not expected"


@pytest.mark.parametrize(
    ("topic", "rows"),
    [
        (SIGNAL_STATISTICS, {"signal statistics": 1}),
        (DISTINCT_EVENTS, {"distinct actions": 1}),
        (INCIDENTS, {"incidents": 10}),
        (TOPICS["attribution"], {"clicked impressions": 2, "unclicked impressions": 1}),
        (TOPICS["session"], {"sessions": 2}),
        (TOPICS["total"], {"user totals": 1}),
        (TOPICS["action-count"], {"action counts": 2}),
    ],
    ids=lambda value: value.name if isinstance(value, Topic) else "",
)
def test_a_job_that_wrote_nothing_fails_and_is_named(
    pipeline: Pipeline, topic: Topic, rows: dict[str, int]
) -> None:
    del pipeline.topics[topic.name]
    status, lines = judge(pipeline)
    missing = sum(rows.values())
    assert status == 1
    assert lines[-1] == f"FAILED in {', '.join(rows)}: {missing} missing, 0 wrong."


def test_a_clickstream_that_was_never_sent_fails_unless_none_is_required(
    pipeline: Pipeline,
) -> None:
    for topic in (*TOPICS.values(), DISTINCT_EVENTS):
        del pipeline.topics[topic.name]
    pipeline.truth = replace(pipeline.truth, clickstream={}, distinct=())
    status, lines = judge(pipeline)
    assert status == 1
    assert lines[-1].startswith("Nothing is missing or wrong, but what was sent is too little")
    outputs_lacking = "no user totals, no action counts, no distinct actions"
    assert outputs_lacking in lines[-1]
    status, lines = judge(pipeline, "--no-clickstream")
    assert (status, lines[-1]) == (0, "All outputs match the truth: 0 missing, 0 wrong.")
