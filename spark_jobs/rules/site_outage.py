"""Which sites are out?

Topics: `alerts` -> `alerts`. No window of event time, no watermark.

A site goes into `WARNING` when more than half of its racks in the inventory went into `WARNING`
within a minute, by any of the other rules. It stays there until no more than half of its racks are
in `WARNING` (`docs/rules.md`). The alerts of one site come from all partitions. So each alert is
held until 500 ms after the second in which it was appended: by then no earlier alert can come.

Limitations: an outage that ended while the other rules' jobs were down may be missed, as those jobs
then report it rack by rack over several seconds. A repeated alert is recognised among at least the
last 10,000 alerts of its site.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from msgspec import field
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from events.catalog import SITE_OUTAGE
from events.records import InventoryRack
from events.rules import Rules, SiteOutage
from events.topics import ALERTS
from events.triggers import Trigger
from spark_jobs.rules.framework.rack_metadata import join_rack
from spark_jobs.rules.framework.stateful_rule import (
    Decision,
    StatefulRule,
    decisions,
    to_alert_records,
)
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.options import RuleOptions

SECOND_MS = 1000
GRACE_MS = 500
"""How long after the end of its second an alert is held, by the wall clock."""
REMEMBERED_ALERTS = 10_000
"""How many alerts of a site are remembered at least, to recognise a repeated one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRules(Rules):
    """The rules of a file, with the ids of the racks of each site.

    The racks come with the rules and not with each alert, because a site may have thousands.
    """

    site_racks: dict[str, set[str]]

    @classmethod
    def of_inventory(cls, rules: Rules, inventory: Iterable[InventoryRack]) -> "SiteRules":
        """Add the racks of an inventory to rules."""
        racks = defaultdict(set)
        for rack in inventory:
            racks[rack.site_id].add(rack.rack_id)
        return cls(rules.rules, rules.places, site_racks=dict(racks))


class RackAlert(NamedTuple):
    """An alert of a rack, ordered as in the topic.

    The append time is in epoch milliseconds, the event time in epoch microseconds.
    """

    append_ms: int
    partition: int
    offset: int
    alert_id: str
    rule: str
    rack_id: str
    warning: bool
    event_time: int


class SiteOutageState(StatefulRule):
    """The racks of a site that are in `WARNING`, by which rules and since when."""

    pending: list[RackAlert] = field(default_factory=list)
    """Alerts whose second of append time is not over."""
    recent_ids: set[str] = field(default_factory=set)
    """Ids of the latest alerts; when it is full it becomes `older_ids`."""
    older_ids: set[str] = field(default_factory=set)
    rules_in_warning: dict[str, list[str]] = field(default_factory=dict)
    """By rack, the rules by which it is in `WARNING`."""
    warning_since: dict[str, int] = field(default_factory=dict)
    """By rack, the event time of its first `WARNING`, in epoch microseconds."""
    out: bool = False
    rack_count: int = 0
    share: float = 0.0
    within_us: int = 0
    severity: str = ""
    by_wall_clock: bool = False

    def configure(self, row: Row, rules: SiteRules) -> None:  # type: ignore[override] # site_outage_decisions gives these
        """Take which racks the site has, and how many in `WARNING` are an outage.

        Racks that have left the site are dropped: none of their alerts would come here any more.
        """
        rule = rules.for_rack(SiteOutage, "")
        self.share, self.within_us = rule.share, round(rule.within_s * 1_000_000)
        self.severity = rule.severity_of(None)
        self.by_wall_clock = row["by_wall_clock"]
        racks = rules.site_racks[row["site"]]
        self.rack_count = len(racks)
        self.pending = [alert for alert in self.pending if alert.rack_id in racks]
        for gone in self.rules_in_warning.keys() - racks:
            del self.rules_in_warning[gone], self.warning_since[gone]

    def on_row(self, subject: str, row: Row) -> Iterator[Decision]:  # noqa: ARG002 - all alerts of a second are taken together
        """Keep the next alert until its second has passed."""
        self.pending.append(RackAlert(*(row[name] for name in RackAlert._fields)))
        return iter(())

    def on_batch_end(self, subject: str) -> Iterator[Decision]:
        """Apply all alerts at once when there is no clock."""
        if not self.by_wall_clock:
            yield from self._release(subject, len(self.pending))

    def next_timer_ms(self) -> int | None:
        """Return when the first second of the pending alerts is complete."""
        if not self.pending or not self.by_wall_clock:
            return None
        # They need not be in the order of append time: partitions are read at different speeds, and
        # the broker's clock may be set back.
        return min(map(_end_ms, self.pending)) + GRACE_MS

    def on_timer(self, subject: str, now_ms: int) -> Iterator[Decision]:
        """Apply the pending alerts whose second is complete."""
        self.pending.sort()
        yield from self._release(
            subject, sum(_end_ms(alert) + GRACE_MS <= now_ms for alert in self.pending)
        )

    def _release(self, subject: str, count: int) -> Iterator[Decision]:
        for alert in in_order(self.pending[:count]):
            yield from self._apply(subject, alert)
        del self.pending[:count]

    def _apply(self, subject: str, alert: RackAlert) -> Iterator[Decision]:
        if self._is_repeated(alert.alert_id):
            return
        rules = self.rules_in_warning.setdefault(alert.rack_id, [])
        if alert.warning and alert.rule not in rules:
            rules.append(alert.rule)
            self.warning_since.setdefault(alert.rack_id, alert.event_time)
        elif not alert.warning and alert.rule in rules:
            rules.remove(alert.rule)
        if not rules:
            del self.rules_in_warning[alert.rack_id]
            self.warning_since.pop(alert.rack_id, None)
        is_out = self._is_more_than_share(len(self.warning_since))
        if is_out and not self.out:
            # Any interval counts, not only the latest: the clock of one rack may be far ahead.
            together = most_within(self.warning_since.values(), self.within_us)
            is_out = self._is_more_than_share(together)
        if is_out != self.out:
            self.out = is_out
            yield self._decision(subject, alert)

    def _is_more_than_share(self, number: int) -> bool:
        return number / self.rack_count > self.share

    def _is_repeated(self, alert_id: str) -> bool:
        """Tell whether an alert was there before, and remember it."""
        if alert_id in self.recent_ids or alert_id in self.older_ids:
            return True
        self.recent_ids.add(alert_id)
        if len(self.recent_ids) == REMEMBERED_ALERTS:
            self.older_ids, self.recent_ids = self.recent_ids, set()
        return False

    def _decision(self, subject: str, alert: RackAlert) -> Decision:
        number = len(self.rules_in_warning)
        verb = "is" if number == 1 else "are"
        count = f"{number} of its {self.rack_count} racks {verb} in WARNING"
        return Decision(
            site_id=subject,
            severity=self.severity if self.out else None,
            event_time=alert.event_time,
            trigger_event_id=alert.alert_id,
            summary=f"Site {subject} is {'out' if self.out else 'back'}: {count}.",
        )


