"""Rules in buckets of racks, on Spark's tester: order of rows, state, timers, known racks."""

import tracemalloc
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from msgspec import Raw, field
from msgspec.json import encode
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from events.records import InventoryRack, RackReading
from events.rules import Rules, SilentSensor, WeakSignal
from events.times import to_ms
from producer.expected.oracles.weak_signal import weak_signal_alerts
from spark_jobs.rules.framework.bucketed_readings import (
    Buckets,
    bucket_of,
    readings_schema,
    to_bucket_batches,
)
from spark_jobs.rules.framework.bucketed_rule import (
    ROWS_PER_SLICE,
    BucketProcessor,
    inventory_by_bucket,
    rows_by_rack,
)
from spark_jobs.rules.framework.rack_metadata import RackMetadata
from spark_jobs.rules.framework.stateful_rule import Decision, StatefulRule
from spark_jobs.rules.silent_sensor import SilentSensorState
from spark_jobs.rules.weak_signal import WeakSignalState
from tests.builders import T0, rack, reading
from tests.spark.rack_histories import deliveries

FIELDS = (
    "rack_id",
    "event_id",
    "sequence",
    "event_time",
    "site_id",
    "temperature_c",
    "signal_strength",
)
SCHEMA = readings_schema(FIELDS)
BUCKET = 7
RACKS = [name for n in range(1000) if bucket_of(name := f"rack-{n:04d}") == BUCKET][:6]
"""Racks of one bucket."""
A, B, *_ = RACKS
ELSEWHERE = next(name for n in range(1000) if bucket_of(name := f"rack-{n:04d}") != BUCKET)


class SeenState(StatefulRule):
    """Decides at each reading, and `after_ms` after the last: shows what a rule is given."""

    seen: list[str] = field(default_factory=list)
    timer_ms: int | None = None
    after_ms: int = 10
    site_id: str = "unknown"

    def configure(self, row: RackMetadata, rules: Rules) -> None:  # noqa: ARG002
        """Take the site."""
        if row.rack:
            self.site_id = row.rack.site_id

    def on_start(self, now_ms: int) -> None:
        """Wait from the start on."""
        self.timer_ms = now_ms + self.after_ms

    def on_row(self, subject: str, row: Any) -> Iterator[Decision]:  # noqa: ARG002
        """Decide at each reading."""
        self.seen.append(row.event_id)
        self.timer_ms = row.append_ms + self.after_ms
        yield Decision(self.site_id, "error", row.event_time, row.event_id)

    def next_timer_ms(self) -> int | None:
        """Return when to decide next."""
        return self.timer_ms

    def on_timer(self, subject: str, now_ms: int) -> Iterator[Decision]:
        """Decide with all that was seen."""
        self.timer_ms = None
        yield Decision(self.site_id, None, now_ms * 1000, f"{subject} {','.join(self.seen)}")


