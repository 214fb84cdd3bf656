"""Keep the newest signal statistics of each type of device."""

from collections.abc import Iterable

import msgspec

from dashboard.bounded import BoundedDict
from dashboard.received import Received, RecordReader
from events.records import SignalStatistics

SIGNAL_GROUPS = 50


class Signals:
    """The newest window of each type of device; statistics of single racks are not shown."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._newest = BoundedDict[str | None, SignalStatistics](SIGNAL_GROUPS)

    def apply(self, records: Iterable[Received]) -> bool:
        """Take records of the topic; return whether they changed what is shown."""
        has_changed = False
        for row in self._reader.decoded(records, _SIGNAL):
            earlier = self._newest.get(row.device_type)
            if row.rack_id is None and (
                earlier is None or row.window_start >= earlier.window_start
            ):
                self._newest.set(row.device_type, row)
                has_changed = True
        return has_changed

    def view(self) -> list[SignalStatistics]:
        """Return the statistics, those set least recently first."""
        return list(self._newest.values())


_SIGNAL = msgspec.json.Decoder(SignalStatistics)
