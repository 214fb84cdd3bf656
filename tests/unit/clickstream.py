"""Build plans of a run, the records that they send, and topics in memory that contain them."""

import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np

from events.topics import Topic
from producer.expected.topic_contents import PublishedStream
from producer.hashing import Ints
from producer.pacing.schedule import Schedule, make_schedule
from producer.scenario import Scenario, load_scenario
from producer.streams.clicks import ClickPlan, ImpressionPlan
from producer.streams.stream_plan import Batch, StreamPlan
from producer.streams.stream_set import Stream, StreamSet, clock_rate
from producer.world.racks import make_world
from tests.builders import T0

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
    flush_delay_s: float = 0.0,
) -> StreamSet:
    scenario = load_scenario(None, {"streams": names}, list(faults))
    schedule = make_schedule(
        rate=rate,
        clock_rate=clock_rate(names, 40),
        now_ms=T0,
        count=count,
        time_scale=time_scale,
        flush_delay_s=flush_delay_s,
    )
    return StreamSet(names, make_world(seed, 40), schedule, scenario.faults)


def started(scenario: Scenario, start_ms: int, first_sequence: int) -> tuple[Schedule, StreamSet]:
    """Return the schedule and the streams of a run of a scenario that starts at a moment."""
    schedule = make_schedule(
        rate=scenario.paced_rate,
        clock_rate=clock_rate(scenario.streams, scenario.racks),
        now_ms=start_ms,
        lead_ms=200,
        count=scenario.count,
        time_scale=scenario.time_scale,
    )
    streams = StreamSet(scenario.streams, scenario.make_world(), schedule, scenario.faults)
    streams.restart(schedule, first_sequence)
    return schedule, streams


def plan_of(kind: type[_Plan], streams: StreamSet) -> _Plan:
    (plan,) = (plan for plan in streams.plans if isinstance(plan, kind))
    return plan


def click_plans(streams: StreamSet) -> tuple[ImpressionPlan, ClickPlan]:
    return plan_of(ImpressionPlan, streams), plan_of(ClickPlan, streams)


@dataclass(slots=True)
class Row:
    """One record in the order of sending."""

    topic: str
    slot: int
    number: int
    flags: int
    key: bytes
    value: bytes


def sent_by(streams: StreamSet) -> list[Row]:
    """Return all records of a run, round by round."""
    return [row for batches in streams.rounds() for batch in batches for row in batch_rows(batch)]


def batch_rows(batch: Batch) -> list[Row]:
    """Return the records of a batch in the order of sending."""
    columns = (batch.slots.tolist(), batch.numbers.tolist(), batch.flags.tolist())
    rows = zip(*columns, batch.keys, batch.values, strict=True)
    return [Row(batch.topic.name, *row) for row in rows]


@dataclass
class Topics:
    """Topics in memory that lose the records at the given places and acknowledge the others."""

    streams: StreamSet
    lost: range = range(0)
    sent: list[PublishedStream] = field(init=False)
    contents: dict[str, list[tuple[int, int, bytes]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def __post_init__(self) -> None:
        """Send everything."""
        self.sent = [PublishedStream(plan) for plan in self.streams.plans]
        parts = {part.plan.topic.name: part for part in self.sent}
        ends: dict[tuple[str, int], int] = defaultdict(int)
        for place, row in enumerate(sent_by(self.streams)):
            if place in self.lost:
                continue
            partition = zlib.crc32(row.key) % 4
            offset = ends[row.topic, partition]
            ends[row.topic, partition] += 1
            parts[row.topic].acknowledged.add(row.number, row.flags, partition, offset, T0 + place)
            self.contents[row.topic].append((partition, offset, row.value))

    def records(self, topic: Topic) -> list[Any]:
        """Return the readable records of a topic."""
        assert topic.record is not None
        found = []
        for *_, value in self.contents[topic.name]:
            record = decoded(value, topic.record)
            if record is not None:
                found.append(record)
        return found


def decoded(value: bytes, record: type[msgspec.Struct]) -> Any:
    """Return the record, or None if the contract says that it cannot be read."""
    try:
        found = msgspec.json.decode(value, type=record, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # msgspec reads a text as a decimal number; the contract does not.
    return None if isinstance(msgspec.json.decode(value).get("amount"), str) else found
