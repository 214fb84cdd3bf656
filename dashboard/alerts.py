"""Keep the newest alerts, each once, and count the alerts of each rule."""

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from dashboard.bounded import RecentIds
from dashboard.received import Received, RecordReader, calendar_ms
from events.records import Alert

MAX_ALERTS = 2_000
"""Alerts that are kept over all racks."""
MAX_ALERT_BYTES = 16_384
"""A larger alert is counted, but not kept."""
ALERT_IDS_REMEMBERED = 20_000
ALERTS_PER_RACK = 20


class Alerts:
    """Alerts by `alert_id`: the topic may hold one twice."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._alerts = deque[tuple[str, bytes]](maxlen=MAX_ALERTS)
        self._ids = RecentIds(ALERT_IDS_REMEMBERED)
        self._counts = Counter[str]()

    def apply(self, records: Iterable[Received]) -> list[tuple[int, int]]:
        """Take records of the topic; return append time and latency of each new alert, in ms."""
        latencies = []
        for record, alert in self._reader.with_records(records, _ALERT):
            event_ms, value = calendar_ms(alert.event_time), record.value or b""
            if event_ms is None:
                self._reader.reject()
            elif self._ids.add(alert.alert_id):
                self._counts[alert.rule] += 1
                latencies.append((record.append_ms, record.append_ms - event_ms))
                if len(value) <= MAX_ALERT_BYTES:
                    self._alerts.append((alert.subject, value))
        return latencies

    def counts(self) -> dict[str, int]:
        """Return how many alerts there were of each rule."""
        return dict(self._counts)

    def of_rack(self, rack_id: str) -> list[msgspec.Raw]:
        """Return the newest alerts of a rack as JSON, the newest first."""
        alerts = [value for subject, value in self._alerts if subject == rack_id]
        return [msgspec.Raw(value) for value in reversed(alerts[-ALERTS_PER_RACK:])]


_ALERT = msgspec.json.Decoder(Alert)