def positioned(topic: Sequence[RackReading], first_offset: int = 0) -> list[dict[str, Any]]:
    """Return a topic's readings as rows of `SCHEMA`; records share append times."""
    return [
        {name: getattr(taken, name) for name in FIELDS}
        | {"event_time": to_ms(taken.event_time) * 1000}
        | {"append_ms": T0 + (first_offset + at) // 20, "partition": 0, "offset": first_offset + at}
        for at, taken in enumerate(topic)
    ]


def batch(rows: list[dict[str, Any]]) -> Row:
    """Return readings of one bucket as one row, as Spark passes it to the processor."""
    (part,) = to_bucket_batches(pa.RecordBatch.from_pylist(rows, SCHEMA)).to_pylist()
    return Row(readings=part["readings"], fallback_row=None)


def fallback(row: dict[str, Any]) -> Row:
    return Row(readings=None, fallback_row=encode(row).decode())


def at(append_ms: int, rack_id: str, sequence: int = 1, event_s: float = 0.0) -> dict[str, Any]:
    """Return one reading, appended at `append_ms` after `T0`."""
    (row,) = positioned([reading(sequence, 70.0, rack_id, at_s=event_s)])
    return row | {"append_ms": T0 + append_ms, "offset": append_ms}


def processor(
    rule: type[StatefulRule] = SeenState,
    inventory: Sequence[InventoryRack] = (),
    rules: Rules | None = None,
    latest: str | None = None,
    **settings: Any,
) -> BucketProcessor:
    return BucketProcessor(
        rule, rules or Rules(), inventory_by_bucket(inventory), Buckets(SCHEMA, latest), settings
    )


def by_wall_clock(one: BucketProcessor, *, seeded: bool = False) -> TwsTester:
    initial = [(BUCKET, Row(bucket=BUCKET))] if seeded else None
    return TwsTester(one, initialStateRow=initial, timeMode="ProcessingTime")


def ids(rows: Any) -> list[tuple[str, str]]:
    return [(row["subject"], row["trigger_event_id"]) for row in rows]


def decided(rows: Any) -> list[Row]:
    """Return the tester's rows, whose type it leaves open."""
    return list(rows)


def timers(tester: TwsTester) -> list[int]:
    tester.handle.setGroupingKey(BUCKET)
    return list(tester.handle.listTimers())


def test_a_rule_in_buckets_gives_the_alerts_of_the_oracle() -> None:
    random = Random(3)
    histories = [deliveries(random, name, readings=40) for name in RACKS]
    topic = [each for turn in zip(*histories, strict=False) for each in turn]
    strength = {each.event_id: random.choice([0.1, 0.2, 0.24, 0.25, 0.9]) for each in topic}
    for each in topic:
        each.signal_strength = strength[each.event_id]
    tester = TwsTester(processor(WeakSignalState))
    rows = positioned(topic)
    found = []
    for start in range(0, len(rows), 50):
        batches = rows[start : start + 50]
        random.shuffle(batches)
        cells = [batch(part) for part in (batches[:20], batches[20:40]) if part]
        cells += map(fallback, batches[40:])
        found += tester.test(BUCKET, random.sample(cells, len(cells)))
    due = weak_signal_alerts(topic, lambda _: WeakSignal())
    assert len(due) > 40
    assert sorted((row["subject"], row["state"], row["trigger_event_id"]) for row in found) == (
        sorted((row["subject"], row["state"], trigger_of(row)) for row in due)
    )


def trigger_of(row: dict[str, Any]) -> str:
    return str(row["evidence"][-1]["event_id"])


def test_a_backlog_is_taken_in_order_and_only_a_part_is_in_memory_as_python_objects() -> None:
    count = 6 * ROWS_PER_SLICE + 1
    first = at(0, A)
    offsets = Random(5).sample(range(count), count)
    columns = {name: [first[name]] * count for name in SCHEMA.names}
    columns["rack_id"] = [RACKS[offset % 5] for offset in offsets]
    columns["event_id"] = [f"{offset:032x}" for offset in offsets]
    backlog = pa.table(columns | {"offset": offsets}, SCHEMA)
    del columns
    found = dict.fromkeys(RACKS[:5], 0)
    tracemalloc.start()
    try:
        for rack_id, rows in rows_by_rack(backlog):
            last = -1
            for row in rows:
                assert (row.rack_id, row.event_id) == (rack_id, f"{row.offset:032x}")
                assert row.offset > last
                last = row.offset
                found[rack_id] += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == {
        rack_id: sum(offset % 5 == number for offset in range(count))
        for number, rack_id in enumerate(found)
    }
    assert peak / count < 200


def test_a_bucket_has_one_timer_at_its_earliest_rack() -> None:
    tester = by_wall_clock(processor())
    tester.test(BUCKET, [batch([at(5, B), at(0, A)])])
    assert timers(tester) == [T0 + 10]
    tester.test(BUCKET, [batch([at(2, RACKS[2])])])
    assert timers(tester) == [T0 + 10]
    assert ids(tester.setProcessingTime(T0 + 10)) == [(A, f"{A} {A}/1")]
    assert timers(tester) == [T0 + 12]
    due = [(B, f"{B} {B}/1"), (RACKS[2], f"{RACKS[2]} {RACKS[2]}/1")]
    assert sorted(ids(tester.setProcessingTime(T0 + 15))) == sorted(due)
    assert timers(tester) == []


def test_a_clock_that_stops_a_millisecond_before_a_rack_is_due_loses_no_decision() -> None:
    tester = by_wall_clock(processor())
    tester.test(BUCKET, [batch([at(0, A)])])
    assert ids(tester.setProcessingTime(T0 + 9)) == []
    assert ids(tester.setProcessingTime(T0 + 10)) == [(A, f"{A} {A}/1")]


def test_a_timer_that_a_later_reading_put_off_decides_nothing() -> None:
    tester = by_wall_clock(processor())
    tester.test(BUCKET, [batch([at(0, A)])])
    tester.test(BUCKET, [batch([at(5, A, 2)])])
    assert ids(tester.setProcessingTime(T0 + 12)) == []
    assert timers(tester) == [T0 + 15]
    assert ids(tester.setProcessingTime(T0 + 15)) == [(A, f"{A} {A}/1,{A}/2")]


def test_a_timer_replaced_by_an_earlier_one_decides_nothing() -> None:
    tester = by_wall_clock(processor())
    tester.test(BUCKET, [batch([at(5, A)])])
    tester.test(BUCKET, [batch([at(0, B)])])
    assert timers(tester) == [T0 + 10, T0 + 15]
    assert ids(tester.setProcessingTime(T0 + 11)) == [(B, f"{B} {B}/1")]
    assert ids(tester.setProcessingTime(T0 + 16)) == [(A, f"{A} {A}/1")]


def test_the_racks_of_the_inventory_are_known_from_the_start() -> None:
    inventory = [rack(name, site_id=f"site-{name}") for name in (A, B, ELSEWHERE)]
    tester = by_wall_clock(processor(inventory=inventory), seeded=True)
    tester.test(BUCKET, [batch([at(0, A), at(1, RACKS[2])])])
    found = decided(tester.setProcessingTime(T0 + 100))
    assert {row["subject"]: row["site_id"] for row in found} == {
        A: f"site-{A}",
        B: f"site-{B}",
        RACKS[2]: "unknown",
    }


def test_silence_is_detected_at_its_time_for_each_rack_by_its_own_rule() -> None:
    rules = Rules((SilentSensor(racks=(A,), after_s=2, severity="critical"),))
    tester = by_wall_clock(
        processor(SilentSensorState, [rack(A), rack(B)], rules, grace_ms=250), seeded=True
    )
    tester.setProcessingTime(T0)
    tester.test(BUCKET, [batch([at(0, A), at(500, B)])])
    assert decided(tester.setProcessingTime(T0 + 2250)) == []
    (alert,) = decided(tester.setProcessingTime(T0 + 2251))
    assert (alert["subject"], alert["severity"]) == (A, "critical")
    assert decided(tester.setProcessingTime(T0 + 30_750)) == []
    (alert,) = decided(tester.setProcessingTime(T0 + 30_751))
    assert (alert["subject"], alert["severity"]) == (B, "error")
    assert timers(tester) == []


@pytest.mark.parametrize("column", ["event_time", "append_ms"])
def test_readings_before_the_watermark_are_left_out_of_their_batch(column: str) -> None:
    def appended(ms: int, rack_id: str) -> dict[str, Any]:
        return at(ms, rack_id, event_s=ms / 1000 if column == "event_time" else 0.0)

    tester = TwsTester(
        processor(latest=column),
        timeMode="EventTime",
        eventTimeExtractor=lambda _: T0 + 10**6,
    )
    tester.setWatermark(T0 + 5000)
    found = tester.test(BUCKET, [batch([appended(4999, A), appended(5000, B)])])
    assert ids(found) == [(B, f"{B}/1")]
    (alert,) = decided(tester.setWatermark(T0 + 5010))
    assert alert["event_time"] == (T0 + 5010) * 1000


def test_only_racks_with_readings_or_a_due_timer_are_decoded() -> None:
    one = processor()
    tester = by_wall_clock(one)
    foreign = Raw(msgspec.msgpack.encode({"another": "rule"}))
    later_ms = T0 + 1000
    stored = msgspec.msgpack.encode({A: (later_ms, foreign)})
    tester.updateValueState("bucket", BUCKET, (stored, None))
    tester.test(BUCKET, [batch([at(0, B)])])
    assert ids(tester.setProcessingTime(T0 + 11)) == [(B, f"{B} {B}/1")]
    state: Any = tester.peekValueState("bucket", BUCKET)
    assert msgspec.msgpack.decode(state[0])[A] == [later_ms, {"another": "rule"}]
    assert state[1] == later_ms
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        tester.test(BUCKET, [batch([at(0, A)])])
