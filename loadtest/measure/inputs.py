"""Read the input topics at the end of a point: when each record was scheduled and appended."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from broker.topics import read_to_end
from events.times import to_ms
from events.topics import Topic
from loadtest.measure.latency_attribution import TriggerRecords

_to_ms = lru_cache(maxsize=10_000)(to_ms)  # at high rates many records have the same time
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
        for message in read_to_end(servers, prefix + topic.name):
            append_ms = message.timestamp()[1]
            record = _decoded(decoder, message.value() or b"") if triggers else None
            text = getattr(record, "scheduled_time", None)
            scheduled_ms = NEVER if text is None else _to_ms(text)
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
