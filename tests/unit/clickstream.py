"""What the tests of the clickstream share: a run's plans, what they send, and topics that hold it in memory."""

import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np

from events.records import Event
from events.topics import Topic
from producer.clicks import ClickPlan, ImpressionPlan
from producer.hashing import Ints
from producer.held import Sent
from producer.scenario import load_scenario
from producer.schedule import make_schedule
from producer.stream import StreamPlan
from producer.streams import Stream, Streams, clock_rate
from producer.world import make_world

T0 = 1_795_000_000_000
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000

_Plan = TypeVar("_Plan", bound=StreamPlan)


def numbers(start: int, stop: int) -> Ints:
    return np.arange(start, stop, dtype=np.int64)


def streams_of(
    names: list[Stream],
    *faults: str,
    count: int = 20_000,
    rate: float | None = None,
    time_scale: float = 1.0,
    seed: int = 1,
    settling_s: float = 0.0,
) -> Streams:
    scenario = load_scenario(None, {"streams": names}, list(faults))
    schedule = make_schedule(
        rate=rate,
        clock_rate=clock_rate(names, 40),
        now_ms=T0,
        count=count,
        time_scale=time_scale,
        settling_s=settling_s,
    )
    return Streams(names, make_world(seed, 40), schedule, scenario.faults)


def plan_of(kind: type[_Plan], streams: Streams) -> _Plan:
    (plan,) = (plan for plan in streams.plans if isinstance(plan, kind))
    return plan


def shown_and_clicked(streams: Streams) -> tuple[ImpressionPlan, ClickPlan]:
    return plan_of(ImpressionPlan, streams), plan_of(ClickPlan, streams)


@dataclass(slots=True)
class Row:
    """One record in the order of sending."""

    topic: str
    slot: int
    number: int
    marks: int
    key: bytes
    value: bytes


def sent_by(streams: Streams) -> list[Row]:
    """Return all that a run sends, round by round."""
    return [
        Row(batch.topic.name, *row)
        for batches in streams.rounds()
        for batch in batches
        for row in zip(
            batch.slots.tolist(),
            batch.numbers.tolist(),
            batch.marks.tolist(),
            batch.keys,
            batch.values,
            strict=True,
        )
    ]


@dataclass
class Topics:
    """Topics in memory that take every record but those with the given places, and what was acknowledged."""

    streams: Streams
    lost: range = range(0)
    sent: list[Sent] = field(init=False)
    held: dict[str, list[tuple[int, int, bytes]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """Send everything."""
        self.sent = [Sent(plan) for plan in self.streams.plans]
        parts = {part.plan.topic.name: part for part in self.sent}
        ends: dict[tuple[str, int], int] = defaultdict(int)
        for place, row in enumerate(sent_by(self.streams)):
            if place in self.lost:
                continue
            partition = zlib.crc32(row.key) % 4
            offset = ends[row.topic, partition]
            ends[row.topic, partition] += 1
            parts[row.topic].acknowledged.add(row.number, row.marks, partition, offset, T0 + place)
            self.held[row.topic].append((partition, offset, row.value))

    def records(self, topic: Topic) -> list[Any]:
        """Return what can be read of a topic by its record's own decoder."""
        assert topic.record is not None
        found = []
        for *_, value in self.held[topic.name]:
            record = decoded(value, topic.record)
            if record is not None:
                found.append(record)
        return found


def decoded(value: bytes, record: type[msgspec.Struct]) -> Any:
    """Return the record, or None where the contract says that it cannot be read."""
    try:
        found = msgspec.json.decode(value, type=record, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # msgspec takes a text for a decimal number, the contract does not.
    return None if isinstance(msgspec.json.decode(value).get("amount"), str) else found


def event_id(event: Event) -> str:
    return event.event_id
