"""Draw readings as a function of (seed, number), in columns.

Reading `number` comes from rack `number % racks`, and continues the rack's sequence. Its
temperature is the rack's base temperature, plus the daily curve of its site, plus slow air currents
that its row shares, plus noise. The sum stays at least 8 °C below the rack's threshold; only a
fault reaches it.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events.records import RackReading
from events.times import to_text
from producer.hashing import Ints, uniform
from producer.pacing.schedule import Schedule
from producer.streams.encoding import (
    DAY_MS,
    event_end,
    event_start,
    integers,
    join_columns,
    json_text,
)
from producer.world.racks import World

COLDEST_C, HOTTEST_C = -50, 200
"""The range of temperatures (°C) with a prepared text; the world stays far inside."""
DAILY_CURVE_C = 3.0
ROW_CURRENTS_C = 2.0
NOISE_C = 1.0
CURRENT_MS = 120_000
"""How long a row's air takes to drift from one level to the next, in milliseconds."""


@dataclass(slots=True, eq=False)
class Readings:
    """Readings in columns.

    Temperatures are in hundredths of °C, signals in thousandths, times in epoch ms.
    """

    numbers: Ints
    racks: Ints
    sequences: Ints
    event_ms: Ints
    temperature: Ints
    signal: Ints


def draw_readings(world: World, schedule: Schedule, first_sequence: int, numbers: Ints) -> Readings:
    """Draw the readings with these numbers, in any order, without faults."""
    racks = numbers % len(world.rack_ids)
    event_ms = schedule.event_ms(numbers)
    celsius = _daily_curve(world, racks, event_ms)
    celsius += _row_currents(world, racks, event_ms)
    celsius += NOISE_C * (2 * uniform(world.seed, "noise", numbers) - 1)
    return Readings(
        numbers=numbers,
        racks=racks,
        sequences=first_sequence + numbers // len(world.rack_ids),
        event_ms=event_ms,
        temperature=world.base_temperature[racks] + np.rint(celsius * 100).astype(np.int64),
        signal=600 + (400 * uniform(world.seed, "signal", numbers)).astype(np.int64),
    )


def to_records(world: World, run_id: str, readings: Readings) -> list[RackReading]:
    """Return the readings as records, without a scheduled time."""
    rows = zip(
        readings.numbers.tolist(),
        readings.racks.tolist(),
        readings.sequences.tolist(),
        readings.event_ms.tolist(),
        readings.temperature.tolist(),
        readings.signal.tolist(),
        strict=True,
    )
    return [
        RackReading(
            event_id=f"{run_id}-{number}",
            event_time=to_text(event_ms),
            rack_id=world.rack_ids[rack],
            sequence=sequence,
            site_id=world.sites[world.site[rack]].site_id,
            device_type=world.device_types[world.device[rack]],
            temperature_c=temperature / 100,
            signal_strength=signal / 1000,
        )
        for number, rack, sequence, event_ms, temperature, signal in rows
    ]


class Encoder:
    """Encodes the readings of one world."""

    def __init__(self, world: World) -> None:
        self._keys = [rack_id.encode() for rack_id in world.rack_ids]
        # Fewer pieces join faster, so each text includes the name of the next field.
        self._racks = pc.binary_join_element_wise(
            pa.scalar('Z","rack_id":"'),
            pa.array(world.rack_ids),
            pa.scalar('","sequence":'),
            pa.scalar(""),
        )
        places = [
            f',"site_id":{json_text(site.site_id)},"device_type":{json_text(device)},"temperature_c":'
            for site in world.sites
            for device in world.device_types
        ]
        self._places = pa.array(places)
        self._place_of_rack = world.site * len(world.device_types) + world.device
        # repr gives the shortest digits, as JSON encoders do: 71.2, not 71.20.
        hundredths = range(COLDEST_C * 100, HOTTEST_C * 100 + 1)
        self._temperatures = pa.array([f'{c / 100!r},"signal_strength":' for c in hundredths])
        self._signals = pa.array([repr(s / 1000) for s in range(1001)])

    def keys(self, racks: Ints) -> list[bytes]:
        """Return the key of each record."""
        keys = self._keys
        return [keys[rack] for rack in racks.tolist()]

    def values(self, run_id: str, readings: Readings, scheduled_ms: Ints | None) -> list[bytes]:
        """Return the value of each record; without scheduled times if the run is not paced."""
        return join_columns(
            event_start(f"{run_id}-", readings.numbers, readings.event_ms),
            [
                self._racks.take(pa.array(readings.racks)),
                integers(readings.sequences),
                self._places.take(pa.array(self._place_of_rack[readings.racks])),
                self._temperatures.take(pa.array(readings.temperature - COLDEST_C * 100)),
                self._signals.take(pa.array(readings.signal)),
            ],
            event_end(scheduled_ms),
        )


def _daily_curve(
    world: World, racks: Ints, event_ms: Ints
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    longitude = np.array([site.longitude for site in world.sites])[world.site[racks]]
    day = (event_ms % DAY_MS) / DAY_MS + longitude / 360
    return DAILY_CURVE_C * np.sin(2 * np.pi * (day - 0.375))  # warmest at 15:00 by the sun


def _row_currents(
    world: World, racks: Ints, event_ms: Ints
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    knot = event_ms // CURRENT_MS
    way = (event_ms % CURRENT_MS) / CURRENT_MS
    way = way * way * (3 - 2 * way)
    key = (world.row[racks] << 32) + knot
    here, next_ = uniform(world.seed, "row", key), uniform(world.seed, "row", key + 1)
    return ROW_CURRENTS_C * (2 * (here + (next_ - here) * way) - 1)
