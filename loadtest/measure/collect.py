"""`python -m loadtest.measure.collect`: the consumer that sees a point's outputs. It notes when it had which record.

A process of its own, that does nothing else: it writes what it gets to a file as it is, and everything is worked out
later. It says `ready` when it follows the topics, and ends with SIGTERM.
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
"""How soon the end is noticed."""


@dataclass(frozen=True, slots=True)
class Output:
    """A record as the consumer had it: at which moment (epoch ns), and what Kafka says of it (append time in ms)."""

    seen_ns: int
    topic: int
    partition: int
    offset: int
    append_ms: int
    value: bytes

    @property
    def seen_ms(self) -> int:
        """The moment in epoch milliseconds, to the nearest."""
        return (self.seen_ns + 500_000) // 1_000_000


def follow(servers: str, topics: Sequence[str], path: Path) -> None:
    """Write every record of the topics to the file, from their beginning on, until SIGTERM."""
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: ended.append(received))
    reader = consumer(servers, topics)
    index = {topic: i for i, topic in enumerate(topics)}
    gc.disable()  # nothing here makes cycles, and a collection would be a pause in all latencies
    with path.open("wb", buffering=1 << 20) as file:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not ended:
            message = reader.poll(WAIT_S)  # one, as soon as there is one; consume(n) would wait for n of them
            if message is None or message.error():
                file.flush()
                continue
            seen_ns = time.time_ns()
            found = index[message.topic() or ""], message.partition() or 0, message.offset() or 0
            file.write(encoded(Output(seen_ns, *found, message.timestamp()[1], message.value() or b"")))
    reader.close()


def encoded(output: Output) -> bytes:
    """Return a record as the file holds it."""
    head = (
        output.seen_ns,
        output.topic,
        output.partition,
        output.offset,
        output.append_ms,
        len(output.value),
    )
    return _HEAD.pack(*head) + output.value


def outputs(path: Path) -> Iterator[Output]:
    """Yield what the file holds; a record that was not written to its end is left out."""
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            seen_ns, topic, partition, offset, append_ms, size = _HEAD.unpack(head)
            value = file.read(size)
            if len(value) < size:
                return
            yield Output(seen_ns, topic, partition, offset, append_ms, value)


def consumer(servers: str, topics: Sequence[str]) -> Consumer:
    """Return a consumer of all of the topics, from their beginning, that hands over each record at once."""
    reader = Consumer({
        "bootstrap.servers": servers, "group.id": "loadtest", "enable.auto.commit": False,
        "fetch.wait.max.ms": 5, "fetch.queue.backoff.ms": 5,
    })  # fmt: skip
    found = reader.list_topics(timeout=10).topics
    reader.assign([TopicPartition(topic, part, 0) for topic in topics for part in found[topic].partitions])
    return reader


if __name__ == "__main__":
    follow(sys.argv[1], sys.argv[3:], Path(sys.argv[2]))
