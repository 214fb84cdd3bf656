"""What came out, held against what had to come out. Pure functions over rows of the contract's fields."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from demo.clickstream import compare_clickstream
from demo.comparison import Comparison, Row, compare, difference
from events.records import InventoryRack
from events.rules import SiteOutage
from producer.rule_oracles import in_the_order_taken, site_outage_alerts

MINIMUM_ALERTS = 20
MINIMUM_DUPLICATES = 100
MINIMUM_DEAD_LETTERS = 1
"""With less than these of each, the scenario did not happen, and 0 wrong proves nothing."""

LETTER_IDENTITY = ("source_topic", "partition", "offset")
WINDOW_KEY = ("scope", "window_start")
WINDOW_FIELDS = (
    "window_end",
    "reading_count",
    "temperature_c_avg",
    "temperature_c_min",
    "temperature_c_max",
)


@dataclass(frozen=True, slots=True)
class Truth:
    """What the producers wrote to their truth files; the clickstream's rows by kind, if there is one."""

    summary: Row
    alerts: Sequence[Row]
    dead_letters: Sequence[Row]
    windows: Sequence[Row]
    clickstream: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    inventory: Sequence[InventoryRack] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What came out: alerts as logged, dead letters as their topic holds them, the last of a window, total or count.

    `alert_topic` is what the topic of alerts holds, in its order, with the append times in epoch ms.
    """

    alerts: Sequence[Row] = ()
    not_alerts: int = 0
    repeats: int = 0
    dead_letters: Sequence[Row] = ()
    windows: Sequence[Row] = ()
    clickstream: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    alert_topic: Sequence[tuple[Row, int]] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparisons, and what the scenario lacked to be one."""

    alerts: Comparison
    dead_letters: Comparison
    windows: Comparison
    clickstream: Mapping[str, Comparison]
    shortfalls: Sequence[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Tell whether all that had to come out did, and nothing else."""
        return all(compared.holds for compared in self.by_name.values())

    @property
    def by_name(self) -> dict[str, Comparison]:
        """The comparisons in the order in which they are told."""
        return {
            "alerts": self.alerts,
            "dead letters": self.dead_letters,
            "rack-temperature windows": self.windows,
            **self.clickstream,
        }


def judge(truth: Truth, seen: Seen) -> Verdict:
    """Compare everything."""
    return Verdict(
        compare_alerts([*truth.alerts, *site_outages(truth, seen)], seen.alerts, seen.not_alerts),
        compare_dead_letters(truth.dead_letters, seen.dead_letters),
        compare_windows(truth.windows, seen.windows),
        compare_clickstream(truth.clickstream, seen.clickstream) if truth.clickstream else {},
        shortfalls(truth),
    )


def site_outages(truth: Truth, seen: Seen) -> list[Row]:
    """Return the outages that the topic of alerts asks for; what only alerts in doubt ask for is in doubt too."""
    loose = {row["alert_id"] for row in truth.alerts if row.get("either")}
    taken = in_the_order_taken(seen.alert_topic)
    sure = [row for row in taken if row["alert_id"] not in loose]
    due = {row["alert_id"]: row for row in site_outage_alerts(sure, truth.inventory, SiteOutage())}
    maybe = site_outage_alerts(taken, truth.inventory, SiteOutage())
    return [*due.values(), *({**row, "either": True} for row in maybe if row["alert_id"] not in due)]


def compare_alerts(expected: Iterable[Row], seen: Sequence[Row], not_alerts: int = 0) -> Comparison:
    """Compare by `alert_id`; wrong is what was not due, has another field, or was logged twice.

    Those about which nothing is promised are counted apart.
    """
    rows = {row["alert_id"]: row for row in expected}
    either = {alert_id for alert_id, row in rows.items() if row.get("either")}
    wanted = {alert_id: row for alert_id, row in rows.items() if alert_id not in either}
    seen = [row for row in seen if row["alert_id"] not in either]
    times = Counter(row["alert_id"] for row in seen)
    wrong = [f"{_alert(row)} was logged {times[row['alert_id']]} times" for row in _repeated(seen, times)]
    if not_alerts:
        wrong.append(f"{not_alerts} records in the topic alerts are no alerts")
    for row in seen:
        due = wanted.get(row["alert_id"])
        if due is None:
            wrong.append(f"{_alert(row)} was not due")
        elif complaint := difference(due, row, [name for name in due if name != "kind"]):
            wrong.append(f"{_alert(row)}: {complaint}")
    missing = [_alert(row) for key, row in wanted.items() if key not in times]
    return Comparison(len(wanted), len(times), missing, wrong, len(either))


def compare_dead_letters(expected: Iterable[Row], seen: Iterable[Row]) -> Comparison:
    """Compare by source topic, partition and offset: the same letter from several jobs is one."""
    return compare(
        {_key(row, LETTER_IDENTITY): row for row in expected},
        {_key(row, LETTER_IDENTITY): row for row in seen},
        ["value_size"],
        "dead letter",
    )


def compare_windows(expected: Iterable[Row], seen: Iterable[Row]) -> Comparison:
    """Compare the last row of each window; those about which nothing is promised are counted apart."""
    rows = {_key(row, WINDOW_KEY): row for row in expected}
    either = {key for key, row in rows.items() if row.get("either")}
    return compare(
        {key: row for key, row in rows.items() if key not in either},
        {key: row for row in seen if (key := _key(row, WINDOW_KEY)) not in either},
        WINDOW_FIELDS,
        "window",
        len(either),
    )


def shortfalls(truth: Truth) -> list[str]:
    """Say what the scenario lacks, a sentence's part each; nothing when it happened."""
    states = Counter(row["state"] for row in truth.alerts)
    lacks = []
    if len(truth.alerts) < MINIMUM_ALERTS:
        lacks.append(f"{len(truth.alerts)} of at least {MINIMUM_ALERTS} alerts")
    lacks += [f"no alert of state {state}" for state in ("WARNING", "NORMAL") if not states[state]]
    if truth.summary["duplicates"] < MINIMUM_DUPLICATES:
        lacks.append(f"{truth.summary['duplicates']} of at least {MINIMUM_DUPLICATES} duplicates")
    if len(truth.dead_letters) < MINIMUM_DEAD_LETTERS:
        lacks.append("no dead letter")
    return lacks + [f"no {kind} of the clickstream" for kind, rows in truth.clickstream.items() if not rows]


def _repeated(rows: Iterable[Row], times: Mapping[str, int]) -> list[Row]:
    return list({row["alert_id"]: row for row in rows if times[row["alert_id"]] > 1}.values())


def _key(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _alert(row: Row) -> str:
    return f"alert {row['alert_id']} ({row['subject']} {row['state']} at {row['event_time']})"
