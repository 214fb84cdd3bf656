"""Consume a point's outputs, and record when each arrived: `python -m loadtest.measure.collect`.

It runs in a process of its own and only writes records to a file; the analysis comes later. It
prints `ready` when it consumes the topics, and ends on SIGTERM.
"""

import gc
import signal
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

_HEAD = struct.Struct("<qHHqqi")
WAIT_S = 0.2
"""How soon it notices SIGTERM."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output record: when the consumer had it (epoch ns), and its append time (epoch ms)."""

    seen_ns: int
    topic: int
    partition: int
    offset: int
    append_ms: int
    value: bytes

    @property
    def seen_ms(self) -> int:
        """When the consumer had it, in epoch milliseconds, rounded."""
        return (self.seen_ns + 500_000) // 1_000_000


def follow(servers: str, topics: Sequence[str], path: Path) -> None:
    """Write all records of the topics to the file, from the earliest offset, until SIGTERM."""
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: ended.append(received))
    reader = consumer(servers, topics)
    index = {topic: i for i, topic in enumerate(topics)}
    gc.disable()  # there are no cycles to collect, and a collection would pause all latencies
    with path.open("wb", buffering=1 << 20) as file:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not ended:
            message = reader.poll(WAIT_S)  # returns at once; consume(n) would wait for n records
            if message is None or message.error():
                file.flush()
                continue
            seen_ns = time.time_ns()
            found = index[message.topic() or ""], message.partition() or 0, message.offset() or 0
            file.write(
                encoded(Output(seen_ns, *found, message.timestamp()[1], message.value() or b""))
            )
    reader.close()


def encoded(output: Output) -> bytes:
    """Return a record in the file's format."""
    head = (
        output.seen_ns,
        output.topic,
        output.partition,
        output.offset,
        output.append_ms,
        len(output.value),
    )
    return _HEAD.pack(*head) + output.value


def read_outputs(path: Path) -> Iterator[Output]:
    """Yield the file's records, without an incomplete last one."""
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            seen_ns, topic, partition, offset, append_ms, size = _HEAD.unpack(head)
            value = file.read(size)
            if len(value) < size:
                return
            yield Output(seen_ns, topic, partition, offset, append_ms, value)


def consumer(servers: str, topics: Sequence[str]) -> Consumer:
    """Return a consumer of the topics from the earliest offset, tuned for low latency."""
    reader = idle_consumer(servers)
    reader.assign(partitions(reader, topics))
    return reader


def idle_consumer(servers: str) -> Consumer:
    """Return such a consumer without partitions: it fetches nothing, and can ask for offsets."""
    return Consumer({
        "bootstrap.servers": servers, "group.id": "loadtest", "enable.auto.commit": False,
        "fetch.wait.max.ms": 5, "fetch.queue.backoff.ms": 5,
    })  # fmt: skip


def partitions(reader: Consumer, topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of the topics, each at its first offset."""
    found = reader.list_topics(timeout=10).topics
    return [TopicPartition(topic, part, 0) for topic in topics for part in found[topic].partitions]


if __name__ == "__main__":
    follow(sys.argv[1], sys.argv[3:], Path(sys.argv[2]))
