"""The rack jobs on a real broker: every trigger is right, through kills and new partitions."""

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient

from broker.server import RunningBroker
from broker.topics import create_topics
from events.inventory import write_inventory
from events.topics import ALERTS, RACK_READINGS
from spark_jobs.runtime.runner import JVM_ENDED
from tests.builders import rack
from tests.spark.mixed_topic import (
    expected_racks_in_warning,
    mixed_records,
    output_differences,
    racks_in_warning,
    send,
)
from tests.spark.rack_histories import HOT
from tests.support import Kafka, eventually, program

pytestmark = pytest.mark.full

RACK_JOBS = ("overheating", "rack_temperature", "signal_statistics")
REAL_TIME = "--trigger=real-time"
# Clocks in the histories are up to an hour wrong; with this watermark no reading is late.
NONE_LATE = "--watermark=3 days"


class Pipeline:
    """A test's own topics, checkpoints and inventory, and the jobs that read them."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka, self.folder = kafka, folder
        self.root, self.output = folder / "checkpoints", folder / "output.log"
        self.env = kafka.env
        self.thresholds: dict[str, float] = {}

    def know(self, racks: list[str], threshold_c: float) -> None:
        """Put racks into the inventory."""
        self.thresholds = dict.fromkeys(racks, threshold_c)
        write_inventory(
            self.folder / "racks.jsonl", [rack(name, threshold_c=threshold_c) for name in racks]
        )

    def command(self, *options: str, jobs: tuple[str, ...] = RACK_JOBS) -> list[str]:
        """Return the command line that runs the jobs here.

        Two partitions of state are several, and take fewer workers than the default of four.
        """
        inventory = [f"--inventory={self.folder / 'racks.jsonl'}"] if self.thresholds else []
        own = (f"--checkpoint-root={self.root}", "--state-partitions=2")
        return ["spark_jobs", "run", *jobs, *own, *inventory, *options]

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

        eventually(alive, timeout_s=120, every_s=0.05)

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

    def undo_the_logs(self) -> None:
        """Leave the queries' logs as after a kill that came before their files were renamed."""
        for log in [*self.root.rglob("offsets/*"), *self.root.rglob("commits/*")]:
            if log.name.isdigit():
                log.rename(log.with_name(f".{log.name}.{uuid.uuid4()}.tmp"))
            else:
                log.unlink()

    def wrong(self, jobs: tuple[str, ...] = RACK_JOBS) -> dict[str, list[object]]:
        """Return how the outputs differ from the expected ones; nothing when they are right."""
        return output_differences(self.kafka, self.thresholds, jobs)


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
def pipeline(broker: RunningBroker, tmp_path: Path) -> Pipeline:
    kafka = Kafka(broker.bootstrap, f"jobs-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix)
    return Pipeline(kafka, tmp_path)


def test_real_time_is_right_after_kills_at_any_moment_and_stops_in_order(
    pipeline: Pipeline,
) -> None:
    contents = mixed_records(2, racks=30, readings=40)
    pipeline.know([f"rack-2-{number:03d}" for number in range(10)], HOT)
    part = len(contents) // 3
    send(pipeline.kafka, contents[:part])
    with pipeline.running(REAL_TIME, "--batch-seconds=60", NONE_LATE) as process:
        pipeline.until(process, lambda: pipeline.kafka.read_all(ALERTS))
        kill_tree(process)
    assert not pipeline.batches("overheating", "real-time", "commits"), "killed in the first batch"
    pipeline.undo_the_logs()

    send(pipeline.kafka, contents[part : 2 * part])
    with pipeline.running(REAL_TIME, "--batch-seconds=5", NONE_LATE) as process:
        pipeline.until(
            process, lambda: 1 in pipeline.batches("overheating", "real-time", "commits")
        )
        (jvm,) = (one for one in family_of(process) if one.name() == "java")
        jvm.kill()
        assert process.wait(timeout=60) == 1
    *_, last_line = pipeline.output.read_text(encoding="utf-8").splitlines()
    assert last_line == f"spark_jobs: {JVM_ENDED}"

    send(pipeline.kafka, contents[2 * part :])
    with pipeline.running(REAL_TIME, "--batch-seconds=5", NONE_LATE) as process:
        pipeline.until(process, lambda: not pipeline.wrong())
        family = family_of(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=15) == 0
        none_is_left(family)
    assert "Traceback" not in pipeline.output.read_text(encoding="utf-8")
    assert pipeline.wrong() == {}


def test_partitions_added_to_many_leave_every_rack_in_its_right_state(
    broker: RunningBroker, tmp_path: Path
) -> None:
    kafka = Kafka(broker.bootstrap, f"wide-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix, partitions={RACK_READINGS.name: 16})
    pipeline, jobs = Pipeline(kafka, tmp_path), ("overheating",)
    contents = mixed_records(4, racks=60, readings=30)
    half = len(contents) // 2
    send(kafka, contents[:half])
    with pipeline.running("--batch-seconds=5", jobs=jobs) as process:
        pipeline.until(process, lambda: not pipeline.wrong(jobs))
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        admin.create_partitions({kafka.name(RACK_READINGS): 18})
        admin.close()
        eventually(lambda: len(kafka.partitions(RACK_READINGS)), lambda count: count == 18)
        send(kafka, contents[half:])
        assert {record.partition for record in kafka.read_all(RACK_READINGS)} == set(range(18))
        expected = expected_racks_in_warning(kafka)
        assert len(expected) > 5
        pipeline.until(process, lambda: racks_in_warning(kafka) == expected)
        family = family_of(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=15) == 130
        none_is_left(family)
    assert "Traceback" not in pipeline.output.read_text(encoding="utf-8")
