"""The input topics at the end of a point: when each record was scheduled and appended."""

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
from loadtest.measure.latency_attribution import TriggerRecords

BATCH_SIZE = 20_000
NEVER = -1
"""The scheduled time of records without one: flush records, and records of a catch-up."""


@dataclass(slots=True)
class Inputs:
    """Times of all records, in epoch milliseconds, unordered."""

    scheduled_ms: "array[int]" = field(default_factory=lambda: array("q"))
    append_ms: "array[int]" = field(default_factory=lambda: array("q"))
    by_topic: Counter[str] = field(default_factory=Counter)
    """Number of records by topic name on the broker."""

    @property
    def stored(self) -> int:
        """Number of records in all topics."""
        return len(self.append_ms)


def read_inputs(
    servers: str, prefix: str, topics: Sequence[Topic], triggers: TriggerRecords | None
) -> Inputs:
    """Read the topics to their ends, and pass each well-formed record to the triggers.

    Without triggers nothing is decoded: records of a catch-up have no scheduled time.
    """
    inputs = Inputs()
    for topic in topics:
        decoder = msgspec.json.Decoder(topic.record)
        for append_ms, value in _records(servers, prefix + topic.name):
            record = _decoded(decoder, value) if triggers else None
            text = getattr(record, "scheduled_time", None)
            scheduled_ms = NEVER if text is None else to_ms(text)
            inputs.scheduled_ms.append(scheduled_ms)
            inputs.append_ms.append(append_ms)
            inputs.by_topic[prefix + topic.name] += 1
            if triggers and record is not None:
                triggers.add(topic.name, record, scheduled_ms, append_ms)
    return inputs


def _decoded(decoder: "msgspec.json.Decoder[Any]", value: bytes) -> Any:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # a dead letter


def _records(servers: str, topic: str) -> Iterator[tuple[int, bytes]]:
    """Yield append time and value of a topic's records, each partition in order."""
    reader = consumer(servers, [topic])
    try:
        parts = [TopicPartition(topic, part.partition) for part in reader.assignment()]
        remaining = sum(reader.get_watermark_offsets(part)[1] for part in parts)
        while remaining > 0:
            for message in reader.consume(min(BATCH_SIZE, remaining), timeout=1):
                if not message.error():
                    remaining -= 1
                    yield message.timestamp()[1], message.value() or b""
    finally:
        reader.close()
