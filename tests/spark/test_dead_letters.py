"""Dead letters hold a record's bytes as they came, cut so that they always fit."""

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.records import (
    AdClick,
    AdImpression,
    Alert,
    DeadLetter,
    Event,
    RackReading,
    UserAction,
    encode,
)
from events.spark_schemas import spark_schema
from events.times import now_ms, to_ms
from events.topics import DEAD_LETTERS, EVENT_TOPICS, Topic
from events.triggers import Trigger
from producer.malformed import corrupt, default_kinds
from spark_jobs.registry import JOBS
from spark_jobs.rules.framework.bucketed_readings import Buckets
from spark_jobs.rules.overheating.buckets import READINGS
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.parsing import parse, readable
from spark_jobs.runtime.parsing.batches import Batches
from spark_jobs.runtime.plan_input import plan_input
from spark_jobs.storage.dead_letters import dead_letters, set_aside
from tests.builders import action, alert_value, click, impression, reading
from tests.spark.kafka_tables import READERS, Reader, kafka_table, with_field
from tests.spark.strict_reader import RepeatedFieldError, strictly_read
from tests.spark.test_parsing import CASES
from tests.spark.test_parsing_damaged import mutant

CLICKSTREAM: list[Event] = [impression(), click(), action(action="purchase", amount=Decimal(1))]
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
def dead_letter_of(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """Return the dead letter of each value, by the value's name."""
    raw = kafka_table(spark, list(VALUES.values()))
    rows = dead_letters(set_aside(raw, RackReading), "rack-readings").collect()
    return {
        list(VALUES)[json.loads(row["value"])["offset"]]: json.loads(row["value"]) for row in rows
    }


def test_a_dead_letter_has_the_fields_of_the_contract_and_the_key_of_its_source(
    spark: SparkSession,
) -> None:
    raw = kafka_table(spark, [b'{"rack_id": 7}'], [b"rack-0007"])
    before = now_ms()
    (row,) = dead_letters(set_aside(raw, RackReading), "rack-readings").collect()
    assert bytes(row["key"]) == b"rack-0007"
    dead_letter = json.loads(row["value"])
    assert before <= to_ms(dead_letter.pop("seen_time")) <= now_ms()
    assert dead_letter == {
        "source_topic": "rack-readings",
        "partition": 0,
        "offset": 0,
        "reason": "unreadable",
        "value": '{"rack_id": 7}',
        "value_base64": "eyJyYWNrX2lkIjogN30=",
        "value_size": 14,
        "error": "event_id is missing",
    }
    assert {*dead_letter, "seen_time"} == set(spark_schema(DeadLetter).names)


def test_the_size_is_that_of_the_whole_value(dead_letter_of: dict[str, dict[str, Any]]) -> None:
    sizes = {name: dead_letter["value_size"] for name, dead_letter in dead_letter_of.items()}
    assert sizes == {name: len(value or b"") for name, value in VALUES.items()}


def test_the_bytes_are_kept_up_to_65536_characters_of_base64(
    dead_letter_of: dict[str, dict[str, Any]],
) -> None:
    encoded = {name: dead_letter_of[name]["value_base64"] for name in VALUES if name != "none"}
    wrong = [
        name
        for name, text in encoded.items()
        if base64.b64decode(text, validate=True) != (VALUES[name] or b"")[: KIB_64 // 4 * 3]
    ]
    assert wrong == []
    assert max(map(len, encoded.values())) <= KIB_64


def test_the_text_is_the_longest_start_of_whole_characters_within_64_kib(
    dead_letter_of: dict[str, dict[str, Any]],
) -> None:
    wrong = [
        name
        for name, value in VALUES.items()
        if dead_letter_of[name]["value"] != longest_text(value)
    ]
    assert wrong == []


def longest_text(value: bytes | None) -> str | None:
    """Return the text of at most 64 KiB that a dead letter must have."""
    try:
        text = None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
    return None if text is None else text.encode()[:KIB_64].decode(errors="ignore")


def test_a_null_value_differs_from_an_empty_one(dead_letter_of: dict[str, dict[str, Any]]) -> None:
    assert (dead_letter_of["none"]["value"], dead_letter_of["none"]["value_base64"]) == (None, None)
    assert (dead_letter_of["empty"]["value"], dead_letter_of["empty"]["value_base64"]) == ("", "")


def test_any_key_is_kept_and_a_huge_one_is_cut(spark: SparkSession) -> None:
    keys = [None, b"", b"\xff\xfe", b"k" * 100_000]
    raw = set_aside(kafka_table(spark, [b"x"] * len(keys), keys), RackReading)
    found = [
        row["key"] if row["key"] is None else bytes(row["key"])
        for row in dead_letters(raw, "t").collect()
    ]
    assert found == [None, b"", b"\xff\xfe", b"k" * KIB_64]


def test_a_dead_letter_fits_below_the_brokers_limit_whatever_it_escapes_to(
    dead_letter_of: dict[str, dict[str, Any]],
) -> None:
    escaped = json.dumps(dead_letter_of["control characters"])
    assert len(escaped) > 6 * KIB_64
    assert len(escaped) + KIB_64 < 900_000  # and a key


def reported(raw: DataFrame, record: type[msgspec.Struct]) -> dict[int, tuple[str, str]]:
    """Return reason and error of each dead letter by its offset."""
    rows = set_aside(raw, record).select("offset", "reason", "error").orderBy("offset").collect()
    return {row["offset"]: (row["reason"], row["error"]) for row in rows}


def bucketed_offsets(raw: DataFrame) -> list[int]:
    """Return the offsets of the readings in the plan of buckets."""
    found = []
    buckets = Buckets(READINGS)
    for row in buckets.read(readable(parse(raw, RackReading, batches=buckets.batches()))).collect():
        if row["readings"] is not None:
            found += pa.ipc.open_stream(row["readings"]).read_all()["offset"].to_pylist()
        else:
            found.append(json.loads(row["fallback_row"])["offset"])
    return found


def batched_offsets(raw: DataFrame) -> list[int]:
    """Return the offsets of the readings that a plan of batches by event time uses."""
    batches = Batches(
        fields=("event_time",),
        convert=lambda readings: readings.select(["offset"]),
        row=T.StructType().add("offset", T.LongType()),
    )
    parsed = parse(raw, RackReading, batches=batches, by_event_time=True)
    used = readable(parsed, by_event_time=True)
    return [row[0] for row in used.select(F.coalesce("batch.offset", "offset")).collect()]


def parsed_offsets(reader: Reader) -> Callable[[DataFrame, type[Event]], list[int]]:
    def offsets(raw: DataFrame, record: type[Event]) -> list[int]:
        return [row["offset"] for row in readable(reader(raw, record)).select("offset").collect()]

    return offsets


READ: dict[str, Callable[[DataFrame, type[Event]], list[int]]] = {
    **{reader.__name__: parsed_offsets(reader) for reader in READERS},
    "some fields": parsed_offsets(
        lambda raw, record: parse(raw, record, fields=("rack_id", "temperature_c"))
    ),
    "batches by event time": lambda raw, _: batched_offsets(raw),
    "buckets": lambda raw, record: bucketed_offsets(raw) if record is RackReading else [],
}


@pytest.mark.parametrize("way", READ)
def test_a_record_is_used_by_the_jobs_or_reported_as_unreadable(
    spark: SparkSession, way: str
) -> None:
    random, values = Random(7), [value for value, _ in CASES.values()]
    raw = kafka_table(spark, [*values, *(mutant(random) for _ in range(500))])
    used = READ[way](raw, RackReading)
    reasons = reported(raw, RackReading)
    left_out = {"unreadable", "future"} if way == "batches by event time" else {"unreadable"}
    dead = [offset for offset, (reason, _) in reasons.items() if reason in left_out]
    assert sorted(used + dead) == list(range(raw.count()))
    assert min(len(used), len(dead)) > 50


WHOLE: dict[type[msgspec.Struct], list[bytes]] = {
    AdImpression: [encode(impression())],
    AdClick: [encode(click())],
    UserAction: [encode(action()), encode(action(amount=Decimal("12.50")))],
    Alert: [alert_value(1)],
}


FIELD_VALUES = rb'null true 7 -1 12.505 1e999 "" "7" "view" {} [] "2026-02-30T00:00:00Z"'.split()
"""What each field gets in turn: hardly a field allows all of them."""


def ways_of_jobs() -> dict[str, tuple[ConfiguredJob, Topic]]:
    """Return a job and a topic for each way in which jobs read such records."""
    ways: dict[str, tuple[ConfiguredJob, Topic]] = {}
    for job in JOBS.values():
        if job.sink not in (None, DEAD_LETTERS):  # `archive` keeps all, `dead_letters` reports
            one = ConfiguredJob(job, job.options(), Trigger.MICRO_BATCH)
            for topic in job.sources:
                if topic.record in WHOLE:
                    fields = ",".join(one.plan.fields or ["all"])
                    ways[f"{topic.name} {fields} {job.by_event_time}"] = one, topic
    assert {topic.record for _, topic in ways.values()} == WHOLE.keys()
    return ways


WAYS = ways_of_jobs()


def is_valid(value: bytes, topic: Topic) -> bool | None:
    """Tell whether a strict reader accepts a value; None where nothing says what is right."""
    try:
        strictly_read(value, topic.name)
    except RepeatedFieldError:
        return None
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_event_or_alert_is_used_by_its_jobs_or_reported(
    spark: SparkSession, way: str
) -> None:
    configured, topic = WAYS[way]
    assert topic.record is not None
    random, whole = Random(7), WHOLE[topic.record]
    values = [*whole, *(mutant(random, random.choice(whole)) for _ in range(400))]
    values += [
        with_field(name, fragment, one)
        for one in whole
        for name in json.loads(one)
        for fragment in (*FIELD_VALUES, b'"%s"' % ("é" * 129).encode())
    ]
    raw = kafka_table(spark, values)
    rows = plan_input(configured, topic, raw).select("offset").collect()
    used, dead = [row["offset"] for row in rows], list(reported(raw, topic.record))
    assert sorted(used + dead) == list(range(len(values)))
    valid = [is_valid(value, topic) for value in values]
    assert {n for n in used if valid[n] is False} | {n for n in dead if valid[n]} == set()
    assert min(len(used), len(dead)) > 20


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("event", CLICKSTREAM, ids=lambda event: type(event).__name__)
def test_each_corrupted_event_is_reported_and_each_other_is_used(
    spark: SparkSession, reader: Reader, event: Event
) -> None:
    record = type(event)
    (topic,) = (topic for topic in EVENT_TOPICS if topic.record is record)
    kinds = default_kinds(topic)
    raw = kafka_table(spark, [encode(event), *(corrupt(event, kind) for kind in kinds)])
    reasons = [reason for reason, _ in reported(raw, record).values()]
    assert parsed_offsets(reader)(raw, record) == [0]
    assert reasons == ["unreadable"] * len(kinds)


def test_an_event_of_the_future_is_reported_and_still_counted_by_sequence(
    spark: SparkSession,
) -> None:
    future = with_field("event_time", '"2026-11-18T12:05:00.001Z"')
    raw = kafka_table(spark, [encode(reading(1)), future])
    assert reported(raw, RackReading) == {
        1: (
            "future",
            "event_time is more than 5 minutes ahead of the append time: event-time jobs leave it "
            "out, rules by sequence or append time count the reading",
        )
    }
    assert bucketed_offsets(raw) == [0, 1]
    future_click = encode(click(event_time="2026-11-18T12:06:00Z"))
    ((_, error),) = reported(kafka_table(spark, [future_click]), AdClick).values()
    assert error.endswith(" append time: event-time jobs leave it out")


def test_of_alerts_only_what_cannot_be_read_is_reported(spark: SparkSession) -> None:
    future = alert_value(2, event_time="2036-11-18T12:05:00.001Z")
    raw = kafka_table(spark, [alert_value(1), future, b"{"])
    assert reported(raw, Alert) == {2: ("unreadable", "the value is not one JSON object")}
