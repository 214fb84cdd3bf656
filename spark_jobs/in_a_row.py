"""The state that the last readings in a row give, in built-in expressions, as Real-time Mode takes them.

It emits once per reading, which these expressions rely on: a micro-batch emits once per rack, and would lose changes.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

COPIES = 3
"""How many copies of a reading are seen through; more of them, and late, may be taken for new."""


def changes_in_a_row(
    readings: DataFrame, in_a_row: int, evidence: tuple[str, ...], about: tuple[str, ...]
) -> DataFrame:
    """Return one row per change of a rack's state, which is whether its last readings by `sequence` are all `hit`.

    In: `rack_id`, `event_id`, `sequence`, `event_time`, `offset`, `hit` (boolean), and the columns named in `evidence`
    and `about`. Out: `subject`, `warning`, `event_time`, `decider`, the columns `about` of the reading that decided,
    and `evidence`: the last `in_a_row` readings, each with those columns. The aggregate keeps the last readings by
    `sequence`, whatever their order of arrival, and the one that has just arrived; the state before it is the state
    without it.
    """
    # The last ones before and after a reading are among the last and one, each there up to three times.
    kept_readings = (in_a_row + 1) * COPIES
    reading = F.struct("sequence", "event_id", "offset", "event_time", *evidence, "hit")
    kept = readings.select("rack_id", *about, reading.alias("reading")).groupBy("rack_id").agg(
        F.expr(f"max_by(reading, reading.sequence, {kept_readings})").alias("latest"),
        F.last(F.struct("reading.event_id", "reading.event_time", *about)).alias("arrival"),
    )  # fmt: skip
    arrived = F.col("arrival.event_id")
    hits = F.col("latest.hit")
    # Most readings change nothing, which is seen without looking at them one by one: none is a hit, or all are.
    none_hit, all_hit = ~F.array_contains(hits, True), ~F.array_contains(hits, False)
    undecided = kept.where(~none_hit & ~(all_hit & (F.size(hits) == kept_readings)))
    ordered = undecided.withColumn("latest", F.sort_array("latest", asc=False)).select(
        "rack_id",
        "arrival",
        _is_new(F.col("latest"), arrived).alias("is_new"),
        _distinct(F.col("latest")).alias("distinct"),
    )
    states = ordered.select(
        "rack_id",
        "arrival",
        "is_new",
        F.slice("distinct", 1, in_a_row).alias("last"),
        F.slice(F.filter("distinct", lambda r: r["event_id"] != arrived), 1, in_a_row).alias("last_before"),
    ).select(
        "*",
        _all_hit("last", in_a_row).alias("warning"),
        _all_hit("last_before", in_a_row).alias("warning_before"),
    )
    changed = states.where(F.col("is_new") & (F.col("warning") != F.col("warning_before")))
    fields = ("event_id", "sequence", "event_time", *evidence)
    return changed.select(
        F.col("rack_id").alias("subject"),
        "warning",
        "arrival.event_time",
        arrived.alias("decider"),
        *[f"arrival.{name}" for name in about],
        F.transform(
            F.reverse("last"), lambda reading: F.struct(*[reading[name].alias(name) for name in fields])
        ).alias("evidence"),
    )


def _is_new(latest: Column, arrived: Column) -> Column:
    """Tell whether the reading that arrived is there once: not a copy, and not older than all that are kept."""
    return F.size(F.filter(latest, lambda reading: reading["event_id"] == arrived)) == 1


def _distinct(latest: Column) -> Column:
    """Keep of each reading the copy that came first: copies stand side by side, the first by offset last."""
    return F.filter(
        latest,
        lambda reading, at: (
            (at == F.size(latest) - 1) | (F.element_at(latest, at + 2)["event_id"] != reading["event_id"])
        ),
    )


def _all_hit(readings: str, in_a_row: int) -> Column:
    return (F.size(readings) == in_a_row) & F.forall(readings, lambda reading: reading["hit"])
