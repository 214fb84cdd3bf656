"""The rack jobs on a real broker: every trigger is right, through kills and new partitions."""

import json
import signal
import subprocess
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka import KafkaAdminClient

from events.catalog import RACK_OVERHEATING, WEAK_SIGNAL
from events.inventory import write_inventory
from events.rules import Rules, read_rules
from events.topics import ALERTS, DEAD_LETTERS, RACK_READINGS
from spark_jobs.runtime.runner import JVM_ENDED
from spark_jobs.runtime.small_data import INTERPRETED_OPTIONS
from tests.builders import rack
from tests.spark.mixed_topic import (
    in_warning,
    mixed_records,
    output_differences,
    send,
    warnings_due,
)
from tests.spark.rack_histories import HOT
from tests.support import SPARK_STARTS_WITHIN_S, Kafka, equal_to, eventually, kill, program

pytestmark = pytest.mark.full

RACK_JOBS = ("overheating", "rack_temperature", "signal_statistics")
REAL_TIME_JOBS = ("overheating", "weak_signal", "rack_temperature", "signal_statistics")
SIMPLE_RULES = """
rules:
  - {rule: rack-overheating, racks: [rack-2-000, rack-2-001], threshold_c: 100, count: 5,
     severity: critical}
  - {rule: rack-overheating, racks: [rack-2-002], threshold_c: 20, severity: warning}
"""
"""Rules without memory, which Real-time Mode evaluates."""
SHUFFLE_WAIT = "--conf=spark.shuffle.streaming.networkBufferMaxWaitTimeMs=10"
"""As in the demo: outputs come some milliseconds later, and queries in real time compute less."""
REAL_TIME = ("--trigger=real-time", SHUFFLE_WAIT)
# Clocks in the histories are up to an hour wrong; with this watermark no reading is late.
NONE_LATE = "--watermark=3 days"


