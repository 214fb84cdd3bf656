"""The column encoder gives the bytes of the record encoder."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from events.records import RackReading, encode
from events.times import to_text
from producer.pacing.schedule import Schedule
from producer.streams.readings import (
    COLDEST_C,
    HOTTEST_C,
    Encoder,
    draw_readings,
    to_records,
)
from producer.world.racks import make_world
from tests.builders import T0


def expected(
    world_seed: int, count: int, *, scheduled: bool
) -> tuple[list[bytes], list[RackReading]]:
    world = make_world(world_seed, 1203)
    schedule = Schedule(
        rate=777.0,
        paced=True,
        start_wall_ms=T0 + 5,
        start_event_ms=T0 - 86_399_999,
        time_scale=99.0,
    )
    numbers = np.arange(998, 998 + count, dtype=np.int64)
    readings = draw_readings(world, schedule, 1_795_000_000_000, numbers)
    due = schedule.scheduled_ms(numbers) if scheduled else None
    records = to_records(world, "0123abcd", readings)
    if due is not None:
        for record, scheduled_ms in zip(records, due.tolist(), strict=True):
            record.scheduled_time = to_text(scheduled_ms)
    return Encoder(world).values("0123abcd", readings, due), records


@pytest.mark.parametrize("scheduled", [True, False])
def test_each_value_decodes_to_its_reading(scheduled: bool) -> None:
    values, records = expected(1, 5000, scheduled=scheduled)
    assert [
        msgspec.json.decode(value, type=RackReading, strict=True) for value in values
    ] == records


@pytest.mark.parametrize("scheduled", [True, False])
def test_the_column_encoder_gives_the_bytes_of_the_record_encoder(scheduled: bool) -> None:
    values, records = expected(2, 5000, scheduled=scheduled)
    assert values == [encode(record) for record in records]


def test_extremes_of_every_column_are_encoded() -> None:
    world = make_world(1, 3)
    column = {
        "numbers": [0, 9, 10**15],
        "racks": [0, 1, 2],
        "sequences": [-5, 0, 2**62],
        "event_ms": [0, T0, 4_102_444_799_999],
        "temperature": [COLDEST_C * 100, -1, HOTTEST_C * 100],
        "signal": [0, 1, 1000],
    }
    schedule = Schedule(rate=1.0, paced=True, start_wall_ms=T0, start_event_ms=T0)
    readings = replace(
        draw_readings(world, schedule, 1, np.arange(3, dtype=np.int64)),
        **{name: np.array(values, dtype=np.int64) for name, values in column.items()},
    )
    values = Encoder(world).values("x", readings, readings.event_ms)
    decoded = [msgspec.json.decode(value, type=RackReading) for value in values]
    assert [record.temperature_c for record in decoded] == [-50.0, -0.01, 200.0]
    assert [record.signal_strength for record in decoded] == [0.0, 0.001, 1.0]
    assert [record.sequence for record in decoded] == [-5, 0, 2**62]
    assert [record.event_time for record in decoded] == [to_text(ms) for ms in column["event_ms"]]
    assert [record.scheduled_time for record in decoded] == [
        to_text(ms) for ms in column["event_ms"]
    ]


def test_keys_are_the_rack_ids() -> None:
    world = make_world(1, 3)
    assert Encoder(world).keys(np.array([2, 0])) == [b"rack-0003", b"rack-0001"]
