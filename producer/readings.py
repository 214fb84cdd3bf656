"""What do the racks measure? Readings as a pure function of (seed, number), in columns.

Reading `number` comes from rack `number % racks`, whose own count it continues. Its temperature is what is
usual for the rack, plus the daily curve of its site, plus slow air currents shared by its row, plus noise.
All of that together stays at least 8 °C below the rack's threshold: what reaches it is an episode
(`producer.faults`).
"""

from dataclasses import dataclass

import numpy as np

from events.records import RackReading
from events.times import to_text
from producer.hashing import Ints, uniform
from producer.schedule import Schedule
from producer.world import World

DAY_MS = 86_400_000
DAILY_CURVE_C = 3.0
ROW_CURRENTS_C = 2.0
NOISE_C = 1.0
CURRENT_MS = 120_000
"""How long a row's air takes to drift from one level to the next, in milliseconds."""


@dataclass(slots=True, eq=False)
class Readings:
    """Readings in columns: temperatures in hundredths of °C, signals in thousandths, times in epoch ms."""

    numbers: Ints
    racks: Ints
    sequences: Ints
    event_ms: Ints
    temperature: Ints
    signal: Ints


def draw(world: World, schedule: Schedule, first_sequence: int, numbers: Ints) -> Readings:
    """Draw the readings with these numbers, without any fault; the numbers may be any, in any order."""
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
        temperature=world.usual[racks] + np.rint(celsius * 100).astype(np.int64),
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


def _daily_curve(world: World, racks: Ints, event_ms: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    longitude = np.array([site.longitude for site in world.sites])[world.site[racks]]
    day = (event_ms % DAY_MS) / DAY_MS + longitude / 360
    return DAILY_CURVE_C * np.sin(2 * np.pi * (day - 0.375))  # warmest at 15:00 by the sun


def _row_currents(world: World, racks: Ints, event_ms: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    knot = event_ms // CURRENT_MS
    way = (event_ms % CURRENT_MS) / CURRENT_MS
    way = way * way * (3 - 2 * way)
    key = (world.row[racks] << 32) + knot
    here, next_ = uniform(world.seed, "row", key), uniform(world.seed, "row", key + 1)
    return ROW_CURRENTS_C * (2 * (here + (next_ - here) * way) - 1)
