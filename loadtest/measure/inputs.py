"""What do the input topics hold at the end? When each record was due and appended, and which decided outputs."""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from confluent_kafka import TopicPartition

from events.times import to_ms
from events.topics import Topic
from loadtest.measure.collect import consumer
from loadtest.measure.deciding import Deciders

AT_ONCE = 20_000
NEVER = -1
"""The scheduled time of records that have none: flush records, and those of a run at the highest rate."""


@dataclass(slots=True)
class Inputs:
    """Moments of all records, in epoch milliseconds, in no order."""

    scheduled_ms: "array[int]" = field(default_factory=lambda: array("q"))
    append_ms: "array[int]" = field(default_factory=lambda: array("q"))
    by_topic: Counter[str] = field(default_factory=Counter)
    """How many records each topic holds, by its name on the broker."""

    @property
    def held(self) -> int:
        """How many records there are."""
        return len(self.append_ms)


def read_inputs(servers: str, prefix: str, topics: Sequence[Topic], deciders: Deciders | None) -> Inputs:
    """Read the topics to their ends, and hand each readable record to the deciders.

    Without deciders, as in a catch-up, whose records are due at no time, nothing is decoded.
    """
    inputs = Inputs()
    for topic in topics:
        decoder = msgspec.json.Decoder(topic.record)
        for append_ms, value in _records(servers, prefix + topic.name):
            record = _decoded(decoder, value) if deciders else None
            text = getattr(record, "scheduled_time", None)
            scheduled_ms = NEVER if text is None else to_ms(text)
            inputs.scheduled_ms.append(scheduled_ms)
            inputs.append_ms.append(append_ms)
            inputs.by_topic[prefix + topic.name] += 1
            if deciders and record is not None:
                deciders.take(topic.name, record, scheduled_ms, append_ms)
    return inputs


def _decoded(decoder: "msgspec.json.Decoder[Any]", value: bytes) -> Any:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # a dead letter


def _records(servers: str, topic: str) -> Iterator[tuple[int, bytes]]:
    """Yield append time and value of all records that a topic holds now, each partition in order."""
    reader = consumer(servers, [topic])
    try:
        parts = [TopicPartition(topic, part.partition) for part in reader.assignment()]
        left = sum(reader.get_watermark_offsets(part)[1] for part in parts)
        while left > 0:
            for message in reader.consume(min(AT_ONCE, left), timeout=1):
                if not message.error():
                    left -= 1
                    yield message.timestamp()[1], message.value() or b""
    finally:
        reader.close()
