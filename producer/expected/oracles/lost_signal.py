"""Compute alerts of `lost-signal`: a rack sent some readings in a window, but fewer than expected.

Two things are indeterminate, as they depend on which batch a record was in:

- Whether a late reading counts. Its event time is the watermark or more behind the latest of the
  fleet's records before it in the topic, but its own rack's readings are not so far ahead. Spark
  drops it only if an earlier batch contained that latest record.
- All that depends on such a reading: its window's result, whether the window is the rack's first,
  and hence which later result is a change.

So the oracle follows each rack through every possible state, and an alert that only some of them
give is marked `either`. A job that reads the whole topic in one batch, as available-now does at
first, has no earlier batch and counts all of them: `single_batch`. The last windows are
determinate: either the fleet's records close them, or they give no result.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from events.constants import FUTURE_TOLERANCE, LOST_SIGNAL_WATERMARK
from events.records import RackReading
from events.rules import LostSignal
from events.times import duration_ms, to_ms, to_text
from producer.expected.oracles.rows import Row, alert, mark_indeterminate, milliseconds

WATERMARK_MS = duration_ms(LOST_SIGNAL_WATERMARK)
FUTURE_TOLERANCE_MS = duration_ms(FUTURE_TOLERANCE)
BEFORE_ALL_MS = -(10**15)
"""An event time, in epoch ms, before that of any reading."""

_State = tuple[bool, str]
"""Whether the rack has had a window, and its alert state."""


def lost_signal_alerts(
    records: Iterable[tuple[RackReading, int]],
    rule_for: Callable[[str], LostSignal],
    *,
    watermark_ms: int = WATERMARK_MS,
    until_ms: int | None = None,
    single_batch: bool = False,
) -> list[Row]:
    """Return the alerts, rack by rack, of readings with append times (epoch ms) in topic order.

    `until_ms` is the latest event time of the fleet at the end, in epoch ms, where it is later than
    that of these records.
    """
    not_future = [
        (reading, append_ms)
        for reading, append_ms in records
        if to_ms(reading.event_time) <= append_ms + FUTURE_TOLERANCE_MS
    ]
    event_ms = [to_ms(reading.event_time) for reading, _ in not_future]
    until_ms = max([*event_ms, BEFORE_ALL_MS if until_ms is None else until_ms])
    by_rack: dict[str, list[tuple[RackReading, int]]] = defaultdict(list)
    for (reading, _), fleet_ms in zip(not_future, fleet_latest_ms(event_ms), strict=True):
        by_rack[reading.rack_id].append((reading, BEFORE_ALL_MS if single_batch else fleet_ms))
    return [
        row
        for rack_id, own in by_rack.items()
        for row in lost_signal_alerts_of_rack(own, rule_for(rack_id), watermark_ms, until_ms)
    ]


def fleet_latest_ms(event_ms: Iterable[int]) -> Iterator[int]:
    """Yield for each record the latest event time of those before it, in epoch ms."""
    latest_ms = BEFORE_ALL_MS
    for own_ms in event_ms:
        yield latest_ms
        latest_ms = max(latest_ms, own_ms)


def lost_signal_alerts_of_rack(
    records: Iterable[tuple[RackReading, int]], rule: LostSignal, watermark_ms: int, until_ms: int
) -> Iterator[Row]:
    """Yield the alerts of one rack's readings, each with the fleet's latest time before it (ms)."""
    window_ms = milliseconds(rule.window_s)
    windows: dict[int, dict[str, bool]] = defaultdict(dict)
    own_latest_ms = BEFORE_ALL_MS
    last: RackReading | None = None
    for reading, fleet_ms in records:
        event_ms = to_ms(reading.event_time)
        late = event_ms < own_latest_ms - watermark_ms
        own_latest_ms = max(own_latest_ms, event_ms)
        if not late:
            indeterminate = event_ms <= fleet_ms - watermark_ms
            windows[event_ms // window_ms * window_ms].setdefault(reading.event_id, indeterminate)
            last = reading
    states: set[_State] = {(False, "NORMAL")}
    for start_ms in sorted(windows):
        end_ms = start_ms + window_ms
        if last is None or end_ms + watermark_ms > until_ms:
            continue
        indeterminate_of = list(windows[start_ms].values())
        certain = indeterminate_of.count(False)
        transitions = [
            (before, _next_state(before, count, rule.readings))
            for before in states
            for count in range(certain, len(indeterminate_of) + 1)
        ]
        states = {after for _, after in transitions}
        for state in ("WARNING", "NORMAL"):
            changes = [before[1] != after[1] == state for before, after in transitions]
            if any(changes):
                row = alert(
                    rule.name,
                    last.rack_id,
                    last.site_id,
                    state,
                    rule.severity_of(None),
                    to_text(end_ms),
                    to_text(start_ms),
                )
                yield mark_indeterminate(row, not all(changes))


def _next_state(before: _State, count: int, enough: int) -> _State:
    """Return the state after a closed window with `count` readings."""
    had_window, _ = before
    if count == 0:
        return before
    if not had_window:
        return True, "NORMAL"
    return True, "WARNING" if count < enough else "NORMAL"
