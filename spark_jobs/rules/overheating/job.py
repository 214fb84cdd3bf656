"""Which racks are overheating?

Topics: `rack-readings` -> `alerts`. No window, no watermark: a wrong clock hides nothing.

A rack is in `WARNING` exactly when its last three distinct readings, by `sequence`, are all at or
above its threshold, or as its rule says (`docs/rules.md`). Every change is an alert, triggered by
the reading that was just taken. The rule has two plans, which tests compare with one oracle:

- `real_time`: native expressions, in Real-time Mode, for rules whose state follows from the last
  `count` readings.
- `micro_batch`: Python state of buckets of racks, for every rule.

Limitations: a crash repeats alerts, with the same ids. The real-time plan deduplicates up to three
copies of a reading; a further copy that is late may count as new. No plan forgets a rack. Its state
takes about one kilobyte of disk in Real-time Mode and less in micro-batches, but up to three for a
rule that keeps more than the last `count` readings.
"""

from operator import attrgetter

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.catalog import RACK_OVERHEATING
from events.rules import Overheating
from events.topics import ALERTS, RACK_READINGS
from events.triggers import Trigger
from spark_jobs.rules.framework.alert_record import alert_record
from spark_jobs.rules.framework.bucketed_readings import FINGERPRINT, Buckets
from spark_jobs.rules.overheating import micro_batch, real_time
from spark_jobs.rules.overheating.buckets import READINGS
from spark_jobs.rules.overheating.limits import fleet_limits
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.options import RuleOptions

_BUCKETS = Buckets(READINGS)


def to_alerts(changes: DataFrame) -> DataFrame:
    """Add `state` and `summary` to the changes of either plan, and the severity of `NORMAL`."""
    warning = F.col("severity").isNotNull()
    latest = F.element_at("evidence", -1)["temperature_c"]
    overheating, normal = (
        F.format_string(sentence, "subject", "count", "threshold_c", latest)
        for sentence in (
            # "were": a rule with memory may warn after a reading below the threshold.
            "Rack %s is overheating: %s consecutive readings were at or above %.1f °C, "
            "and the latest is %.1f °C.",
            "Rack %s is back to normal: no longer %s consecutive readings at or above %.1f °C, "
            "the latest %.1f °C.",
        )
    )
    return changes.withColumns(
        {
            "state": F.when(warning, "WARNING").otherwise("NORMAL"),
            "severity": F.coalesce("severity", F.lit("info")),
            "summary": F.when(warning, overheating).otherwise(normal),
        }
    )


def _real_time(readings: DataFrame, options: RuleOptions) -> DataFrame:
    limits = fleet_limits(options.inventory, options.rules)
    changes = real_time.overheating_changes(real_time.flag_hot(readings, limits), limits)
    return to_alerts(changes).select(*alert_record(RACK_OVERHEATING))


def _micro_batch(readings: DataFrame, options: RuleOptions) -> DataFrame:
    limits = fleet_limits(options.inventory, options.rules)
    changes = micro_batch.overheating_changes(_BUCKETS.read(readings), limits)
    return to_alerts(changes).select(*alert_record(RACK_OVERHEATING))


_IN_BUCKETS = Plan(
    "buckets", _micro_batch, ("update",), batches=_BUCKETS.batches, fingerprint=FINGERPRINT
)

JOB = Job(
    name="overheating",
    sources=(RACK_READINGS,),
    options=RuleOptions,
    sink=ALERTS,
    state_version="v3",
    plans={
        Trigger.REAL_TIME: Plan("real-time", _real_time, ("update",)),
        Trigger.MICRO_BATCH: _IN_BUCKETS,
        Trigger.AVAILABLE_NOW: _IN_BUCKETS,
    },
    rule=Overheating,
    needs_micro_batches=attrgetter("option_with_memory"),
)