class Pipeline:
    """A test's own topics, checkpoints and inventory, and the jobs that read them."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka, self.folder = kafka, folder
        self.root, self.output = folder / "checkpoints", folder / "output.log"
        self.env = kafka.env
        self.thresholds: dict[str, float] = {}
        self.rules, self.files = Rules(), list[str]()

    def know(self, racks: list[str], threshold_c: float, rules: str = "") -> None:
        """Put racks into the inventory, and rules into a file."""
        inventory, rules_file = self.folder / "racks.jsonl", self.folder / "rules.yaml"
        self.thresholds = dict.fromkeys(racks, threshold_c)
        known = [rack(name, threshold_c=threshold_c) for name in racks]
        write_inventory(inventory, known)
        self.files = [f"--inventory={inventory}"]
        if rules:
            rules_file.write_text(rules, encoding="utf-8")
            self.rules = read_rules(rules_file, known)
            self.files.append(f"--rules={rules_file}")

    def command(self, *options: str, jobs: tuple[str, ...] = RACK_JOBS) -> list[str]:
        """Return the command line that runs the jobs here.

        Two partitions of state are several, and take fewer workers than the default of four. As in
        the demo, Spark compiles no code for the few rows of a batch.
        """
        own = (f"--checkpoint-root={self.root}", "--state-partitions=2", *INTERPRETED_OPTIONS)
        return ["spark_jobs", "run", *jobs, *own, *self.files, *options]

    @contextmanager
    def running(
        self, *options: str, jobs: tuple[str, ...] = RACK_JOBS
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the jobs in the background, and kill what is left of them at the end."""
        with program(
            *self.command(*options, jobs=jobs), env=self.env, output=self.output
        ) as process:
            try:
                yield process
            finally:
                kill_tree(process)

    def until(self, process: "subprocess.Popen[bytes]", look: Callable[[], object]) -> None:
        """Wait for a condition, for as long as the jobs run."""

        def alive() -> object:
            assert process.poll() is None, self.output.read_text(encoding="utf-8")[-2000:]
            return look()

        eventually(alive, timeout_s=SPARK_STARTS_WITHIN_S, every_s=0.05)

    def started(self, jobs: tuple[str, ...]) -> bool:
        """Tell whether the newest driver has said that each job has started."""
        *_, newest = self.output.read_text(encoding="utf-8").split("starting Spark ...")
        return all(f"{job} (" in newest for job in jobs)

    def kill_while(self, process: "subprocess.Popen[bytes]", look: Callable[[], object]) -> None:
        """Kill everything while a condition holds: also when nothing runs any longer."""
        while True:
            self.until(process, look)
            family = family_of(process)
            each(family, psutil.Process.suspend)
            if look():
                break
            each(family, psutil.Process.resume)
        kill_tree(process)

    def batches(self, job: str, plan: str, kind: str) -> set[int]:
        """Return the batch numbers in a query's log: `offsets` (started) or `commits` (ended)."""
        files = (self.root / job / plan).glob(f"*/{self.kafka.prefix}/{kind}/*")
        return {int(file.name) for file in files if file.name.isdigit()}

    def end_offsets(self, job: str, plan: str) -> dict[int, int]:
        """Return the offset behind a query's last record, by partition, from its log."""
        (log,) = (self.root / job / plan).glob(f"*/{self.kafka.prefix}/offsets")
        last = max(self.batches(job, plan, "offsets"))
        *_, offsets = (log / str(last)).read_text(encoding="utf-8").splitlines()
        (by_partition,) = json.loads(offsets).values()
        return {int(partition): offset for partition, offset in by_partition.items()}

    def undo_the_logs(self) -> None:
        """Leave the queries' logs as after a kill that came before their files were renamed."""
        for log in [*self.root.rglob("offsets/*"), *self.root.rglob("commits/*")]:
            if log.name.isdigit():
                log.rename(log.with_name(f".{log.name}.{uuid.uuid4()}.tmp"))
            else:
                log.unlink()

    def wrong(self, jobs: tuple[str, ...] = RACK_JOBS) -> dict[str, list[object]]:
        """Return how the outputs differ from the expected ones; nothing when they are right."""
        return output_differences(self.kafka, self.thresholds, jobs, self.rules)

    def warnings_due(self, jobs: tuple[str, ...]) -> set[tuple[str, str]]:
        """Return rule and rack where the state must end in `WARNING`."""
        return warnings_due(self.kafka, self.thresholds, jobs, self.rules)

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts as their topic holds them."""
        return [json.loads(record.value or b"") for record in self.kafka.read_all(ALERTS)]

    def reasons(self) -> Counter[str]:
        """Return how many readings were reported as dead letters for each reason."""
        rows = [json.loads(r.value or b"") for r in self.kafka.read_all(DEAD_LETTERS)]
        reasons = {
            (row["partition"], row["offset"]): row["reason"]
            for row in rows
            if row["source_topic"] == RACK_READINGS.name
        }
        return Counter(reasons.values())

    def add_partition(self) -> None:
        """Add a partition to the topic of readings."""
        count = len(self.kafka.partitions(RACK_READINGS)) + 1
        admin = KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap)
        admin.create_partitions({self.kafka.name(RACK_READINGS): count})
        admin.close()
        eventually(lambda: len(self.kafka.partitions(RACK_READINGS)), equal_to(count))


def left_out(progress: Path, query: str) -> int:
    """Return how many records a query left out, by the driver's file of progress."""
    lines = progress.read_text(encoding="utf-8").splitlines() if progress.exists() else []
    rows = [json.loads(line) for line in lines]
    return sum(row["records_left_out"] or 0 for row in rows if row["name"] == query)


