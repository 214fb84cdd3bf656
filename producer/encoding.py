"""How do events become JSON values fast enough? A whole column at a time, in Arrow, outside of the GIL.

The bytes are the very ones that `events.records.encode` gives for the same record; a test holds them equal.
"""

from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from producer.hashing import Ints
from producer.readings import DAY_MS, Readings
from producer.world import World

COLDEST_C, HOTTEST_C = -50, 200
"""What temperatures have a ready-made text, in °C; the world stays far inside."""


class Encoder:
    """Encodes readings of one world."""

    def __init__(self, world: World) -> None:
        self._keys = [rack_id.encode() for rack_id in world.rack_ids]
        # The fewer pieces there are to join the faster: each text carries the name of the field after it.
        self._racks = pc.binary_join_element_wise(
            pa.scalar('Z","rack_id":"'), pa.array(world.rack_ids), pa.scalar('","sequence":'), pa.scalar("")
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
        """Return the value of each record; without scheduled times where there is no schedule."""
        return joined(
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


def joined(*columns: Iterable[object]) -> list[bytes]:
    """Return one value for each row: the pieces of all columns, one after the other."""
    pieces = [piece for column in columns for piece in column]
    values: list[bytes] = pc.binary_join_element_wise(*pieces, pa.scalar("")).cast(pa.binary()).to_pylist()
    return values


def event_start(id_prefix: str, numbers: Ints, event_ms: Ints) -> list[object]:
    """Return the pieces that every event begins with, up to the digits of its event time: `Z"` comes next."""
    start = pa.scalar('{"event_id":"' + id_prefix)
    return [start, integers(numbers), *_instant('","event_time":"', event_ms)]


def event_end(scheduled_ms: Ints | None) -> list[object]:
    """Return the pieces that every event ends with: its scheduled time if there is a schedule."""
    if scheduled_ms is None:
        return [pa.scalar("}")]
    return [*_instant(',"scheduled_time":"', scheduled_ms), pa.scalar('Z"}')]


def integers(numbers: Ints) -> object:
    """Return the numbers as text."""
    return pc.cast(pa.array(numbers), pa.string())


def _instant(label: str, epoch_ms: Ints) -> list[object]:
    """Return pieces that join to the label and the instant, without its `Z`."""
    # Casting date and time apart is twice as fast as casting a timestamp, and ten times as fast as strftime;
    # mostly there is but one date.
    days = epoch_ms // DAY_MS
    time = pc.cast(pa.array((epoch_ms - days * DAY_MS).astype(np.int32), pa.time32("ms")), pa.string())
    if len(days) and (days == days[0]).all():
        return [pa.scalar(f"{label}{np.datetime64(int(days[0]), 'D')}T"), time]
    date = pc.cast(pa.array(days.astype(np.int32), pa.date32()), pa.string())
    return [pa.scalar(label), date, pa.scalar("T"), time]


def json_text(text: str) -> str:
    """Return the text as JSON has it, in quotation marks."""
    return msgspec.json.encode(text).decode()
