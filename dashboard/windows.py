"""The newest temperature windows of the fleet and of each rack."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from dashboard.racks import MAX_RACKS
from dashboard.received import UNREADABLE, Received, RecordReader, calendar_ms
from events.constants import FLEET_SCOPE
from events.ids import is_too_long
from events.records import RackTemperature

MAX_WINDOW_BYTES = 2_048
WINDOWS_PER_RACK = 36
FLEET_WINDOWS = 60


class Windows:
    """Windows as the topic has them: they are decoded when someone looks at them."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._fleet: dict[str, bytes] = {}
        self._by_rack: dict[str, dict[str, bytes]] = {}

    def apply(self, records: Iterable[Received]) -> bool:
        """Take records of the topic; return whether a window of the fleet is among them."""
        has_fleet = False
        for record in records:
            window = _window_of(record)
            if window is None or record.value is None:
                self._reader.reject()
                continue
            scope, start = window
            if scope == FLEET_SCOPE:
                _keep_newest(self._fleet, start, record.value, FLEET_WINDOWS)
                has_fleet = True
            elif scope in self._by_rack or len(self._by_rack) < MAX_RACKS:
                windows = self._by_rack.setdefault(scope, {})
                _keep_newest(windows, start, record.value, WINDOWS_PER_RACK)
        return has_fleet

    def of_fleet(self) -> list[RackTemperature]:
        """Return the windows of the fleet, the oldest first."""
        return _decoded(self._fleet)

    def of_rack(self, rack_id: str) -> list[RackTemperature]:
        """Return the windows of a rack, the oldest first."""
        return _decoded(self._by_rack.get(rack_id, {}))


def _window_of(record: Received) -> tuple[str, str] | None:
    """Return a window's scope and start by its key, or None for what is no window."""
    parts = (record.key or b"").decode("utf-8", "replace").rsplit("|", 2)
    if len(parts) != 3 or len(record.value or b"") > MAX_WINDOW_BYTES:
        return None
    scope, start, _ = parts
    is_window = not is_too_long(scope) and calendar_ms(start) is not None
    return (scope, start) if is_window else None


def _keep_newest(windows: dict[str, bytes], start: str, value: bytes, limit: int) -> None:
    """Set a window by its start; remove the oldest one when there are too many."""
    windows[start] = value
    if len(windows) > limit:
        del windows[min(windows)]


def _decoded(windows: Mapping[str, bytes]) -> list[RackTemperature]:
    found = []
    for start in sorted(windows):
        # Each is decoded whenever it is shown: a broken one is not counted again and again.
        with suppress(*UNREADABLE):
            found.append(_WINDOW.decode(windows[start]))
    return found


_WINDOW = msgspec.json.Decoder(RackTemperature)
