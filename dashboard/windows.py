"""Keep the newest temperature windows of the fleet and of each rack."""

from collections.abc import Iterable, Mapping

import msgspec

from dashboard.racks import MAX_RACKS
from dashboard.received import Received, RecordReader, calendar_ms
from events.constants import FLEET_SCOPE
from events.ids import is_too_long
from events.records import RackTemperature, encode

MAX_WINDOW_BYTES = 2_048
WINDOWS_PER_RACK = 36
FLEET_WINDOWS = 60


class Windows:
    """Windows that can be read, encoded again: bytes take less memory than decoded windows."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._fleet: dict[str, bytes] = {}
        self._by_rack: dict[str, dict[str, bytes]] = {}

    def apply(self, records: Iterable[Received]) -> bool:
        """Take records of the topic; return whether a window of the fleet is among them."""
        has_fleet = False
        # The feed passes on at most one record per key and tick, so each one can be decoded.
        for record, window in self._reader.with_records(records, _WINDOW):
            scope_and_start = _scope_and_start(record)
            if scope_and_start is None:
                self._reader.reject()
                continue
            scope, start = scope_and_start
            # Without unknown fields, which may be nested too deeply for another caller's stack.
            value = encode(window)
            if scope == FLEET_SCOPE:
                _keep_newest(self._fleet, start, value, FLEET_WINDOWS)
                has_fleet = True
            elif scope in self._by_rack or len(self._by_rack) < MAX_RACKS:
                windows = self._by_rack.setdefault(scope, {})
                _keep_newest(windows, start, value, WINDOWS_PER_RACK)
        return has_fleet

    def of_fleet(self) -> list[RackTemperature]:
        """Return the windows of the fleet, the oldest first."""
        return _decoded(self._fleet)

    def of_rack(self, rack_id: str) -> list[RackTemperature]:
        """Return the windows of a rack, the oldest first."""
        return _decoded(self._by_rack.get(rack_id, {}))


def _scope_and_start(record: Received) -> tuple[str, str] | None:
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
    return [_WINDOW.decode(windows[start]) for start in sorted(windows)]


_WINDOW = msgspec.json.Decoder(RackTemperature)