def kill_tree(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program and everything that it started, as a power cut would."""
    if process.poll() is None:
        family = family_of(process)
        each(family, psutil.Process.suspend)
        each(family, psutil.Process.kill)
        process.wait(timeout=60)
        psutil.wait_procs(family, timeout=60)


def each(family: list[psutil.Process], send_signal: Callable[[psutil.Process], None]) -> None:
    """Send a signal to each process that still is."""
    for member in family:
        with suppress(psutil.NoSuchProcess):
            send_signal(member)


def family_of(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def none_is_left(family: list[psutil.Process]) -> None:
    eventually(
        lambda: [p for p in family if p.is_running() and p.status() != "zombie"],
        lambda left: not left,
    )


@pytest.fixture
def pipeline(topics: Kafka, tmp_path: Path) -> Pipeline:
    return Pipeline(topics, tmp_path)


def test_real_time_is_right_after_kills_and_new_partitions_and_stops_in_order(
    pipeline: Pipeline,
) -> None:
    contents = mixed_records(2, racks=30, readings=40, weak=True)
    pipeline.know([f"rack-2-{number:03d}" for number in range(10)], HOT, SIMPLE_RULES)
    part = len(contents) // 5
    send(pipeline.kafka, contents[:part])
    long_batch = (*REAL_TIME, "--batch-seconds=60", NONE_LATE, "--no-dead-letters")
    with pipeline.running(*long_batch, jobs=REAL_TIME_JOBS) as process:
        pipeline.until(process, lambda: pipeline.kafka.read_all(ALERTS))
        family = family_of(process)
        kill(process)
        none_is_left(family)  # the JVM ends with the program that started it
    assert not pipeline.batches("overheating", "real-time", "commits"), "killed in the first batch"
    assert pipeline.kafka.read_all(DEAD_LETTERS) == []
    pipeline.undo_the_logs()

    send(pipeline.kafka, contents[part : 2 * part])
    progress = pipeline.folder / "progress.jsonl"
    short_batch = (*REAL_TIME, "--batch-seconds=12", NONE_LATE)
    options = (*short_batch, f"--progress={progress}")
    with pipeline.running(*options, jobs=REAL_TIME_JOBS) as process:
        pipeline.until(process, lambda: not pipeline.wrong(REAL_TIME_JOBS))
        unreadable, future = (pipeline.reasons()[reason] for reason in ("unreadable", "future"))
        assert unreadable > 0 < future
        rules_leave_out, windows_leave_out = [unreadable] * 2, [unreadable + future] * 2
        pipeline.until(
            process,
            lambda: (
                [left_out(progress, job) for job in REAL_TIME_JOBS]
                == rules_leave_out + windows_leave_out
            ),
        )
        before = len(pipeline.kafka.read_all(ALERTS))
        send(pipeline.kafka, contents[2 * part : 3 * part])
        pipeline.until(process, lambda: len(pipeline.kafka.read_all(ALERTS)) > before)
        (jvm,) = (one for one in family_of(process) if one.name() == "java")
        jvm.kill()
        assert process.wait(timeout=60) == 1
    *_, last_line = pipeline.output.read_text(encoding="utf-8").splitlines()
    assert last_line == f"spark_jobs: {JVM_ENDED}"

    send(pipeline.kafka, contents[3 * part : 4 * part])
    with pipeline.running(*short_batch, jobs=REAL_TIME_JOBS) as process:
        pipeline.until(process, lambda: not pipeline.wrong(REAL_TIME_JOBS))
        pipeline.add_partition()
        send(pipeline.kafka, contents[4 * part :])
        partitions = {record.partition for record in pipeline.kafka.read_all(RACK_READINGS)}
        assert partitions == pipeline.kafka.partitions(RACK_READINGS)
        due = pipeline.warnings_due(REAL_TIME_JOBS)
        assert {rule for rule, _ in due} == {RACK_OVERHEATING, WEAK_SIGNAL}
        assert len(due) > 5
        pipeline.until(process, lambda: in_warning(pipeline.alerts()) == due)
        pipeline.until(
            process, lambda: not pipeline.wrong(("rack_temperature", "signal_statistics"))
        )
        assert in_warning(pipeline.alerts()) == due
        family = family_of(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        none_is_left(family)
    output = pipeline.output.read_text(encoding="utf-8")
    assert "Traceback" not in output
    assert "overheating (real-time)" in output
    severities = Counter((row["rule"], row["severity"]) for row in pipeline.alerts())
    assert {severity for rule, severity in severities if rule == RACK_OVERHEATING} == {
        "critical", "error", "warning", "info",
    }  # fmt: skip
    assert severities[WEAK_SIGNAL, "error"] > 40
