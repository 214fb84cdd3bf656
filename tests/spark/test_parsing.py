"""Which values can be read, and the sentence for each that cannot."""

import json

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from events.records import AdImpression, RackReading, encode
from spark_jobs.runtime.parsing import readable
from spark_jobs.runtime.parsing._arrow import parse_with_arrow
from spark_jobs.runtime.parsing._canonical import non_canonical
from spark_jobs.storage.dead_letters import set_aside
from tests.builders import reading
from tests.spark.kafka_tables import READERS, Reader, both_readers, kafka_table, with_field, without
from tests.spark.rack_histories import COLD

GOOD = encode(reading(1, COLD))
NOT_AN_OBJECT = "the value is not one JSON object"
NOT_UTF8 = "the value is not UTF-8"
EMPTY = "the value is empty"
NO_TEMPERATURE = "temperature_c is missing or not a number"
NO_SEQUENCE = "sequence is missing or not an integer"
NO_TIME = "event_time is not a time in UTC ending in Z"


CASES: dict[str, tuple[bytes | None, str | None]] = {
    "a reading": (GOOD, None),
    "blanks around": (b" \t\r\n" + GOOD + b"\r\n ", None),
    "an unknown field": (with_field("room", '{"a":[1,{"b":null}],"c":"}"}'), None),
    "an unknown field with a lone surrogate": (with_field("room", r'"\ud800"'), None),
    "a megabyte of blanks": (GOOD + b" " * 1_000_000, None),
    "a megabyte in an unknown field": (with_field("room", b'"' + b"x" * 1_000_000 + b'"'), None),
    "an unknown field 900 lists deep": (with_field("room", "[" * 900 + "]" * 900), None),
    "an unknown field too deep for Jackson": (
        with_field("room", "[" * 2000 + "]" * 2000),
        NOT_AN_OBJECT,
    ),
    "an escaped field name": (GOOD.replace(b'"rack_id"', rb'"rack\u005fid"'), None),
    # Not JSON
    "no value": (None, EMPTY),
    "an empty value": (b"", EMPTY),
    "blanks": (b"   ", NOT_AN_OBJECT),
    "text": (b"overheated!", NOT_AN_OBJECT),
    "cut off": (GOOD[:-20], NOT_AN_OBJECT),
    "broken inside an optional field": (with_field("scheduled_time", '{"a":}')[:-1], NOT_AN_OBJECT),
    "broken inside an optional text": (
        with_field("scheduled_time", r'"\q,"room":1'),
        NOT_AN_OBJECT,
    ),
    "without its last brace": (GOOD[:-1], NOT_AN_OBJECT),
    "with one brace more": (GOOD + b"}", NOT_AN_OBJECT),
    "followed by text": (GOOD + b" x", NOT_AN_OBJECT),
    "followed by another": (GOOD + b"\n" + GOOD, NOT_AN_OBJECT),
    "followed by a field": (GOOD + b',"x":1', NOT_AN_OBJECT),
    "closing the parser's envelope": (GOOD + b',"complete":true} trailing', NOT_AN_OBJECT),
    "closing a list and what is around it": (
        GOOD + b',{"complete":true}]} trailing',
        NOT_AN_OBJECT,
    ),
    "followed by what parsers wait for": (GOOD + b',{"sentinel":1}]} trailing', NOT_AN_OBJECT),
    "a closing bracket": (b"]", NOT_AN_OBJECT),
    "closing brackets": (b"]}", NOT_AN_OBJECT),
    "a comma": (b",", NOT_AN_OBJECT),
    "following a field": (b'1,"record":' + GOOD, NOT_AN_OBJECT),
    "closing a list": (GOOD + b"] trailing", NOT_AN_OBJECT),
    "in a list": (b"[" + GOOD + b"]", NOT_AN_OBJECT),
    "in text": (json.dumps(GOOD.decode()).encode(), NOT_AN_OBJECT),
    "null itself": (b"null", NOT_AN_OBJECT),
    "a number": (b"5", NOT_AN_OBJECT),
    "900,000 braces": (GOOD.ljust(900_000, b"}"), NOT_AN_OBJECT),
    "after a byte order mark": (b"\xef\xbb\xbf" + GOOD, NOT_AN_OBJECT),
    "single quotes": (GOOD.replace(b'"', b"'"), NOT_AN_OBJECT),
    "a comment": (GOOD[:-1] + b"/* hot */}", NOT_AN_OBJECT),
    "a comma too many": (GOOD[:-1] + b",}", NOT_AN_OBJECT),
    "an unquoted name": (GOOD.replace(b'"rack_id"', b"rack_id"), NOT_AN_OBJECT),
    "a control character": (GOOD.replace(b"site-a", b"site\x01"), NOT_AN_OBJECT),
    "a tab in text": (GOOD.replace(b"site-a", b"site\t"), NOT_AN_OBJECT),
    "an escape that is none": (GOOD.replace(b"site-a", rb"site\x41"), NOT_AN_OBJECT),
    # Not UTF-8
    "a byte that is no UTF-8": (GOOD.replace(b"site-a", b"site-\xff"), NOT_UTF8),
    "a surrogate in UTF-8": (GOOD.replace(b"site-a", b"\xed\xa0\x80"), NOT_UTF8),
    "an overlong zero": (GOOD.replace(b"site-a", b"\xc0\x80"), NOT_UTF8),
    "half a character": (GOOD.replace(b"site-a", "é".encode()[:1]), NOT_UTF8),
    "UTF-16": (GOOD.decode().encode("utf-16"), NOT_UTF8),
    "a character of four bytes": (GOOD.replace(b"site-a", "🔥".encode()), None),
    # Text
    "no rack": (without("rack_id"), "rack_id is missing"),
    "rack null": (with_field("rack_id", "null"), "rack_id is missing"),
    "rack in capitals": (GOOD.replace(b'"rack_id"', b'"RACK_ID"'), "rack_id is missing"),
    "rack a number": (with_field("rack_id", "7"), "rack_id is not text"),
    "rack a negative fraction": (with_field("rack_id", "-7.5"), "rack_id is not text"),
    "rack true": (with_field("rack_id", "true"), "rack_id is not text"),
    "rack false": (with_field("rack_id", "false"), "rack_id is not text"),
    "rack beyond numbers": (with_field("rack_id", "-1e999"), "rack_id is not text"),
    "rack an object": (with_field("rack_id", '{"id":"rack-0001"}'), "rack_id is not text"),
    "rack a list": (with_field("rack_id", '["rack-0001"]'), "rack_id is not text"),
    "rack NaN": (with_field("rack_id", "NaN"), NOT_AN_OBJECT),
    "rack with a lone surrogate": (with_field("rack_id", r'"\ud800"'), "rack_id is not text"),
    "device a number, the rest text": (with_field("device_type", "7"), "device_type is not text"),
    "rack that looks like a number": (with_field("rack_id", '"7"'), None),
    "rack a number, its text in an object": (
        with_field("rack_id", '7,"x":{"rack_id":"7"}'),
        "rack_id is not text",
    ),
    "rack a number, its text in another's name": (
        with_field("rack_id", r'7,"x\"rack_id":"7"'),
        "rack_id is not text",
    ),
    "rack a text, then the same as a number": (
        with_field("rack_id", '"7","rack_id":7'),
        "rack_id is not text",
    ),
    "rack a number, then the same as a text": (with_field("rack_id", '7,"rack_id":"7"'), None),
    "rack that looks like a number behind a space": (with_field("rack_id", ' "7"'), None),
    "rack that looks negative": (with_field("rack_id", '"-7.5"'), None),
    "rack that looks true": (with_field("rack_id", '"true"'), None),
    "rack that looks null": (with_field("rack_id", '"null"'), None),
    "rack that looks like an object": (with_field("rack_id", r'"{\"a\":1}"'), None),
    "rack of a surrogate pair": (with_field("rack_id", r'"\ud83d\udd25"'), None),
    "rack of a NUL": (with_field("rack_id", r'"\u0000"'), None),
    "rack with quotes": (with_field("rack_id", r'"\"Infinity\""'), None),
    "rack empty": (with_field("rack_id", '""'), None),
    "rack of 256 bytes": (with_field("rack_id", '"' + "r" * 256 + '"'), None),
    "rack of 257 bytes": (
        with_field("rack_id", '"' + "r" * 257 + '"'),
        "rack_id is over 256 bytes",
    ),
    "rack of 128 characters, 256 bytes": (with_field("rack_id", '"' + "é" * 128 + '"'), None),
    "rack of 129 characters, 258 bytes": (
        with_field("rack_id", '"' + "é" * 129 + '"'),
        "rack_id is over 256 bytes",
    ),
    "event of a megabyte": (
        with_field("event_id", '"' + "x" * 1_000_000 + '"'),
        "event_id is over 256 bytes",
    ),
    # Numbers
    "temperature whole": (with_field("temperature_c", "71"), None),
    "temperature with exponent": (with_field("temperature_c", "7.1E+1"), None),
    "temperature minus zero": (with_field("temperature_c", "-0"), None),
    "temperature text": (with_field("temperature_c", '"71.5"'), NO_TEMPERATURE),
    "temperature NaN in text": (with_field("temperature_c", '"NaN"'), NO_TEMPERATURE),
    "temperature infinite in text": (
        with_field("temperature_c", '"-Infinity"'),
        NO_TEMPERATURE,
    ),
    "temperature null": (with_field("temperature_c", "null"), NO_TEMPERATURE),
    "temperature true": (with_field("temperature_c", "true"), NO_TEMPERATURE),
    "temperature in a list": (with_field("temperature_c", "[71.5]"), NO_TEMPERATURE),
    "no temperature": (without("temperature_c"), NO_TEMPERATURE),
    "temperature NaN": (with_field("temperature_c", "NaN"), NOT_AN_OBJECT),
    "temperature infinite": (with_field("temperature_c", "-Infinity"), NOT_AN_OBJECT),
    "temperature beyond numbers": (
        with_field("temperature_c", "1e999"),
        "temperature_c is not finite",
    ),
    "temperature of 400 digits": (
        with_field("temperature_c", "1" * 400),
        "temperature_c is not finite",
    ),
    "signal below all numbers": (
        with_field("signal_strength", "-1e999"),
        "signal_strength is not finite",
    ),
    "temperature without its zero": (with_field("temperature_c", ".5"), NOT_AN_OBJECT),
    "sequence the largest": (with_field("sequence", "9223372036854775807"), None),
    "sequence the smallest": (with_field("sequence", "-9223372036854775808"), None),
    "sequence one larger": (with_field("sequence", "9223372036854775808"), NO_SEQUENCE),
    "sequence with a fraction": (with_field("sequence", "7.0"), NO_SEQUENCE),
    "sequence with exponent": (with_field("sequence", "7e0"), NO_SEQUENCE),
    "sequence text": (with_field("sequence", '"7"'), NO_SEQUENCE),
    "sequence true": (with_field("sequence", "true"), NO_SEQUENCE),
    "sequence null": (with_field("sequence", "null"), NO_SEQUENCE),
    "sequence with a leading zero": (with_field("sequence", "07"), NOT_AN_OBJECT),
    "sequence with a plus": (with_field("sequence", "+7"), NOT_AN_OBJECT),
    # Times
    "time without Z": (with_field("event_time", '"2026-11-21T06:26:00.123"'), NO_TIME),
    "time with an offset": (with_field("event_time", '"2026-11-21T06:26:00.123+00:00"'), NO_TIME),
    "time with a blank": (with_field("event_time", '"2026-11-21 06:26:00Z"'), NO_TIME),
    "time with a newline": (with_field("event_time", r'"2026-11-21T06:26:00Z\n"'), NO_TIME),
    "time in small letters": (with_field("event_time", '"2026-11-21t06:26:00z"'), NO_TIME),
    "time in other digits": (with_field("event_time", '"٢٠٢٦-11-21T06:26:00Z"'), NO_TIME),
    "time to 100 ns": (with_field("event_time", '"2026-11-21T06:26:00.1234567Z"'), NO_TIME),
    "time to the microsecond": (with_field("event_time", '"2026-11-21T06:26:00.123456Z"'), None),
    "time to the second": (with_field("event_time", '"2026-11-21T06:26:00Z"'), None),
    "30 February": (with_field("event_time", '"2026-02-30T06:26:00Z"'), NO_TIME),
    "29 February of a leap year": (with_field("event_time", '"2024-02-29T06:26:00Z"'), None),
    "29 February of another year": (with_field("event_time", '"2026-02-29T06:26:00Z"'), NO_TIME),
    "hour 24": (with_field("event_time", '"2026-11-21T24:00:00Z"'), NO_TIME),
    "second 60": (with_field("event_time", '"2016-12-31T23:59:60Z"'), NO_TIME),
    "year 0": (with_field("event_time", '"0000-01-01T00:00:00Z"'), NO_TIME),
    "year 1": (with_field("event_time", '"0001-01-01T00:00:00Z"'), None),
    "year 9999": (with_field("event_time", '"9999-12-31T23:59:59.999Z"'), None),
    "time a number": (with_field("event_time", "1795000000"), NO_TIME),
    "time null": (with_field("event_time", "null"), "event_time is missing"),
    "no time": (without("event_time"), "event_time is missing"),
    "scheduled": (with_field("scheduled_time", '"2026-11-21T06:26:00.000Z"'), None),
    "scheduled null": (with_field("scheduled_time", "null"), None),
    "scheduled soon": (
        with_field("scheduled_time", '"soon"'),
        "scheduled_time is not a time in UTC ending in Z",
    ),
    "scheduled a number": (
        with_field("scheduled_time", "5"),
        "scheduled_time is not a time in UTC ending in Z",
    ),
    # One name twice: the last of two good values counts
    "sequence twice": (GOOD[:-1] + b',"sequence":5}', None),
    "sequence twice, one text": (GOOD[:-1] + b',"sequence":"5"}', NOT_AN_OBJECT),
    "rack twice, then a number": (GOOD[:-1] + b',"rack_id":5}', "rack_id is not text"),
    "rack a number, then again": (b'{"rack_id":5,' + GOOD[1:], None),
    # The sentence is that of the first of several faults
    "nothing in it": (b"{}", "event_id is missing"),
    "two faults": (with_field("rack_id", "7").replace(b"Z", b""), NO_TIME),
}


