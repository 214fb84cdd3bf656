"""`lost-signal`: some readings in a window, but fewer than there should be.

About two things nothing is promised, as they depend on when Spark took which batch:

- A reading whose event time is the watermark or more before the latest of the fleet's records before it in the
  topic, but not late by its own rack's: Spark drops it if it knows of that latest one from a batch before.
- Hence all that depends on such a reading: whether its window is judged, how, whether it is the rack's first, and
  what then is a change.

So each rack is followed in every condition that it can be in, and an alert that comes out of some of them only is
`either`. A job that reads all there is in one batch, as available-now does at first, knows of nothing from a batch
before, and counts them all: that is `at_once`. The windows at the end are in no doubt: what the fleet holds closes
them, or they are not judged.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from events.records import RackReading
from events.rules import LostSignal
from events.times import to_ms, to_text
from producer.oracle import AHEAD_MS
from producer.rule_oracles.rows import Row, alert, maybe, milliseconds

WATERMARK_MS = 30_000
BEFORE_ALL_MS = -(10**15)
"""An event time, in epoch ms, before any that a reading can have."""

_Condition = tuple[bool, str]
"""Whether a window of the rack is behind it, and its state."""


def lost_signal_alerts(
    records: Iterable[tuple[RackReading, int]],
    rule_of: Callable[[str], LostSignal],
    *,
    watermark_ms: int = WATERMARK_MS,
    until_ms: int | None = None,
    at_once: bool = False,
) -> list[Row]:
    """Return the alerts of readings with their append times (epoch ms), in the topic's order; rack by rack.

    `until_ms` is the latest event time of the fleet in the end, in epoch ms, where more than these records tells it.
    """
    punctual = [
        (reading, append_ms)
        for reading, append_ms in records
        if to_ms(reading.event_time) <= append_ms + AHEAD_MS
    ]
    event_ms = [to_ms(reading.event_time) for reading, _ in punctual]
    until_ms = max([*event_ms, BEFORE_ALL_MS if until_ms is None else until_ms])
    by_rack: dict[str, list[tuple[RackReading, int]]] = defaultdict(list)
    for (reading, _), fleet_ms in zip(punctual, latest_before(event_ms), strict=True):
        by_rack[reading.rack_id].append((reading, BEFORE_ALL_MS if at_once else fleet_ms))
    return [
        row
        for rack_id, own in by_rack.items()
        for row in lost_signal_alerts_of_rack(own, rule_of(rack_id), watermark_ms, until_ms)
    ]


def latest_before(event_ms: Iterable[int]) -> Iterator[int]:
    """Yield for each record the latest event time of those before it, in epoch ms."""
    latest_ms = BEFORE_ALL_MS
    for own_ms in event_ms:
        yield latest_ms
        latest_ms = max(latest_ms, own_ms)


def lost_signal_alerts_of_rack(
    records: Iterable[tuple[RackReading, int]], rule: LostSignal, watermark_ms: int, until_ms: int
) -> Iterator[Row]:
    """Yield the alerts of one rack's punctual readings, each with the fleet's latest before it; times in epoch ms."""
    window_ms = milliseconds(rule.window_s)
    windows: dict[int, dict[str, bool]] = defaultdict(dict)
    own_latest_ms = BEFORE_ALL_MS
    last: RackReading | None = None
    for reading, fleet_ms in records:
        event_ms = to_ms(reading.event_time)
        late = event_ms < own_latest_ms - watermark_ms
        own_latest_ms = max(own_latest_ms, event_ms)
        if not late:
            in_doubt = event_ms <= fleet_ms - watermark_ms
            windows[event_ms // window_ms * window_ms].setdefault(reading.event_id, in_doubt)
            last = reading
    conditions: set[_Condition] = {(False, "NORMAL")}
    for start_ms in sorted(windows):
        end_ms = start_ms + window_ms
        if last is None or end_ms + watermark_ms > until_ms:
            continue
        in_doubt_or_not = list(windows[start_ms].values())
        sure = in_doubt_or_not.count(False)
        ways = [
            (before, _judged(before, count, rule.readings))
            for before in conditions
            for count in range(sure, len(in_doubt_or_not) + 1)
        ]
        conditions = {after for _, after in ways}
        for state in ("WARNING", "NORMAL"):
            raised = [before[1] != after[1] == state for before, after in ways]
            if any(raised):
                row = alert(
                    rule.name,
                    last.rack_id,
                    last.site_id,
                    state,
                    rule.severity_of(None),
                    to_text(end_ms),
                    to_text(start_ms),
                )
                yield maybe(row, not all(raised))


def _judged(before: _Condition, count: int, enough: int) -> _Condition:
    """Return what a closed window with so many readings makes of the condition before it."""
    begun, _ = before
    if count == 0:
        return before
    if not begun:
        return True, "NORMAL"
    return True, "WARNING" if count < enough else "NORMAL"
