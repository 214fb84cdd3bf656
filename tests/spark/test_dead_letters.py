"""Dead letters: what came, as it came, cut so that it always fits."""

import base64
import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from events.records import DeadLetter
from events.spark_schemas import spark_schema
from events.times import now_ms, to_ms
from spark_jobs.dead_letters import dead_letters
from tests.spark.tables import kafka_table

KIB_64 = 65_536

VALUES: dict[str, bytes | None] = {
    "short": b'{"rack_id": 7}',
    "not UTF-8": b'{"rack_id":"\xff"}',
    "empty": b"",
    "none": None,
    "64 KiB": b"x" * KIB_64,
    "a byte more": b"x" * KIB_64 + b"y",
    "a megabyte": b"z" * 1_000_000,
    "a megabyte that is not UTF-8": b"\xfe" * 1_000_000,
    "not UTF-8 behind the cut": b"x" * 70_000 + b"\xff",
    "control characters": b"\x01" * 70_000,
    **{f"é cut after {n} bytes": b"-" * n + "é".encode() * 40_000 for n in range(2)},
    **{f"€ cut after {n} bytes": b"-" * n + "€".encode() * 40_000 for n in range(3)},
    **{f"🔥 cut after {n} bytes": b"-" * n + "🔥".encode() * 40_000 for n in range(4)},
}


@pytest.fixture(scope="module")
def letters(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """Return the letters of all values, as the topic would hold them."""
    raw = kafka_table(spark, list(VALUES.values())).withColumn(
        "error", F.lit("the value is not one JSON object")
    )
    rows = dead_letters(raw, "rack-readings").collect()
    return {list(VALUES)[json.loads(row["value"])["offset"]]: json.loads(row["value"]) for row in rows}


def test_a_letter_has_the_fields_of_the_contract_and_is_keyed_as_its_source(spark: SparkSession) -> None:
    raw = kafka_table(spark, [b'{"rack_id": 7}'], [b"rack-0007"]).withColumn(
        "error", F.lit("rack_id is not text")
    )
    before = now_ms()
    (row,) = dead_letters(raw, "rack-readings").collect()
    assert bytes(row["key"]) == b"rack-0007"
    letter = json.loads(row["value"])
    assert before <= to_ms(letter.pop("seen_time")) <= now_ms()
    assert letter == {
        "source_topic": "rack-readings",
        "partition": 0,
        "offset": 0,
        "value": '{"rack_id": 7}',
        "value_base64": "eyJyYWNrX2lkIjogN30=",
        "value_size": 14,
        "error": "rack_id is not text",
    }
    assert {*letter, "seen_time"} == set(spark_schema(DeadLetter).names)


@pytest.mark.parametrize("name", VALUES)
def test_the_size_is_that_of_the_value_as_it_came(letters: dict[str, dict[str, Any]], name: str) -> None:
    assert letters[name]["value_size"] == len(VALUES[name] or b"")


@pytest.mark.parametrize("name", [name for name in VALUES if name != "none"])
def test_the_bytes_are_there_up_to_65536_characters_of_base64(
    letters: dict[str, dict[str, Any]], name: str
) -> None:
    encoded = letters[name]["value_base64"]
    assert base64.b64decode(encoded, validate=True) == (VALUES[name] or b"")[: KIB_64 // 4 * 3]
    assert len(encoded) <= KIB_64


@pytest.mark.parametrize("name", VALUES)
def test_the_text_is_the_longest_start_of_whole_characters_within_64_kib(
    letters: dict[str, dict[str, Any]], name: str
) -> None:
    value = VALUES[name]
    try:
        text = None if value is None else value.decode()
    except UnicodeDecodeError:
        text = None
    expected = None if text is None else text.encode()[:KIB_64].decode(errors="ignore")
    assert letters[name]["value"] == expected


def test_no_value_is_told_from_an_empty_one(letters: dict[str, dict[str, Any]]) -> None:
    assert (letters["none"]["value"], letters["none"]["value_base64"]) == (None, None)
    assert (letters["empty"]["value"], letters["empty"]["value_base64"]) == ("", "")


def test_a_key_of_any_kind_is_kept_and_a_huge_one_is_cut(spark: SparkSession) -> None:
    keys = [None, b"", b"\xff\xfe", b"k" * 100_000]
    raw = kafka_table(spark, [b"x"] * len(keys), keys).withColumn("error", F.lit("e"))
    found = [
        row["key"] if row["key"] is None else bytes(row["key"]) for row in dead_letters(raw, "t").collect()
    ]
    assert found == [None, b"", b"\xff\xfe", b"k" * KIB_64]


def test_a_letter_is_below_the_brokers_limit_whatever_it_escapes_to(
    letters: dict[str, dict[str, Any]],
) -> None:
    escaped = json.dumps(letters["control characters"])
    assert len(escaped) > 6 * KIB_64
    assert len(escaped) + KIB_64 < 900_000  # and a key
