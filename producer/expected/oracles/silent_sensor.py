"""Compute the alerts of `silent-sensor`: no record of a rack for longer than its rule allows.

The broker's clock decides. What depends on how long the job ran is indeterminate:

- the silence after a rack's last record, as the run may end before the job notices it; unless
  `until_ms` says that the job is available-now, which goes by what the topic contains;
- the end of the silence of a rack that had never sent anything, unless `started_ms` says when the
  job began to wait.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise

from events.records import InventoryRack, RackReading
from events.rules import SilentSensor
from events.times import to_text
from producer.expected.oracles.rows import Row, alert, evidence, mark_indeterminate, milliseconds

AVAILABLE_NOW_MARGIN_MS = 1000
"""How much longer than its rule says a rack is silent before an available-now job reports it."""

_Record = tuple[RackReading, int]
"""A readable record and its append time in epoch ms."""


def silent_sensor_alerts(
    records: Iterable[_Record],
    rule_for: Callable[[str], SilentSensor],
    *,
    until_ms: int | None = None,
    inventory: Mapping[str, InventoryRack] | None = None,
    started_ms: int | None = None,
) -> list[Row]:
    """Return the alerts, rack by rack, of all readable records (copies too) in the topic's order.

    `until_ms` is the topic's latest append time, for available-now. The inventory's racks may be
    silent from the first start of a job on, at `started_ms`. All in epoch ms.
    """
    by_rack: dict[str, list[_Record]] = defaultdict(list)
    for reading, append_ms in records:
        by_rack[reading.rack_id].append((reading, append_ms))
    known = inventory or {}
    rows: list[Row] = []
    for rack_id in [*by_rack, *(rack_id for rack_id in known if rack_id not in by_rack)]:
        own, rule = by_rack[rack_id], rule_for(rack_id)
        if rack_id in known and until_ms is None:
            rows += initial_silence_alerts(own, rule, known[rack_id], started_ms)
        rows += silent_sensor_alerts_of_rack(own, rule, until_ms)
    return rows


def silent_sensor_alerts_of_rack(
    records: Sequence[_Record], rule: SilentSensor, until_ms: int | None = None
) -> Iterator[Row]:
    """Yield the alerts of one rack's records, from its first record on."""
    after_ms = milliseconds(rule.after_s)
    began: set[str] = set()
    # The first record ends the silence before it, if the job had started by then.
    ended = {first.event_id for first, _ in records[:1]}
    for (before, before_ms), (after, append_ms) in pairwise(records):
        if append_ms - before_ms > after_ms:
            yield _silent_since(before, before_ms, rule, began)
            yield _ended_by(after, rule, _trigger_event_id(after, append_ms, ended))
            began.add(before.event_id)
            ended.add(after.event_id)
    for last, last_ms in records[-1:]:
        row = _silent_since(last, last_ms, rule, began)
        if until_ms is None:
            yield mark_indeterminate(row, True)
        elif until_ms - last_ms > after_ms + AVAILABLE_NOW_MARGIN_MS:
            yield row


def initial_silence_alerts(
    records: Sequence[_Record], rule: SilentSensor, rack: InventoryRack, started_ms: int | None
) -> Iterator[Row]:
    """Yield the alerts of one rack of the inventory up to its first record."""
    if started_ms is None:
        yield from (
            mark_indeterminate(_ended_by(first, rule, first.event_id), True)
            for first, _ in records[:1]
        )
        return
    silent_ms = started_ms + milliseconds(rule.after_s)
    row = alert(
        rule.name,
        rack.rack_id,
        rack.site_id,
        "WARNING",
        rule.severity_of(None),
        to_text(silent_ms),
        f"{rack.rack_id}|{to_text(started_ms)}",
    )
    if not records:
        yield mark_indeterminate(row, True)
    for first, first_ms in records[:1]:
        if first_ms > silent_ms:
            yield row
            yield _ended_by(first, rule, first.event_id)


def _trigger_event_id(reading: RackReading, append_ms: int, earlier_ids: Set[str]) -> str:
    """Return the reading's id and, if a copy of it is among `earlier_ids`, its time."""
    is_copy = reading.event_id in earlier_ids
    return f"{reading.event_id}|{to_text(append_ms)}" if is_copy else reading.event_id


def _silent_since(
    last: RackReading, append_ms: int, rule: SilentSensor, earlier_ids: Set[str]
) -> Row:
    return alert(
        rule.name,
        last.rack_id,
        last.site_id,
        "WARNING",
        rule.severity_of(None),
        to_text(append_ms + milliseconds(rule.after_s)),
        _trigger_event_id(last, append_ms, earlier_ids),
        [evidence(last)],
    )


def _ended_by(first: RackReading, rule: SilentSensor, trigger_event_id: str) -> Row:
    return alert(
        rule.name,
        first.rack_id,
        first.site_id,
        "NORMAL",
        rule.severity_of(None),
        first.event_time,
        trigger_event_id,
        [evidence(first)],
    )
