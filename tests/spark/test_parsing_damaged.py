"""Readings with damaged bytes: the parsers' verdict against a strict reader of the test's own."""

import json
from random import Random, SystemRandom
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from events.records import RackReading, encode
from spark_jobs.runtime.parsing._arrow import ArrowParser
from spark_jobs.runtime.parsing._strict import parse_strictly
from tests.builders import reading
from tests.spark.kafka_tables import kafka_table, with_field
from tests.spark.rack_histories import COLD
from tests.spark.strict_reader import RepeatedFieldError, strictly_read

GOOD = encode(reading(1, COLD))
NAMES = list(RackReading.__struct_fields__)
TEXTS = ("event_id", "rack_id", "site_id", "device_type")
NUMBERS = ("temperature_c", "signal_strength")
COMPARED = (*TEXTS, "sequence", *NUMBERS)
FRAGMENTS = [
    *b"{ } [ ] , : \" \\ ' - 0 7 . e \n \t \x00 \x1f \x7f \xff \xc3 \xed\xa0\x80 / +".split(b" "),
    *(text.encode() for text in (" ", "é", '"é"', "🔥", "\ufeff", "\u2028")),
    *rb"\u0041 \ud800 \udc00\ud800 \n \q \" null true false NaN -Infinity".split(),
    *rb'1e999 1e5 -0 "" "7" {} []'.split(),
    *rb'-1 12.505 "12.50" "view" "purchase" "steal"'.split(),
    *rb',"x":1 ,"x":{"y":[1,2]} ,"x":"}" ,"complete":true} ,{"complete":true}]}'.split(),
    *rb'],"x":[1 1,"record":'.split(),
    *rb']} "sequence":3, {"a":'.split(),
    *b'"rack_id" "event_time" "2026-02-30T00:00:00Z" "2026-11-21T06:26:00Z" Z // /**/'.split(),
]


def mutant(random: Random, good: bytes = GOOD) -> bytes:
    """Return a record, by default a reading, with up to three damages to its bytes or one field."""
    value, fields = good, [*json.loads(good), "scheduled_time", "room"]
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        at, fragment = random.randrange(len(value) + 1), random.choice(FRAGMENTS)
        match random.randrange(7):
            case 0:
                value = value[:at] + fragment + value[at:]
            case 1:
                value = value[:at] + value[at + random.choice([1, 1, 2, 8]) :]
            case 2:
                value = value[:at] + fragment + value[at + len(fragment) :]
            case 3:
                value += fragment
            case 4:
                value = fragment + value
            case 5 if value == good:
                value = with_field(random.choice(fields), fragment, good)
            case 6:
                value = value.replace(random.choice([b'"', b",", b":", b"-", b"1"]), fragment, 1)
    return value


@pytest.fixture
def seed() -> int:
    """Return a seed that is new in each run; pytest names it when the test fails."""
    return SystemRandom().randrange(2**32)


@pytest.mark.full
def test_the_strict_parser_agrees_with_a_strict_reader_on_damaged_readings(
    spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    values = list({mutant(random) for _ in range(15_000)})
    parsed = parse_strictly(kafka_table(spark, values), RackReading)
    rows = parsed.drop("event_time", "scheduled_time", "key").collect()
    wrong, good = [], 0
    for row in rows:
        value = bytes(row["value"])
        expected: dict[str, Any] | None
        try:
            read = strictly_read(value)
            expected = {name: read[name] for name in (*TEXTS, "sequence")}
            expected |= {name: float(read[name]) for name in NUMBERS}
        except RepeatedFieldError:
            continue
        except ValueError:
            expected = None
        found = None if row["error"] else {name: row[name] for name in COMPARED}
        good += found is not None
        if found != expected:
            wrong.append((value, row["error"], expected))
    assert not wrong, min(wrong, key=lambda one: len(one[0]))
    assert 300 < good < len(values) - 300, "the mutants must be of both kinds"


@pytest.mark.full
def test_what_the_arrow_parser_accepts_the_strict_parser_reads_alike(
    spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    values = [GOOD, *TRICKY, *{mutant(random) for _ in range(7500)}, *dated(random)]
    good, fields = ArrowParser(RackReading).parse(pa.array(values, pa.binary()), NAMES)
    surely = [value for value, is_good in zip(values, good.to_pylist(), strict=True) if is_good]
    columns = [
        F.unix_micros(name).alias(name) if name.endswith("_time") else F.col(name) for name in NAMES
    ]
    parsed = parse_strictly(kafka_table(spark, surely), RackReading).orderBy("offset")
    rows = [row.asDict() for row in parsed.select("error", *columns).collect()]
    micros = [
        fields[name].cast(pa.int64()) if name.endswith("_time") else fields[name] for name in NAMES
    ]
    found = [{"error": None} | of for of in pa.table(micros, names=NAMES).to_pylist()]
    differing = [
        (value, row, of)
        for value, row, of in zip(surely, rows, found, strict=True)
        if repr(row) != repr(of)
    ]
    assert not differing, min(differing, key=lambda one: len(one[0]))
    assert good[0].as_py()
    assert 240 < len(surely) < len(values) - 240, "the mutants must be of both kinds"


TRICKY = [
    with_field("room", b'"\xff"'),
    with_field("room", b'"\xed\xa0\x80"'),
    with_field("\xff", b"1"),
    with_field("room", rb'"\ud800"'),
    with_field("room", b"1e999"),
    with_field("room", b"1" * 1100),
    with_field("room", b"[" * 1100 + b"]" * 1100),
    with_field("rack_id", '"%s"' % ("é" * 129)),
    with_field("rack_id", '"%s"' % ("é" * 128)),
    with_field("sequence", str(2**63)),
    with_field("sequence", str(-(2**63))),
    with_field("sequence", "1.0"),
    with_field("temperature_c", "5"),
    with_field("temperature_c", "1e999"),
    with_field("temperature_c", "1e-999"),
    with_field("scheduled_time", "null"),
    with_field("event_time", '"2024-02-29T00:00:00Z"'),
    with_field("event_time", '"2026-11-21T06:26:00Z\\n"'),
    with_field("event_time", '"2026-11-21T24:00:00Z"'),
    b" " + GOOD + b"\n",
    b"\xef\xbb\xbf" + GOOD,
    GOOD + GOOD,
    b"[" + GOOD + b"]",
    GOOD[:-1] + b',"sequence":7}',
    GOOD[:-1] + b',"sequence":null}',
    b'{"sequence":null,' + GOOD[1:],
    b'{"sequence":"a",' + GOOD[1:],
]


def dated(random: Random) -> list[bytes]:
    """Return readings whose time is almost valid."""
    digits = [*b"0123456789", *b"-T:.Z +"]
    times = []
    for _ in range(1200):
        time = bytearray(b"2026-02-28T23:59:59.999999Z")
        for _ in range(random.choice([1, 1, 2])):
            time[random.randrange(len(time))] = random.choice(digits)
        times.append(bytes(time[: random.choice([27, 27, 25, 26])]))
    return [
        with_field(random.choice(["event_time", "scheduled_time"]), b'"%s"' % time)
        for time in times
    ]