def most_within(times: Collection[int], length: int) -> int:
    """Return how many of the times at most lie in one interval of a length, both ends in."""
    ordered = sorted(times)
    counts = (bisect_right(ordered, start + length) - index for index, start in enumerate(ordered))
    return max(counts, default=0)


def in_order(alerts: list[RackAlert]) -> list[RackAlert]:
    """Return alerts in the order in which the rule takes them (`docs/rules.md`).

    In: alerts in the topic's order. They are ordered by second of append time, then by event time.
    An alert that is older than an earlier one of its rack follows right after that one.
    """
    anchors: dict[tuple[int, str], tuple[int, int]] = {}
    keyed = []
    for index, alert in enumerate(alerts):
        second = alert.append_ms // SECOND_MS
        own = (alert.event_time, index)
        anchor = anchors.get((second, alert.rack_id), own)
        anchor = own if alert.event_time >= anchor[0] else anchor
        anchors[second, alert.rack_id] = anchor
        keyed.append((second, anchor, index, alert))
    return [alert for *_, alert in sorted(keyed)]


def _end_ms(alert: RackAlert) -> int:
    return (alert.append_ms // SECOND_MS + 1) * SECOND_MS


def site_outage_decisions(
    alerts: DataFrame, options: RuleOptions, *, by_wall_clock: bool
) -> DataFrame:
    """Return the rule's decisions; append mode only.

    In: readable alerts with Kafka's columns. Alerts of racks that the inventory does not name are
    left out.
    """
    of_racks = alerts.where(F.col("rule") != SITE_OUTAGE).withColumn("rack_id", F.col("subject"))
    of_known_racks = join_rack(of_racks, options.inventory).where(F.col("rack").isNotNull())
    rows = of_known_racks.select(
        F.col("rack.site_id").alias("site"),
        F.unix_millis("timestamp").alias("append_ms"),
        "partition",
        "offset",
        "alert_id",
        "rule",
        "rack_id",
        (F.col("state") == "WARNING").alias("warning"),
        F.unix_micros("event_time").alias("event_time"),
        F.lit(by_wall_clock).alias("by_wall_clock"),
    )
    time_mode = "ProcessingTime" if by_wall_clock else "None"
    rules = SiteRules.of_inventory(options.rules, options.inventory)
    return decisions(rows, "site", SiteOutageState, rules, time_mode)


def _plan(name: str, *, by_wall_clock: bool) -> Plan:
    def records(alerts: DataFrame, options: RuleOptions) -> DataFrame:
        decided = site_outage_decisions(alerts, options, by_wall_clock=by_wall_clock)
        return to_alert_records(decided, SITE_OUTAGE)

    return Plan(name, records, ("append",), reads_all=True, by_wall_clock=by_wall_clock)


JOB = Job(
    name="site_outage",
    sources=(ALERTS,),
    options=RuleOptions,
    sink=ALERTS,
    state_version="v2",
    rule=SiteOutage,
    needs_inventory=True,
    state_partitions=1,
    micro_batch_interval=timedelta(seconds=1),
    plans={
        Trigger.MICRO_BATCH: _plan("micro-batch", by_wall_clock=True),
        Trigger.AVAILABLE_NOW: _plan("available-now", by_wall_clock=False),
    },
)
