"""How fast are records sent? A point without jobs: senders at their fastest, this project's or Kafka's own.

The rate is by the broker's clock, the same for all of them: the records that the topic holds over the time from its
first append to its last. How long a program takes to start is not in it.
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
from events.cli import PersonError
from events.times import now_ms, to_text
from events.topics import RACK_READINGS
from jars.fetch import jar_paths
from jars.java import java
from loadtest import commands, topics
from loadtest.measure import left
from loadtest.measure.collect import consumer
from loadtest.measure.gates import Findings, gates
from loadtest.measure.result import RESULT, PointResult, Process, save
from loadtest.measure.sampler import Sampler, mean_and_most
from loadtest.plan import Gates, Point
from loadtest.point import STEP_S, Bench
from loadtest.processes import PYTHON_M, environment
from loadtest.programs import Programs

SAMPLE = 2000
"""From so many of our records the size of Kafka's is taken."""
WAIT_S = 30.0


class Sending:
    """A point that is being run, in a folder of its own."""

    def __init__(self, bench: Bench, point: Point, bounds: Gates) -> None:
        self._bench, self._point, self._bounds = bench, point, bounds
        self._folder = bench.folder / "points" / point.folder
        self._prefix = ""
        """Of the topics; each sending has its own."""

    def run(self) -> PointResult:
        """Run it and return what it says; its files lie in its folder afterwards.

        The first repeat is rehearsed: a broker that has only just started takes half as many records.
        """
        began = to_text(now_ms())
        if self._point.repeat == 0:
            self._send("rehearsing")
            topics.remove(self._bench.broker.bootstrap, self._prefix)
        sampler = self._send("sending")
        result = self._result(began, sampler)
        sampler.write(self._folder / "samples.csv")
        save(result, self._folder / RESULT)
        topics.remove(self._bench.broker.bootstrap, self._prefix)
        return result

    def _send(self, what: str) -> Sampler:
        """Send everything into fresh topics, and return what the programs took."""
        servers, plan = self._bench.broker.bootstrap, self._point.settings
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._prefix = f"load-{self._point.folder}-{now_ms()}-"
        topics.make(servers, self._prefix, [RACK_READINGS], plan.partitions)
        senders = [self._command(number, plan.count_of(number)) for number in range(plan.senders)]
        programs = Programs(self._folder, environment(servers, self._prefix))
        with ExitStack() as stack:
            sampler = Sampler({"broker": self._bench.broker.pid}, servers, [self._topic], [])
            stack.enter_context(sampler)
            children = []
            for number, (command, by) in enumerate(senders):
                child = stack.enter_context(programs.running(_name(number), *command, by=by))
                sampler.add(_name(number), child.pid)
                children.append(child)
            while any(child.poll() is None for child in children):
                self._bench.tell(f"{self._point.label}, repeat {self._point.repeat + 1}: {what}")
                programs.check()
                time.sleep(STEP_S)
            programs.check()
        return sampler

    def _result(self, began: str, sampler: Sampler) -> PointResult:
        plan = self._point.settings
        counts = [self._counts(self._folder / f"{_name(number)}.log") for number in range(plan.senders)]
        held, first_ms, last_ms = held_between(self._bench.broker.bootstrap, self._topic)
        found = Findings(
            sent=sum(sent for sent, _ in counts), acknowledged=sum(taken for _, taken in counts), held=held
        )
        return PointResult(
            label=self._point.label,
            variant=self._point.variant,
            rate=0.0,
            repeat=self._point.repeat,
            jobs=(),
            trigger=plan.trigger,
            began=began,
            gates=gates(found, self._bounds, plan.trigger),
            racks=plan.racks,
            sent=found.sent,
            whole_per_s=held / max(last_ms - first_ms, 1) * 1000,
            processes={
                name: Process(cpu_percent=round(cpu, 1), rss_mib=round(rss, 1))
                for name, (cpu, rss) in mean_and_most(sampler.rows, first_ms / 1000, last_ms / 1000).items()
            },
            folder=self._point.folder,
        )

    @property
    def _topic(self) -> str:
        return self._prefix + RACK_READINGS.name

    def _command(self, number: int, count: int) -> tuple[list[str], tuple[str, ...]]:
        """Return the command of a sender, and what runs it."""
        if self._point.settings.sender == "producer":
            return self._producer(_name(number), count, self._point.settings.seed + number), PYTHON_M
        return [
            "-Xmx512m", "-cp", ":".join(map(str, jar_paths("broker", settings.load()))),
            "org.apache.kafka.tools.ProducerPerformance", "--topic", self._topic,
            "--num-records", str(count), "--record-size", str(self._bytes), "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={self._bench.broker.bootstrap}", "acks=all",
        ], (java(),)  # fmt: skip

    def _producer(self, name: str, count: int, seed: int) -> list[str]:
        folder = self._folder / f"{name}.plan"
        folder.mkdir()
        own = msgspec.structs.replace(self._point.settings, count=count, seed=seed, senders=1)
        alone = Point(self._point.variant, 0.0, self._point.repeat, own)
        commands.write_scenario(alone, folder)
        return commands.producer(alone, folder)

    @cached_property
    def _bytes(self) -> int:
        """Return the mean size of this project's values, of a few that are sent and read back."""
        servers, prefix = self._bench.broker.bootstrap, f"{self._prefix}sample-"
        create_topics(servers, prefix)
        programs = Programs(self._folder, environment(servers, prefix))
        programs.to_end("sample", *self._producer("sample", SAMPLE, self._point.settings.seed))
        reader = consumer(servers, [prefix + RACK_READINGS.name])
        try:
            sizes: list[int] = []
            while len(sizes) < SAMPLE:
                read = reader.consume(SAMPLE, timeout=WAIT_S)
                if not read:
                    raise PersonError(f"the broker gave back {len(sizes)} of {SAMPLE} records: see its log.")
                sizes += [len(message.value() or b"") for message in read]
        finally:
            reader.close()
        return round(sum(sizes) / len(sizes))

    def _counts(self, log: Path) -> tuple[int, int]:
        """Return how many records a sender says that it sent, and were acknowledged."""
        if self._point.settings.sender == "producer":
            summary = left.summary(log)
            return int(summary["sent"]), int(summary["acknowledged"])
        said = re.findall(
            r"^(\d+) records sent, .* max latency", log.read_text(encoding="utf-8"), re.MULTILINE
        )
        if not said:
            raise PersonError(f"ProducerPerformance left no summary: see {log}.")
        return int(said[-1]), int(said[-1])


def held_between(servers: str, topic: str) -> tuple[int, int, int]:
    """Return how many records a topic holds, and the append times (epoch ms) of the first and of the last one."""
    reader = consumer(servers, [topic])
    try:
        held, moments = 0, []
        for part in reader.assignment():
            _, end = reader.get_watermark_offsets(TopicPartition(topic, part.partition), timeout=WAIT_S)
            held += end
            moments += [_append_ms(reader, topic, part.partition, at) for at in (0, end - 1) if end]
    finally:
        reader.close()
    return held, min(moments, default=0), max(moments, default=0)


def _append_ms(reader: Consumer, topic: str, partition: int, offset: int) -> int:
    reader.assign([TopicPartition(topic, partition, offset)])
    message = reader.poll(WAIT_S)
    if message is None or message.error():
        raise PersonError(
            f"the broker did not give back record {offset} of {topic}-{partition}: see its log."
        )
    moment: int = message.timestamp()[1]
    return moment


def _name(number: int) -> str:
    return f"sender-{number + 1}"
