"""Canonical JSON: what the producer writes is recognised and read; everything else is not."""

import re
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from events.records import AdClick, AdImpression, AlertCommand, RackReading, UserAction, encode
from spark_jobs.runtime.parsing._canonical import INSTANT, CanonicalJson, canonical_json
from tests.builders import reading
from tests.spark.kafka_tables import kafka_table, with_field
from tests.spark.rack_histories import COLD

WHEN = "2026-11-21T06:26:00.123Z"
COMMON: dict[str, Any] = {"event_id": "e 1", "event_time": WHEN}
RECORDS: dict[str, msgspec.Struct] = {
    "a reading": reading(1, COLD),
    "a reading on schedule": RackReading(
        **COMMON, rack_id="r", sequence=1_795_000_000_000, site_id="", device_type="gpu",
        temperature_c=-0.5, signal_strength=1, scheduled_time="2026-11-21T06:26:00.120Z",
    ),
    "an impression": AdImpression(
        **COMMON, impression_id="i", ad_id="a", user_id="u", page="/p?x=1&y=[2]"
    ),
    "a click": AdClick(
        **COMMON, click_id="c", impression_id="i", ad_id="a", user_id="u", scheduled_time=WHEN
    ),
    "a view": UserAction(**COMMON, user_id="u", action="view", page="/", device="phone"),
    "a purchase": UserAction(
        **COMMON, user_id="u", action="purchase", page="/", device="tv", amount=Decimal("12.50"),
        scheduled_time=WHEN,
    ),
    "a command": AlertCommand(
        command_id="c", command="ack", rule="rack-overheating", subject="r", by="me",
        event_time=WHEN,
    ),
}  # fmt: skip


def canonical_of(record: type[msgspec.Struct]) -> CanonicalJson:
    form = canonical_json(record)
    assert form is not None
    return form


@pytest.mark.parametrize("case", RECORDS)
def test_an_encoded_record_is_canonical_and_read_back(spark: SparkSession, case: str) -> None:
    record = RECORDS[case]
    form, text = canonical_of(type(record)), F.col("value").cast("string")
    found = {
        name: F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
        if name.endswith("_time")
        else value
        for name, value in form.values(F.split(text, '"')).items()
    }
    rows = kafka_table(spark, [encode(record)]).select(
        form.matches(text).alias("is_canonical"),
        *[value.alias(name) for name, value in found.items()],
    )
    expected = {
        "is_canonical": True,
        **{name: getattr(record, name) for name in record.__struct_fields__},
    }
    assert rows.first().asDict() == expected  # type: ignore[union-attr] # there is a row


def test_the_dates_are_those_of_a_common_year() -> None:
    def is_date(month: int, day: int) -> bool:
        try:
            return bool(date(2026, month, day))
        except ValueError:
            return False

    every = [(month, day) for month in range(14) for day in range(33)]
    matched = {
        (month, day)
        for month, day in every
        if re.fullmatch(INSTANT, f"2028-{month:02}-{day:02}T06:26:00Z")
    }
    assert matched == {one for one in every if is_date(*one)}


GOOD = encode(reading(1, COLD))
NOT_CANONICAL = {
    "a space": GOOD.replace(b":", b": ", 1),
    "a line's end": GOOD + b"\n",
    "an escape": GOOD.replace(b"site-a", rb"site\u002da"),
    "a letter with an accent": GOOD.replace(b"site-a", "sité".encode()),
    "no UTF-8": GOOD.replace(b"site-a", b"site-\xff"),
    "a control character": GOOD.replace(b"site-a", b"site-\x07"),
    "another order": b'{"rack_id":"rack-0001",' + GOOD[1:].replace(b'"rack_id":"rack-0001",', b""),
    "an unknown field": with_field("room", "1"),
    "minus nought": with_field("signal_strength", "-0"),
    "an exponent": with_field("signal_strength", "1e5"),
    "a number of twenty digits": with_field("sequence", "1" * 20),
    "a number as text": with_field("sequence", '"1"'),
    "the 31st of June": GOOD.replace(b"2026-11-18", b"2026-06-31"),
    "an id of 257 bytes": with_field("site_id", '"' + "x" * 257 + '"'),
}


def test_other_values_are_not_canonical(spark: SparkSession) -> None:
    text = F.col("value").cast("string")
    rows = kafka_table(spark, [GOOD, *NOT_CANONICAL.values(), None]).orderBy("offset")
    matched = [row[0] for row in rows.select(canonical_of(RackReading).matches(text)).collect()]
    assert dict(zip(["good", *NOT_CANONICAL, "none"], matched, strict=True)) == {
        "good": True, **dict.fromkeys(NOT_CANONICAL, False), "none": False
    }  # fmt: skip
    purchase = encode(RECORDS["a purchase"]).replace(b',"amount":12.50', b"")
    (row,) = kafka_table(spark, [purchase]).select(canonical_of(UserAction).matches(text)).collect()
    assert row[0] is False
