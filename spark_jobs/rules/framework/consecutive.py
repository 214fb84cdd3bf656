"""Detect that a rack's last readings all met a condition, for Real-time Mode.

These are native Spark expressions. They rely on Real-time Mode, which emits once per reading. A
micro-batch emits once per rack and batch, so it would lose changes within a batch.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.rules.framework.evidence import ALL_FIELDS, MEASURED

MAX_COPIES = 3
"""How many copies of a reading are recognised; a further copy that is late may count as new."""


def consecutive_changes(
    readings: DataFrame,
    count: int,
    evidence: tuple[str, ...],
    carried: tuple[str, ...],
    own_count: str | None = None,
) -> DataFrame:
    """Return one row per change of a rack's state.

    A rack is in `WARNING` when its last `count` readings by `sequence` all met the condition. If
    racks have counts of their own, `own_count` names the carried column that has them, and `count`
    is the greatest.

    In: `rack_id`, `offset`, `condition_met` (boolean), and the columns named in `evidence` (fields
    of `events.records.Evidence`) and `carried`.

    Out: `subject`, `warning`, `event_time`, `trigger_event_id`, the columns `carried` of the
    triggering reading, and `evidence`: the last `count` readings with those fields.

    The aggregate keeps the latest reading by arrival and the last readings by `sequence`, whatever
    their order of arrival. The state before a reading is the state computed without it.
    """
    # The last `count` readings before and after a reading are among the last `count + 1`, each of
    # which may be there three times.
    kept_readings = (count + 1) * MAX_COPIES
    measured = [name for name in evidence if name in MEASURED]
    # The order of these fields is the order in which readings are sorted.
    reading = F.struct("sequence", "event_id", "offset", "event_time", *measured, "condition_met")
    kept = readings.select("rack_id", *carried, reading.alias("reading")).groupBy("rack_id").agg(
        F.expr(f"max_by(reading, reading.sequence, {kept_readings})").alias("latest"),
        F.last(F.struct("reading.event_id", "reading.event_time", *carried)).alias("arrival"),
    )  # fmt: skip
    arrived_id = F.col("arrival.event_id")
    met = F.col("latest.condition_met")
    # Most readings change nothing. That is visible without a look at each of them: the condition
    # is met by none, or by all.
    met_by_none, met_by_all = ~F.array_contains(met, True), ~F.array_contains(met, False)
    may_change = kept.where(~met_by_none & ~(met_by_all & (F.size(met) == kept_readings)))
    ordered = may_change.withColumn("latest", F.sort_array("latest", asc=False)).select(
        "rack_id",
        "arrival",
        _is_new(F.col("latest"), arrived_id).alias("is_new"),
        _distinct(F.col("latest")).alias("distinct"),
    )
    rack_count = F.col(f"arrival.{own_count}") if own_count else F.lit(count)
    states = ordered.select(
        "rack_id",
        "arrival",
        "is_new",
        F.slice("distinct", 1, rack_count).alias("last"),
        F.slice(F.filter("distinct", lambda r: r["event_id"] != arrived_id), 1, rack_count).alias(
            "last_before"
        ),
    ).select(
        "*",
        _all_met("last", rack_count).alias("warning"),
        _all_met("last_before", rack_count).alias("warning_before"),
    )
    changed = states.where(F.col("is_new") & (F.col("warning") != F.col("warning_before")))
    fields = [name for name in ALL_FIELDS if name in evidence]
    return changed.select(
        F.col("rack_id").alias("subject"),
        "warning",
        "arrival.event_time",
        arrived_id.alias("trigger_event_id"),
        *[f"arrival.{name}" for name in carried],
        F.transform(
            F.reverse("last"),
            lambda reading: F.struct(*[reading[name].alias(name) for name in fields]),
        ).alias("evidence"),
    )


def _is_new(latest: Column, arrived_id: Column) -> Column:
    """Tell whether the reading that arrived is kept exactly once.

    It is not when it is a copy, or older than all readings that are kept.
    """
    return F.size(F.filter(latest, lambda reading: reading["event_id"] == arrived_id)) == 1


def _distinct(latest: Column) -> Column:
    """Keep the first copy of each reading.

    Copies stand side by side in descending order, so the first copy by offset is the last of them.
    """
    return F.filter(
        latest,
        lambda reading, index: (
            (index == F.size(latest) - 1)
            | (F.element_at(latest, index + 2)["event_id"] != reading["event_id"])
        ),
    )


def _all_met(readings: str, count: Column) -> Column:
    return (F.size(readings) == count) & F.forall(
        readings, lambda reading: reading["condition_met"]
    )
