"""The processor of buckets, on Spark's tester: its state, and its rows in and out."""

from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
from msgspec.json import encode
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_jobs.overheating_buckets import READINGS, bucket_of, thresholds_by_bucket
from spark_jobs.overheating_state import LETTERS, OverheatingProcessor, packs_of
from tests.spark.histories import COLD, HOT, reading
from tests.unit.test_spark_jobs_overheating_buckets import table

_COLUMNS = ["readings", "alone", "letter_key", "letter"]


def rows(*cells: dict[str, Any]) -> pd.DataFrame:
    """Return rows as the processor is handed them."""
    return pd.DataFrame(list(cells), columns=_COLUMNS, dtype=object)


def packs(readings: pa.Table, size: int) -> list[dict[str, Any]]:
    """Return readings of one bucket in packs of a size."""
    return [
        {
            "readings": packs_of(readings.slice(at, size).combine_chunks().to_batches()[0])["readings"][
                0
            ].as_py()
        }
        for at in range(0, len(readings), size)
    ]


def test_the_processor_goes_on_from_its_state_in_packs_and_in_single_readings() -> None:
    tester = TwsTester(OverheatingProcessor(thresholds_by_bucket([])), outputMode="Update")
    key = bucket_of("rack-0007")
    topic = table([reading(n, HOT if n < 3 else COLD, "rack-0007") for n in range(4)])
    assert tester.testInPandas(key, rows(*packs(topic.slice(0, 2), 1))).empty
    alone = [{"alone": encode(row).decode()} for row in topic.slice(2).to_pylist()]
    found: Any = tester.testInPandas(key, rows(*alone, *packs(topic.slice(1, 2), 2)))
    told = [(row["subject"], row["warning"], row["decider"]) for row in found.to_dict("records")]
    assert told == [("rack-0007", True, "rack-0007/2"), ("rack-0007", False, "rack-0007/3")]
    assert found["letter"].isna().all()


def test_letters_pass_as_they_are() -> None:
    tester = TwsTester(OverheatingProcessor(thresholds_by_bucket([])), outputMode="Update")
    letters: list[dict[str, Any]] = [
        {"letter_key": b"rack-1", "letter": "one"},
        {"letter_key": None, "letter": "two"},
    ]
    found: Any = tester.testInPandas(LETTERS, rows(*letters))
    assert found[["letter_key", "letter"]].to_dict("records") == letters
    assert found.drop(columns=["letter_key", "letter"]).isna().all(axis=None)


def test_packs_hold_each_reading_once_in_its_bucket() -> None:
    racks = [f"rack-{Random(n).randrange(500)}" for n in range(1000)]
    readings = table([reading(n, rack=rack) for n, rack in enumerate(racks)])
    found = packs_of(readings.combine_chunks().to_batches()[0]).to_pylist()
    opened = [(pack["bucket"], pa.ipc.open_stream(pack["readings"]).read_all()) for pack in found]
    assert all(part.schema == READINGS for _, part in opened)
    assert all(
        {bucket_of(rack) for rack in part["rack_id"].to_pylist()} == {bucket} for bucket, part in opened
    )
    together = sorted((row for _, part in opened for row in part.to_pylist()), key=lambda row: row["offset"])
    assert together == readings.to_pylist()
    assert len(found) == len({bucket_of(rack) for rack in racks})
