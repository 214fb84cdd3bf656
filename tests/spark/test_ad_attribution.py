"""Impressions joined with clicks: join types, the hour, repeats, watermarks and first clicks."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from events.cli import UserFacingError
from events.records import AdAttribution
from events.triggers import Trigger
from spark_jobs.clickstream.ad_attribution import (
    JOB,
    JOINS,
    Options,
    attributions,
    distinct_clicks,
    distinct_impressions,
    first_clicks,
)
from tests.spark.event_tables import at, clock, events
from tests.spark.file_streams import run_streams

IMPRESSION = (
    "event_id string, event_time string, impression_id string, ad_id string, user_id string"
)
CLICK = (
    "event_id string, event_time string, click_id string, impression_id string, ad_id string, "
    "user_id string"
)
Seen = tuple[str, str]  # when, and the impression's id
Clicked = tuple[str, str, str]  # when, the click's id, and the impression's
Pair = tuple[
    str | None, str | None, str | None, str | None
]  # impression's id and time, click's id and time


def impressions(spark: SparkSession, rows: Sequence[Seen]) -> DataFrame:
    """Return impressions, each with its own `event_id`; two with the same id are copies."""
    return events(
        spark, IMPRESSION, [(uuid4().hex, when, name, "ad-1", "u-1") for when, name in rows]
    )


def clicks(spark: SparkSession, rows: Sequence[Clicked]) -> DataFrame:
    return events(
        spark,
        CLICK,
        [(f"c-{when}-{name}", when, name, of, "ad-1", "u-1") for when, name, of in rows],
    )


def pair(row: dict[str, Any]) -> Pair:
    return (
        row["impression_id"],
        clock(row["impression_time"]),
        row["click_id"],
        clock(row["click_time"]),
    )


def run(
    spark: SparkSession,
    folder: Path,
    seen: Sequence[Sequence[Seen]],
    clicked: Sequence[Sequence[Clicked]],
    join: str = "left",
    *,
    first_only: bool = False,
    watermarks: tuple[str, str] = ("2 hours", "3 hours"),
) -> list[list[Pair]]:
    """Return the rows of each batch that ran."""

    def table(left: DataFrame, right: DataFrame) -> DataFrame:
        distinct = distinct_impressions(left, watermarks[0]), distinct_clicks(right, watermarks[1])
        rows = attributions(*distinct, join)
        return first_clicks(rows) if first_only else rows

    sources = [
        [impressions(spark, rows) for rows in seen],
        [clicks(spark, rows) for rows in clicked],
    ]
    return [[pair(row) for row in batch] for batch in run_streams(spark, folder, sources, table)]


# Every impression is joined with every click on it within the hour.
SEEN: list[Seen] = [
    ("10:00:00", "a"),
    ("10:20:00", "d"),
    ("10:00:00", "b"),
    ("10:00:00", "c"),
]
CLICKED: list[Clicked] = [
    ("10:30:00", "1", "a"),
    ("10:45:00", "6", "a"),
    ("11:10:00", "2", "d"),
    ("11:00:00", "3", "b"),
    ("11:00:00.001", "4", "c"),
    ("10:05:00", "5", "nowhere"),
]
PAIRS: list[Pair] = [
    ("a", "10:00:00", "1", "10:30:00"),
    ("a", "10:00:00", "6", "10:45:00"),
    ("d", "10:20:00", "2", "11:10:00"),
    ("b", "10:00:00", "3", "11:00:00"),
]
UNMATCHED_SEEN: list[Pair] = [("c", "10:00:00", None, None)]
UNMATCHED_CLICKED: list[Pair] = [
    ("c", None, "4", "11:00:00.001"),
    ("nowhere", None, "5", "10:05:00"),
]
ROWS_OF: dict[str, list[Pair]] = {
    "inner": PAIRS,
    "left": PAIRS + UNMATCHED_SEEN,
    "right": PAIRS + UNMATCHED_CLICKED,
    "full": PAIRS + UNMATCHED_SEEN + UNMATCHED_CLICKED,
    "semi": [
        ("a", "10:00:00", None, None),
        ("d", "10:20:00", None, None),
        ("b", "10:00:00", None, None),
    ],
}
# Later events on both sides move the watermark past everything before.
LATER_SEEN, LATER_CLICKED = [("20:00:00", "later")], [("20:00:00", "later", "other")]


def test_every_join_type_has_expected_rows() -> None:
    assert set(ROWS_OF) == set(JOINS)


@pytest.mark.parametrize(
    "join",
    ["left", *(pytest.param(join, marks=pytest.mark.full) for join in ROWS_OF if join != "left")],
)
def test_a_join_gives_pairs_at_once_and_its_unmatched_rows_later(
    spark: SparkSession, tmp_path: Path, join: str
) -> None:
    first, *rest = run(spark, tmp_path, [SEEN, LATER_SEEN], [CLICKED, LATER_CLICKED], join)
    expected = Counter(ROWS_OF[join])
    assert Counter([*first, *(row for batch in rest for row in batch)]) == expected
    # Pairs come at once; unmatched rows come when no partner can come any more.
    pairs = ROWS_OF["semi"] if join == "semi" else PAIRS
    assert Counter(first) == Counter(pairs)


def test_a_click_joins_within_the_hour_to_the_millisecond_with_both_ends_included(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen = [(f"10:00:0{n}", f"i{n}") for n in range(4)]
    clicked = [
        ("10:00:00", "at once", "i0"),
        ("11:00:01", "an hour later", "i1"),
        ("11:00:02.001", "a millisecond too late", "i2"),
        ("10:00:02.999", "a millisecond before", "i3"),
    ]
    rows = run(spark, tmp_path, [seen, LATER_SEEN], [clicked, LATER_CLICKED])
    assert sorted((row for batch in rows for row in batch), key=str) == [
        ("i0", "10:00:00", "at once", "10:00:00"),
        ("i1", "10:00:01", "an hour later", "11:00:01"),
        ("i2", "10:00:02", None, None),
        ("i3", "10:00:03", None, None),
    ]


def test_copies_are_removed_before_the_join_but_a_second_click_is_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen, click = ("10:00:00", "a"), ("10:01:00", "1", "a")
    again = [[seen, seen], [seen]], [[click, click, ("10:02:00", "2", "a")], [click]]
    rows = run(spark, tmp_path, *again)
    assert sorted(row for batch in rows for row in batch) == [
        ("a", "10:00:00", "1", "10:01:00"),
        ("a", "10:00:00", "2", "10:02:00"),
    ]


@pytest.mark.full
def test_a_click_that_comes_before_its_impression_joins_when_the_impression_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second, *_ = run(
        spark, tmp_path, [[("10:30:00", "b")], [("10:00:00", "a")]], [[("10:01:00", "1", "a")], []]
    )
    assert (first, second) == ([], [("a", "10:00:00", "1", "10:01:00")])


@pytest.mark.full
def test_an_unmatched_impression_appears_only_after_newer_events_on_both_sides(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen, clicked = [("10:00:00", "a")], [("10:00:00", "1", "nowhere")]
    # The watermark is the earlier of 11:30 less 2 hours (impressions) and 20:00 less 3 (clicks).
    one = run(spark, tmp_path / "one", [seen, [("11:30:00", "b")]], [clicked, LATER_CLICKED])
    assert not any(one)
    # At 13:00:00.001 less 2 hours no click can join an impression of 10:00 any more.
    last = [("13:00:00.001", "b")]
    both = run(spark, tmp_path / "both", [seen, last], [clicked, LATER_CLICKED])
    assert [row for batch in both for row in batch] == [("a", "10:00:00", None, None)]
    early = run(spark, tmp_path / "early", [seen, [("13:00:00", "b")]], [clicked, LATER_CLICKED])
    assert not any(early)


@pytest.mark.full
@pytest.mark.parametrize("policy", ["min", "max"])
def test_the_watermark_policy_takes_the_slower_or_the_faster_stream(
    spark: SparkSession, tmp_path: Path, policy: str
) -> None:
    # Clicks are half a day ahead of the impressions; the impression of 10:00 comes last.
    seen = [[("09:00:00", "x")], [("09:00:01", "y")], [("09:00:02", "z")], [("10:00:00", "a")]]
    clicked = [[("10:01:00", "1", "a")], LATER_CLICKED, [], []]
    name = "spark.sql.streaming.multipleWatermarkPolicy"
    spark.conf.set(name, policy)
    try:
        rows = run(spark, tmp_path, seen, clicked)
    finally:
        spark.conf.unset(name)
    found = {row for batch in rows for row in batch}
    if policy == "min":
        assert found == {("a", "10:00:00", "1", "10:01:00")}
    else:
        # At 17:00 (20:00 less 3 hours) the others are unmatched, and what comes after is late.
        assert found == {(name, f"09:00:0{n}", None, None) for n, name in enumerate("xyz")}


@pytest.mark.full
def test_only_the_first_click_is_kept_once_no_earlier_one_can_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[list[Seen]] = [
        [("10:00:00", "a"), ("10:00:00", "b"), ("10:00:00", "c")],
        [],
        LATER_SEEN,
    ]
    clicked: list[list[Clicked]] = [
        [("10:30:00", "late", "a"), ("10:20:00", "2", "b"), ("10:20:00", "1", "b")],
        [("10:10:00", "early", "a")],
        LATER_CLICKED,
    ]
    first, second, *rest = run(spark, tmp_path, seen, clicked, first_only=True)
    assert (first, second) == ([], [])
    assert sorted((row for batch in rest for row in batch), key=str) == [
        ("a", "10:00:00", "early", "10:10:00"),
        ("b", "10:00:00", "1", "10:20:00"),
        ("c", "10:00:00", None, None),
    ]


def expected_pairs(seen: Sequence[Seen], clicked: Sequence[Clicked]) -> Counter[Pair]:
    """Return the expected rows by comparing every impression with every click."""
    rows: Counter[Pair] = Counter()
    for when, name in set(seen):
        found = [
            (c, t)
            for t, c, of in set(clicked)
            if of == name and when <= t <= f"{int(when[:2]) + 1}{when[2:]}"
        ]
        unmatched: list[Pair] = [(name, when, None, None)]
        rows.update([(name, when, c, t) for c, t in found] or unmatched)
    return rows


@pytest.mark.full
def test_a_random_history_within_the_watermarks_gives_the_expected_pairs(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(5)
    seen: list[Seen] = [(at(random.uniform(0.001, 7000)), f"i{n}") for n in range(400)]
    clicked: list[Clicked] = []
    for when, name in seen:
        for number in range(random.choice([0, 0, 0, 1, 1, 2, 3])):
            hours, minutes, seconds = when.split(":")
            moment = (int(hours) - 10) * 3600 + int(minutes) * 60 + float(seconds)
            after = random.choice(
                [0, random.uniform(-100, 3600), random.uniform(3500, 3700), 3600, 3600.001]
            )
            clicked.append((at(moment + after), f"{name}-{number}", name))
    clicked += [(at(random.uniform(0, 7000)), f"o{n}", "nowhere") for n in range(20)]
    parts = 4

    def spread(rows: Sequence[Any]) -> list[list[Any]]:
        """Cut rows into batches by time; some come a batch later, and some again."""
        found: list[list[Any]] = [[] for _ in range(parts + 1)]
        for row in rows:
            hours, minutes, _ = row[0].split(":")
            part = min(parts - 1, ((int(hours) - 10) * 60 + int(minutes)) * parts // 180)
            found[part + random.choice([0, 0, 0, 1])].append(row)
            if random.random() < 0.1:
                found[part + 1].append(row)
        return found

    rows = run(spark, tmp_path, [*spread(seen), LATER_SEEN], [*spread(clicked), LATER_CLICKED])
    expected = expected_pairs(
        [(f"{w:0<12}", n) for w, n in seen], [(f"{w:0<12}", c, n) for w, c, n in clicked]
    )
    padded = Counter(
        (name, f"{when}.000"[:12], click, clicked_at and f"{clicked_at}.000"[:12])
        for batch in rows
        for name, when, click, clicked_at in batch
    )
    assert padded == expected
    assert 100 < sum(1 for row in expected if row[2] is None) < 300


def test_a_record_has_the_key_and_the_fields_of_the_contract(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = JOB.plans[Trigger.AVAILABLE_NOW]
    sources = [
        [
            impressions(spark, [("10:00:00", "a"), ("10:00:00", "b")]),
            impressions(spark, LATER_SEEN),
        ],
        [
            clicks(spark, [("10:01:00.5", "1", "a"), ("10:02:00", "2", "nowhere")]),
            clicks(spark, LATER_CLICKED),
        ],
    ]
    options = Options(join="full")
    rows = run_streams(spark, tmp_path, sources, lambda i, c: plan.records(i, c, options))
    found = {row["key"]: list(json.loads(row["value"]).items()) for batch in rows for row in batch}
    assert found["a"] == [
        ("impression_id", "a"),
        ("ad_id", "ad-1"),
        ("user_id", "u-1"),
        ("impression_time", "2026-11-18T10:00:00.000Z"),
        ("click_id", "1"),
        ("click_time", "2026-11-18T10:01:00.500Z"),
        ("seconds_to_click", 60.5),
    ]
    assert found["b"][4:] == [("click_id", None), ("click_time", None), ("seconds_to_click", None)]
    assert found["nowhere"][3:5] == [("impression_time", None), ("click_id", "2")]
    for batch in rows:
        for row in batch:
            msgspec.json.decode(row["value"], type=AdAttribution)


@pytest.mark.parametrize("join", ["right", "full", "semi"])
def test_first_only_is_refused_for_joins_without_impressions(join: Any) -> None:
    with pytest.raises(UserFacingError, match="--first-only works with --join inner or left"):
        Options(join=join, first_only=True)
