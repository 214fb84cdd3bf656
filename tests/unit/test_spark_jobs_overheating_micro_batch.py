"""The processor of buckets on Spark's tester: its state, and its rows in and out."""

from typing import Any

import pandas as pd
import pyarrow as pa
from msgspec.json import encode
from pyspark.sql.streaming.tws_tester import TwsTester

from events.rules import Overheating, Rules
from spark_jobs.rules.framework.bucketed_readings import bucket_of, to_bucket_batches
from spark_jobs.rules.overheating.buckets import limits_by_bucket
from spark_jobs.rules.overheating.limits import fleet_limits
from spark_jobs.rules.overheating.micro_batch import OverheatingProcessor
from tests.builders import reading
from tests.spark.rack_histories import COLD, HOT
from tests.unit.test_spark_jobs_overheating_buckets import table

_COLUMNS = ["readings", "fallback_row"]


def rows(*cells: dict[str, Any]) -> pd.DataFrame:
    """Return rows as Spark passes them to the processor."""
    return pd.DataFrame(list(cells), columns=_COLUMNS, dtype=object)


def processor(*rules: Overheating) -> OverheatingProcessor:
    return OverheatingProcessor(limits_by_bucket(fleet_limits((), Rules(rules))))


def bucket_batches(readings: pa.Table, size: int) -> list[dict[str, Any]]:
    """Return readings of one bucket in batches of a size."""
    return [
        {
            "readings": to_bucket_batches(
                readings.slice(at, size).combine_chunks().to_batches()[0]
            )["readings"][0].as_py()
        }
        for at in range(0, len(readings), size)
    ]


def test_the_processor_continues_from_its_state_with_batches_and_fallback_rows() -> None:
    tester = TwsTester(processor(), outputMode="Update")
    key = bucket_of("rack-0007")
    topic = table([reading(n, HOT if n < 3 else COLD, "rack-0007") for n in range(4)])
    assert tester.testInPandas(key, rows(*bucket_batches(topic.slice(0, 2), 1))).empty
    fallback_row = [{"fallback_row": encode(row).decode()} for row in topic.slice(2).to_pylist()]
    found: Any = tester.testInPandas(
        key, rows(*fallback_row, *bucket_batches(topic.slice(1, 2), 2))
    )
    changes = [
        (row["subject"], row["severity"], row["trigger_event_id"])
        for row in found.to_dict("records")
    ]
    assert changes == [("rack-0007", "error", "rack-0007/2"), ("rack-0007", None, "rack-0007/3")]


def test_the_processor_keeps_the_memory_of_a_rule_that_has_one() -> None:
    tester = TwsTester(processor(Overheating(clear_below_c=80.0)), outputMode="Update")
    # 52 readings between the two thresholds leave no hot one among those that are kept.
    celsius = [HOT] * 3 + [90.0] * 52 + [79.0]
    topic = table([reading(n, each, "rack-0007") for n, each in enumerate(celsius)])
    found: list[Any] = [
        tester.testInPandas(bucket_of("rack-0007"), rows(*bucket_batches(topic.slice(at, 11), 11)))
        for at in range(0, 56, 11)
    ]
    changes = [
        (row["severity"], row["trigger_event_id"])
        for frame in found
        for row in frame.to_dict("records")
    ]
    assert changes == [("error", "rack-0007/2"), (None, "rack-0007/55")]
