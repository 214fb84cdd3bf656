"""Which sites are out? Topics: `alerts` to `alerts`.

A site is in `WARNING` when more than half of its racks by the inventory went into `WARNING` within a minute, by any of
the other rules, and until no more than half of them are (`docs/rules.md`). Alerts of all partitions meet here, so each
is held until half a second after its second of append time: then none that belongs before it can still come.

What it gets wrong: an outage that was over before the jobs of the other rules could tell of it may pass unseen, as
their alerts come rack by rack then, over several seconds. A repeated alert is known by the last 10,000 of its site.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import pyarrow as pa
from msgspec import field
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from events.records import InventoryRack
from events.rules import Rules, SiteOutage
from events.topics import ALERTS
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.rack_rules import with_rack
from spark_jobs.rule_state import Decision, Machine, decisions, plain_alerts
from spark_jobs.triggers import Trigger

SECOND_MS = 1000
GRACE_MS = 500
"""How long after the end of its second an alert is held, by the wall clock."""
KNOWN_ALERTS = 10_000


class Change(NamedTuple):
    """An alert of a rack, ordered as in the topic. Append time in epoch milliseconds, event time in microseconds."""

    append_ms: int
    partition: int
    offset: int
    alert_id: str
    rule: str
    rack_id: str
    warning: bool
    event_time: int


class Site(Machine):
    """The racks of a site that are down, by which rules and since when."""

    held: list[Change] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    down: dict[str, list[str]] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    out: bool = False
    racks: int = 0
    share: float = 0.0
    within: int = 0
    severity: str = ""
    by_clock: bool = False

    def learn(self, row: Row, rules: Rules) -> None:
        """Take in how many racks the site has, and how many are too many."""
        rule = rules.for_rack(SiteOutage, "")
        self.share, self.within = rule.share, round(rule.within_s * 1_000_000)
        self.racks, self.severity, self.by_clock = row["racks"], rule.severity_of(None), row["by_clock"]

    def take(self, subject: str, row: Row) -> Iterator[Decision]:  # noqa: ARG002 - all of a second are taken together
        """Hold the next alert."""
        self.held.append(Change(*(row[name] for name in Change._fields)))
        return iter(())

    def rest(self, subject: str) -> Iterator[Decision]:
        """Follow all alerts at once where there is no clock."""
        if not self.by_clock:
            yield from self._release(subject, len(self.held))

    def due_ms(self) -> int | None:
        """Return when the second of the first alert is over for good."""
        return _end_ms(self.held[0]) + GRACE_MS if self.held and self.by_clock else None

    def tick(self, subject: str, now_ms: int) -> Iterator[Decision]:
        """Follow the alerts whose second is over for good."""
        self.held.sort()
        yield from self._release(subject, sum(_end_ms(change) + GRACE_MS <= now_ms for change in self.held))

    def _release(self, subject: str, count: int) -> Iterator[Decision]:
        for change in in_order(self.held[:count]):
            yield from self._follow(subject, change)
        del self.held[:count]

    def _follow(self, subject: str, change: Change) -> Iterator[Decision]:
        if change.alert_id in self.known:
            return
        self.known = [*self.known, change.alert_id][-KNOWN_ALERTS:]
        rules = self.down.setdefault(change.rack_id, [])
        if change.warning and change.rule not in rules:
            rules.append(change.rule)
            self.since.setdefault(change.rack_id, change.event_time)
        elif not change.warning and change.rule in rules:
            rules.remove(change.rule)
        if not rules:
            del self.down[change.rack_id]
            self.since.pop(change.rack_id, None)
        latest = max(self.since.values(), default=0)
        together = sum(latest - at <= self.within for at in self.since.values())
        changes = (
            len(self.down) / self.racks <= self.share if self.out else together / self.racks > self.share
        )
        if changes:
            self.out = not self.out
            yield self._decision(subject, change)

    def _decision(self, subject: str, change: Change) -> Decision:
        count = f"{len(self.down)} of its {self.racks} racks are in WARNING"
        sentence = f"Site {subject} is out: {count}." if self.out else f"Site {subject} is back: {count}."
        severity = self.severity if self.out else None
        return Decision(subject, severity, change.event_time, change.alert_id, sentence)


def in_order(changes: list[Change]) -> list[Change]:
    """Return alerts in the order in which they count: see `docs/rules.md`. In: as the topic holds them."""
    anchors: dict[tuple[int, str], tuple[int, int]] = {}
    keyed = []
    for place, change in enumerate(changes):
        second = change.append_ms // SECOND_MS
        own = (change.event_time, place)
        # Right after an earlier one of its rack, where it is older than that.
        anchor = anchors.get((second, change.rack_id), own)
        anchor = own if change.event_time >= anchor[0] else anchor
        anchors[second, change.rack_id] = anchor
        keyed.append((second, anchor, place, change))
    return [change for *_, change in sorted(keyed)]


def _end_ms(change: Change) -> int:
    return (change.append_ms // SECOND_MS + 1) * SECOND_MS


def site_outages(alerts: DataFrame, options: JobOptions, *, by_wall_clock: bool) -> DataFrame:
    """Return the decisions on readable alerts with Kafka's columns; append mode only. Racks are the inventory's."""
    of_racks = alerts.where(F.col("rule") != SiteOutage().name).withColumn("rack_id", F.col("subject"))
    known = with_rack(of_racks, options.inventory).where(F.col("rack").isNotNull())
    sized = known.withColumn("site", F.col("rack.site_id")).join(
        F.broadcast(_sites(alerts.sparkSession, options.inventory)), on="site"
    )
    rows = sized.select(
        "site",
        "racks",
        F.unix_millis("timestamp").alias("append_ms"),
        "partition",
        "offset",
        "alert_id",
        "rule",
        "rack_id",
        (F.col("state") == "WARNING").alias("warning"),
        F.unix_micros("event_time").alias("event_time"),
        F.lit(by_wall_clock).alias("by_clock"),
    )
    return decisions(rows, "site", Site, options.rules, "ProcessingTime" if by_wall_clock else "None")


def _sites(spark: SparkSession, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Return `site` and how many `racks` it has."""
    counts = Counter(rack.site_id for rack in inventory)
    columns = {"site": pa.array(counts.keys(), pa.string()), "racks": pa.array(counts.values(), pa.int64())}
    return spark.createDataFrame(pa.table(columns))


def _by_wall_clock(alerts: DataFrame, options: JobOptions) -> DataFrame:
    found = site_outages(alerts, options, by_wall_clock=True)
    return plain_alerts(found, SiteOutage().name)


def _at_once(alerts: DataFrame, options: JobOptions) -> DataFrame:
    found = site_outages(alerts, options, by_wall_clock=False)
    return plain_alerts(found, SiteOutage().name)


JOB = Job(
    name="site_outage",
    source=ALERTS,
    sink=ALERTS,
    rules_version="v1",
    rule=SiteOutage,
    needs_inventory=True,
    state_partitions=1,
    micro_batch=timedelta(seconds=1),
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _by_wall_clock, ("append",), reads_all=True),
        Trigger.AVAILABLE_NOW: Plan("available-now", _at_once, ("append",), reads_all=True),
    },
)