@pytest.fixture(scope="module", params=READERS)
def parsed(spark: SparkSession, request: pytest.FixtureRequest) -> DataFrame:
    """Return all cases, parsed; a row's offset is the index of its case."""
    reader: Reader = request.param
    return reader(kafka_table(spark, [value for value, _ in CASES.values()]), RackReading).cache()


@pytest.fixture(scope="module")
def errors(parsed: DataFrame) -> dict[str, str | None]:
    rows = parsed.select("offset", "error").collect()
    return {list(CASES)[row["offset"]]: row["error"] for row in rows}


def test_each_value_is_read_or_has_the_sentence_that_says_why_not(
    errors: dict[str, str | None],
) -> None:
    assert errors == {name: sentence for name, (_, sentence) in CASES.items()}


def test_a_job_uses_the_values_without_an_error(parsed: DataFrame) -> None:
    used = [row["offset"] for row in readable(parsed).select("offset").collect()]
    assert used == [at for at, (_, sentence) in enumerate(CASES.values()) if sentence is None]
    assert "error" not in readable(parsed).columns


def test_a_reading_has_typed_fields_and_kafkas_columns(
    parsed: DataFrame,
) -> None:
    (row,) = (
        readable(parsed)
        .where(F.col("offset") == 0)
        .select("*", F.unix_millis("event_time"))
        .collect()
    )
    assert row.asDict() | {"event_time": None, "timestamp": None} == {
        **dict.fromkeys(RackReading.__struct_fields__),
        "key": b"rack-0001",
        "value": GOOD,
        "partition": 0,
        "offset": 0,
        "timestamp": None,
        "event_id": "rack-0001/1",
        "event_time": None,
        "unix_millis(event_time)": 1_795_000_001_000,
        "rack_id": "rack-0001",
        "sequence": 1,
        "site_id": "site-a",
        "device_type": "gpu-server",
        "temperature_c": 70.0,
        "signal_strength": 0.9,
        "scheduled_time": None,
    }


