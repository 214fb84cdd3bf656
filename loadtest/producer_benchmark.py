"""Benchmark the producer: run a point without jobs that sends as fast as possible.

The senders are this project's producer or Kafka's ProducerPerformance. The rate is measured by the
broker's clock: the topic's records over the time from its first append to its last. The start of
the programs does not count.
"""

import re
import shutil
import time
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, TopicPartition

from broker.topics import create_topics
from events import settings
from events.cli import UserFacingError
from events.times import now_ms, to_text
from events.topics import RACK_READINGS
from jars.fetch import jar_paths
from jars.java import java
from loadtest import commands, topics
from loadtest.machine_speed import additions_per_us
from loadtest.measure import artifacts
from loadtest.measure.collect import consumer, idle_consumer, partitions
from loadtest.measure.gates import Findings, gates
from loadtest.measure.result import RESULT, PointResult, Process, save
from loadtest.measure.sampler import Sampler, mean_and_max
from loadtest.plan import Gates, Point
from loadtest.point import POLL_S, RunContext
from loadtest.processes import PYTHON_M, environment
from loadtest.programs import Programs

SAMPLE = 2000
"""Number of this project's records whose mean size ProducerPerformance uses."""
WAIT_S = 30.0


class ProducerBenchmark:
    """The execution of one benchmark point, in a folder of its own."""

    def __init__(self, context: RunContext, point: Point, limits: Gates) -> None:
        self._context, self._point, self._limits = context, point, limits
        self._folder = context.folder / "points" / point.folder
        self._prefix = ""
        """The topic prefix; each attempt has its own."""
        self._machine_speed: float | None = None

    def run(self) -> PointResult:
        """Run the point and return its result; its files stay in its folder.

        A broker's first point is rehearsed, because one that has just started is half as fast.
        """
        began, self._machine_speed = to_text(now_ms()), additions_per_us()
        if not self._context.rehearsed:
            self._send("rehearsing")
            topics.remove(self._context.broker.bootstrap, self._prefix)
            self._context.rehearsed = True
        sampler = self._send("sending")
        result = self._result(began, sampler)
        sampler.write(self._folder / "samples.csv")
        save(result, self._folder / RESULT)
        topics.remove(self._context.broker.bootstrap, self._prefix)
        return result

    def _send(self, status: str) -> Sampler:
        """Send all records to fresh topics, and return the samples of the programs."""
        servers, plan = self._context.broker.bootstrap, self._point.settings
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._prefix = f"load-{self._point.folder}-{now_ms()}-"
        topics.create(servers, self._prefix, [RACK_READINGS], plan.partitions)
        senders = [
            self._command(number, plan.count_for_sender(number)) for number in range(plan.senders)
        ]
        programs = Programs(self._folder, environment(servers, self._prefix))
        with ExitStack() as stack:
            sampler = Sampler({"broker": self._context.broker.pid}, servers, [self._topic], [])
            stack.enter_context(sampler)
            children = []
            for number, (command, launcher) in enumerate(senders):
                child = stack.enter_context(
                    programs.running(_name(number), *command, launcher=launcher)
                )
                sampler.add(_name(number), child.pid)
                children.append(child)
            while any(child.poll() is None for child in children):
                self._context.show_status(
                    f"{self._point.label}, repeat {self._point.repeat + 1}: {status}"
                )
                programs.check()
                time.sleep(POLL_S)
            programs.check()
        return sampler

    def _result(self, began: str, sampler: Sampler) -> PointResult:
        plan = self._point.settings
        counts = [
            self._counts(self._folder / f"{_name(number)}.log") for number in range(plan.senders)
        ]
        stored, first_ms, last_ms = topic_extent(self._context.broker.bootstrap, self._topic)
        found = Findings(
            sent=sum(sent for sent, _ in counts),
            acknowledged=sum(acknowledged for _, acknowledged in counts),
            stored=stored,
        )
        return PointResult(
            label=self._point.label,
            variant=self._point.variant,
            rate=0.0,
            repeat=self._point.repeat,
            jobs=(),
            trigger=plan.trigger,
            began=began,
            machine_speed=self._machine_speed,
            gates=gates(found, self._limits, plan.trigger),
            racks=plan.racks,
            sent=found.sent,
            throughput_per_s=stored / max(last_ms - first_ms, 1) * 1000,
            processes={
                name: Process(cpu_percent=round(cpu, 1), rss_mib=round(rss, 1))
                for name, (cpu, rss) in mean_and_max(
                    sampler.rows, first_ms / 1000, last_ms / 1000
                ).items()
            },
            folder=self._point.folder,
        )

    @property
    def _topic(self) -> str:
        return self._prefix + RACK_READINGS.name

    def _command(self, number: int, count: int) -> tuple[list[str], tuple[str, ...]]:
        """Return the command of a sender, and what launches it."""
        if self._point.settings.sender == "producer":
            return self._producer(
                _name(number), count, self._point.settings.seed + number
            ), PYTHON_M
        return [
            "-Xmx512m", "-cp", ":".join(map(str, jar_paths("broker", settings.load()))),
            "org.apache.kafka.tools.ProducerPerformance", "--topic", self._topic,
            "--num-records", str(count), "--record-size", str(self._bytes), "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={self._context.broker.bootstrap}", "acks=all",
        ], (java(),)  # fmt: skip

    def _producer(self, name: str, count: int, seed: int) -> list[str]:
        folder = self._folder / f"{name}.plan"
        folder.mkdir()
        own = msgspec.structs.replace(self._point.settings, count=count, seed=seed, senders=1)
        one_sender = Point(self._point.variant, 0.0, self._point.repeat, own)
        commands.write_scenario(one_sender, folder)
        return commands.producer(one_sender, folder)

    @cached_property
    def _bytes(self) -> int:
        """Return the mean size of this project's values, from a sample that is sent and read."""
        servers, prefix = self._context.broker.bootstrap, f"{self._prefix}sample-"
        create_topics(servers, prefix)
        programs = Programs(self._folder, environment(servers, prefix))
        programs.run_to_end("sample", *self._producer("sample", SAMPLE, self._point.settings.seed))
        reader = consumer(servers, [prefix + RACK_READINGS.name])
        try:
            sizes: list[int] = []
            while len(sizes) < SAMPLE:
                read = reader.consume(SAMPLE, timeout=WAIT_S)
                if not read:
                    raise UserFacingError(
                        f"the broker returned {len(sizes)} of {SAMPLE} records: see its log."
                    )
                sizes += [len(message.value() or b"") for message in read]
        finally:
            reader.close()
        return round(sum(sizes) / len(sizes))

    def _counts(self, log: Path) -> tuple[int, int]:
        """Return how many records a sender reports as sent and as acknowledged."""
        if self._point.settings.sender == "producer":
            summary = artifacts.summary(log)
            return int(summary["sent"]), int(summary["acknowledged"])
        reported = re.findall(
            r"^(\d+) records sent, .* max latency", log.read_text(encoding="utf-8"), re.MULTILINE
        )
        if not reported:
            raise UserFacingError(f"ProducerPerformance printed no summary: see {log}.")
        return int(reported[-1]), int(reported[-1])


def topic_extent(servers: str, topic: str) -> tuple[int, int, int]:
    """Return a topic's number of records, and its first and last append time (epoch ms)."""
    reader = idle_consumer(servers)
    try:
        stored, times = 0, []
        for part in partitions(reader, [topic]):
            _, end = reader.get_watermark_offsets(part, timeout=WAIT_S)
            stored += end
            times += [_append_ms(reader, topic, part.partition, at) for at in (0, end - 1) if end]
    finally:
        reader.close()
    return stored, min(times, default=0), max(times, default=0)


def _append_ms(reader: Consumer, topic: str, partition: int, offset: int) -> int:
    reader.assign([TopicPartition(topic, partition, offset)])
    message = reader.poll(WAIT_S)
    if message is None or message.error():
        raise UserFacingError(
            f"the broker did not return record {offset} of {topic}-{partition}: see its log."
        )
    append_ms: int = message.timestamp()[1]
    return append_ms


def _name(number: int) -> str:
    return f"sender-{number + 1}"
