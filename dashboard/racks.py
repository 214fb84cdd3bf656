"""Keep the newest reading of each rack by `sequence`, its history, and its open rules."""

import math
from array import array
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from dashboard.page_records import RackView
from dashboard.received import Received, RecordReader, calendar_ms
from events.constants import DEFAULT_THRESHOLD_C, FUTURE_TOLERANCE
from events.records import Id, Instant, InventoryRack
from events.times import duration_ms

MAX_RACKS = 5_000
MAX_LEFT_OUT = 5_000
"""How many racks that are left out are counted."""
READINGS_PER_RACK = 300
READING_INTERVAL_MS = 1_000
"""The least time between two readings of a rack's history."""
FUTURE_TOLERANCE_MS = duration_ms(FUTURE_TOLERANCE)


class _Reading(Struct):
    """What the dashboard needs of a reading."""

    rack_id: Id
    sequence: int
    site_id: Id
    device_type: Id
    event_time: Instant
    temperature_c: float
    signal_strength: float


class Rack:
    """A rack with its version and its history, three numbers per reading in a ring."""

    __slots__ = ("history", "last_ms", "place", "sequence", "version", "view")

    def __init__(self, view: RackView) -> None:
        self.view, self.version = view, 0
        self.sequence: float = -math.inf  # a gateway may count from any number
        self.history, self.place, self.last_ms = array("d"), 0, 0

    def remember(self, time_ms: int, temperature_c: float, signal: float) -> None:
        """Add a reading to the history, unless the one before is too recent."""
        if self.history and abs(time_ms - self.last_ms) < READING_INTERVAL_MS:
            return
        self.last_ms = time_ms
        if len(self.history) < 3 * READINGS_PER_RACK:
            self.history.extend((time_ms, temperature_c, signal))
            return
        begin = 3 * self.place
        self.history[begin : begin + 3] = array("d", (time_ms, temperature_c, signal))
        self.place = (self.place + 1) % READINGS_PER_RACK

    def readings(self) -> list[tuple[int, float, float]]:
        """Return the history as `(epoch ms, °C, signal)`, the oldest reading first."""
        count = len(self.history) // 3
        order = [(self.place + number) % count for number in range(count)] if count else []
        return [
            (int(self.history[3 * at]), self.history[3 * at + 1], self.history[3 * at + 2])
            for at in order
        ]


class Racks:
    """All racks: those of the inventory, and others from their first reading."""

    def __init__(self, inventory: Iterable[InventoryRack], reader: RecordReader) -> None:
        self._reader = reader
        self._racks: dict[str, Rack] = {}
        self._left_out: set[int] = set()
        self._rules_by_subject: dict[str, set[str]] = {}
        for rack in inventory:
            if len(self._racks) < MAX_RACKS:
                self._racks[rack.rack_id] = Rack(
                    RackView(
                        rack_id=rack.rack_id,
                        site_id=rack.site_id,
                        device_type=rack.device_type,
                        threshold_c=rack.threshold_c,
                    )
                )
            else:
                self._leave_out(rack.rack_id)

    def apply(self, records: Iterable[Received], version: int) -> None:
        """Take readings; a rack that they change gets the version."""
        for record, reading in self._reader.with_records(records, _READING):
            time_ms = calendar_ms(reading.event_time)
            if time_ms is None:
                self._reader.reject()
                continue
            rack = self._racks.get(reading.rack_id) or self._new_rack(reading)
            if rack is None or reading.sequence <= rack.sequence:
                continue
            rack.sequence, rack.version = reading.sequence, version
            view = rack.view
            view.site_id, view.device_type = reading.site_id, reading.device_type
            view.temperature_c, view.signal_strength = (
                reading.temperature_c,
                reading.signal_strength,
            )
            view.event_time_ms, view.append_time_ms = time_ms, record.append_ms
            if time_ms <= record.append_ms + FUTURE_TOLERANCE_MS:
                rack.remember(time_ms, reading.temperature_c, reading.signal_strength)

    def _new_rack(self, reading: _Reading) -> Rack | None:
        if len(self._racks) >= MAX_RACKS:
            self._leave_out(reading.rack_id)
            return None
        rules = sorted(self._rules_by_subject.get(reading.rack_id, ()))
        rack = self._racks[reading.rack_id] = Rack(
            RackView(
                rack_id=reading.rack_id,
                site_id=reading.site_id,
                device_type=reading.device_type,
                threshold_c=DEFAULT_THRESHOLD_C,
                state="WARNING" if rules else "NORMAL",
                rules=rules,
            )
        )
        return rack

    def _leave_out(self, rack_id: str) -> None:
        if len(self._left_out) < MAX_LEFT_OUT:
            self._left_out.add(hash(rack_id))

    def set_rule(self, subject: str, rule: str, *, is_open: bool, version: int) -> None:
        """Take whether a subject, a rack or not, has an open incident of a rule."""
        rules = self._rules_by_subject.setdefault(subject, set())
        (rules.add if is_open else rules.discard)(rule)
        if not rules:
            del self._rules_by_subject[subject]
        rack = self._racks.get(subject)
        if rack is not None:
            rack.view.rules = sorted(rules)
            rack.view.state = "WARNING" if rules else "NORMAL"
            rack.version = version

    def changed_since(self, version: int) -> list[RackView]:
        """Return the racks that changed after a version."""
        return [rack.view for rack in self._racks.values() if rack.version > version]

    def all(self) -> list[RackView]:
        """Return all racks."""
        return [rack.view for rack in self._racks.values()]

    def get(self, rack_id: str) -> Rack | None:
        """Return a rack, or None where it is unknown."""
        return self._racks.get(rack_id)

    def is_at(self, site_id: str) -> bool:
        """Tell whether there is a rack at a site."""
        return any(rack.view.site_id == site_id for rack in self._racks.values())

    @property
    def left_out(self) -> int:
        """How many racks there are beyond those that are kept."""
        return len(self._left_out)

    def __contains__(self, rack_id: object) -> bool:
        return rack_id in self._racks


_READING = msgspec.json.Decoder(_Reading)
