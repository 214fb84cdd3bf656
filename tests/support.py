"""Help tests: write and read topics, run and kill programs, wait for conditions."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from hypothesis import settings

from events.topics import Topic
from jars.java import QUICK_JAVA

T = TypeVar("T")
Records = Iterable[tuple[str | bytes | None, bytes | None]]
"""Keys and values."""
ROOT = Path(__file__).parent.parent
FULL_EXAMPLES = 100
"""How many examples Hypothesis draws under the profile `full`, unless a test says otherwise."""
PAUSE_PER_LOOK, LONGEST_PAUSE_S = 8, 2.0
SPARK_STARTS_WITHIN_S = 300
"""A start of Spark and its jobs that takes longer hangs; on an idle machine it takes half a minute.
"""


def examples(full: int) -> settings:
    """Return the settings of a test that draws so many examples under the profile `full`.

    Under `quick` it draws the same share of them as every other test.
    """
    profile = settings()
    return settings(profile, max_examples=max(1, full * profile.max_examples // FULL_EXAMPLES))


def eventually(
    look: Callable[[], T],
    accept: Callable[[T], object] = bool,
    *,
    timeout_s: float = 60,
    every_s: float = 0.05,
) -> T:
    """Poll until the value is accepted, and return it; fail with the last value seen.

    This is the only place in the tests that sleeps. A long look, such as at whole topics, is
    followed by a longer pause: otherwise it takes a processor from what it waits for.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        if accept(value := look()):
            return value
        ended = time.monotonic()
        if ended > deadline:
            raise AssertionError(f"not within {timeout_s:g} s; the last value seen was {value!r}")
        time.sleep(max(every_s, min(LONGEST_PAUSE_S, PAUSE_PER_LOOK * (ended - began))))


def equal_to(expected: object) -> Callable[[object], bool]:
    """Return a condition for `eventually`."""
    return lambda value: value == expected


def above(limit: float) -> Callable[[float], bool]:
    """Return a condition for `eventually`."""
    return lambda value: value > limit


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a topic holds it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...] = ()
    """Pairs of a name and bytes."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """A broker's address and a test's own prefix, under which all topics of the contract exist."""

    bootstrap: str
    prefix: str

    @property
    def env(self) -> dict[str, str]:
        """The environment for a program that is to use these topics, and runs for a short time."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "TOPIC_PREFIX": self.prefix,
            "JAVA_TOOL_OPTIONS": QUICK_JAVA,
        }

    def name(self, topic: Topic) -> str:
        """Return the topic's name on the broker."""
        return self.prefix + topic.name

    def send(self, topic: Topic, records: Records, *, partition: int = -1) -> None:
        """Append (key, value) pairs in order.

        They go to the partitions that Java's producer would choose, or all to `partition`.
        """
        with closing(Sender(self)) as sender:
            sender.send(topic, records, partition=partition)

    def partitions(self, topic: Topic) -> set[int]:
        """Return the numbers of the topic's partitions; none where it does not exist."""
        with self._reader() as reader:
            found = reader.list_topics(timeout=30).topics.get(self.name(topic))
            return set(found.partitions) if found else set()

    def read_all(self, topic: Topic) -> list[Record]:
        """Return what the topic holds now, in its order: append time, partition, offset."""
        name, records = self.name(topic), list[Record]()
        parts = [
            TopicPartition(name, number, OFFSET_BEGINNING) for number in self.partitions(topic)
        ]
        assert parts, f"the topic {name} does not exist"
        with self._reader() as reader:
            reader.assign(parts)
            unread, deadline = {part.partition for part in parts}, time.monotonic() + 60
            while unread:
                assert time.monotonic() < deadline, (
                    f"{name} could not be read to its end within 60 s"
                )
                for message in reader.consume(10_000, timeout=0.1):
                    number, error = message.partition() or 0, message.error()
                    if not error:
                        _, appended_ms = message.timestamp()
                        place = number, message.offset() or 0, appended_ms
                        headers = tuple(message.headers() or ())
                        records.append(Record(*place, message.key(), message.value(), headers))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread.discard(number)
        return sorted(records, key=lambda r: (r.timestamp_ms, r.partition, r.offset))

    @contextmanager
    def _reader(self) -> Iterator[Consumer]:
        reader = Consumer({
            "bootstrap.servers": self.bootstrap, "group.id": "tests", "enable.auto.commit": False,
            "enable.partition.eof": True, "fetch.wait.max.ms": 50, "fetch.queue.backoff.ms": 5,
        })  # fmt: skip
        try:
            yield reader
        finally:
            reader.close()


class Sender:
    """Sends as `Kafka.send` does, with one producer for many calls of one thread.

    The producer learns of a topic's new partitions only after minutes.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka, self._failed = kafka, list[str]()
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random", "acks": "all"}
        )

    def send(self, topic: Topic, records: Records, *, partition: int = -1) -> None:
        """Append (key, value) pairs in order."""
        name = self._kafka.name(topic)
        for key, value in records:
            while True:
                try:
                    self._producer.produce(
                        name, key=key, value=value, on_delivery=self._note, partition=partition
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
        left, failed = self._producer.flush(30), self._failed
        assert not left and not failed, f"{left} records unsent, {len(failed)} failed: {failed[:1]}"

    def close(self) -> None:
        """Close the producer, also while the broker is away: without `purge` it would wait."""
        self._producer.purge()
        self._producer.close()

    def _note(self, error: KafkaError | None, _: Message) -> None:
        if error:
            self._failed.append(str(error))


@contextmanager
def program(
    *arguments: str | Path, env: Mapping[str, str] | None = None, output: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `python -m …` beside the test with its output in a file, and kill it on leaving."""
    with output.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: "subprocess.Popen[bytes]", with_signal: signal.Signals = signal.SIGKILL) -> int:
    """Send a signal to a process that the test started, and return its exit status."""
    if process.poll() is None:
        process.send_signal(with_signal)
    return process.wait(timeout=60)


def run(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float = SPARK_STARTS_WITHIN_S,
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m …` to its end and return its exit status and output; it may start Spark."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | (env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
