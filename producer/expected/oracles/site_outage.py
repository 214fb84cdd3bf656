"""Compute the alerts of `site-outage`: more than a share of a site's racks went down together."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from events.records import InventoryRack
from events.rules import SiteOutage
from events.times import to_ms
from producer.expected.oracles.rows import Row, alert, milliseconds


def site_outage_alerts(
    alerts: Iterable[Mapping[str, Any]], inventory: Iterable[InventoryRack], rule: SiteOutage
) -> list[Row]:
    """Return the alerts of other rules' alerts in `processing_order`, in which ids may repeat."""
    site_of = {rack.rack_id: rack.site_id for rack in inventory}
    warning: dict[str, set[str]] = defaultdict(set)
    since_ms: dict[str, int] = {}
    out: set[str] = set()
    seen: set[str] = set()
    rows = []
    for record in alerts:
        rack_id = record["subject"]
        if record["rule"] == rule.name or record["alert_id"] in seen or rack_id not in site_of:
            continue
        seen.add(record["alert_id"])
        if record["state"] == "WARNING":
            warning[rack_id].add(record["rule"])
            since_ms.setdefault(rack_id, to_ms(record["event_time"]))
        else:
            warning[rack_id].discard(record["rule"])
            if not warning[rack_id]:
                since_ms.pop(rack_id, None)
        site_id = site_of[rack_id]
        racks = [one for one, site in site_of.items() if site == site_id]
        down_ms = [since_ms[one] for one in racks if one in since_ms]
        together = _down_together(down_ms, milliseconds(rule.within_s))
        state = ""
        if site_id not in out and together / len(racks) > rule.share:
            out.add(site_id)
            state = "WARNING"
        elif site_id in out and len(down_ms) / len(racks) <= rule.share:
            out.remove(site_id)
            state = "NORMAL"
        if state:
            event_time, trigger_event_id = record["event_time"], record["alert_id"]
            severity = rule.severity or "error"
            rows.append(
                alert(rule.name, site_id, site_id, state, severity, event_time, trigger_event_id)
            )
    return rows


def _down_together(down_ms: Iterable[int], within_ms: int) -> int:
    """Return how many racks at most went down within a time.

    Each rack counts from when it went down until that time after it, both ends in.
    """
    steps = [step for ms in down_ms for step in ((ms, 0, 1), (ms + within_ms, 1, -1))]
    return max(accumulate(change for *_, change in sorted(steps)), default=0)


def processing_order(records: Iterable[tuple[Mapping[str, Any], int]]) -> list[Mapping[str, Any]]:
    """Return the alerts, given with append times (epoch ms) in topic order, as the job takes them.

    Second by second; within a second by event time, but never before an earlier one of its rack.
    """
    seconds: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row, append_ms in records:
        seconds[append_ms // 1000].append(row)
    taken: list[Mapping[str, Any]] = []
    for second in sorted(seconds):
        remaining: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in seconds[second]:
            remaining[row["subject"]].append(row)
        place = {id(row): at for at, row in enumerate(seconds[second])}
        while remaining:
            fronts = [rows[0] for rows in remaining.values()]
            first = min(fronts, key=lambda row: (to_ms(row["event_time"]), place[id(row)]))
            taken.append(remaining[first["subject"]].pop(0))
            remaining = {rack: rows for rack, rows in remaining.items() if rows}
    return taken