@both_readers
def test_free_text_has_no_limit_but_must_be_text(spark: SparkSession, reader: Reader) -> None:
    fields = dict.fromkeys(("event_id", "impression_id", "ad_id", "user_id"), "x")
    fields["event_time"] = "2026-11-21T06:26:00.123Z"
    values = [json.dumps(fields | {"page": page}).encode() for page in ("/" * 5000, 7)]
    errors = [row["error"] for row in reader(kafka_table(spark, values), AdImpression).collect()]
    assert errors == [None, "page is not text"]


@both_readers
def test_only_jobs_by_event_time_leave_out_an_event_more_than_five_minutes_ahead(
    spark: SparkSession, reader: Reader
) -> None:
    times = ["12:05:00.000Z", "12:05:00.001Z", "11:00:00.000Z"]
    values = [with_field("event_time", f'"2026-11-18T{time}"') for time in times]
    values += [with_field("event_time", '"1999-01-01T00:00:00Z"'), b"{"]
    parsed = reader(kafka_table(spark, values), RackReading)
    used = [
        [row["offset"] for row in readable(parsed, by_event_time=by_event_time).collect()]
        for by_event_time in (True, False)
    ]
    assert used == [[0, 2, 3], [0, 1, 2, 3]]


def test_non_canonical_records_include_all_dead_letters_and_little_else(
    spark: SparkSession,
) -> None:
    future = [
        with_field("event_time", f'"2026-11-18T{time}Z"') for time in ("12:05:00.001", "12:04:00")
    ]
    table = kafka_table(spark, [*(value for value, _ in CASES.values()), *future, *[GOOD] * 500])
    rows = set_aside(table, RackReading).select("offset", "reason").collect()
    found = {row["offset"]: row["reason"] for row in rows}
    unreadable = {at for at, (_, sentence) in enumerate(CASES.values()) if sentence}
    assert {at for at, reason in found.items() if reason == "unreadable"} == unreadable
    assert (found[len(CASES)], found.get(len(CASES) + 1)) == ("future", None)
    assert len(found) < non_canonical(table, RackReading).count() < len(CASES) + 5


@both_readers
def test_a_value_is_parsed_once(spark: SparkSession, reader: Reader) -> None:
    good = readable(reader(kafka_table(spark, [GOOD]), RackReading))
    averages = good.groupBy("rack_id").agg(F.avg("temperature_c"), F.max("event_time"))
    plan = averages._jdf.queryExecution().executedPlan().toString()
    assert plan.count("StructField(temperature_c,DoubleType") == 1, plan
    assert plan.count("ArrowEvalPython ") == (reader is parse_with_arrow), plan
