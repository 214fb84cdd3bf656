"""Impressions and their clicks: every type of join, the ends of the hour, repeats, who waits for whom, first clicks."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from events.cli import PersonError
from spark_jobs.ad_attribution import (
    JOB,
    JOINS,
    attributions,
    distinct_clicks,
    distinct_impressions,
    first_clicks,
)
from spark_jobs.job import JobOptions
from spark_jobs.triggers import Trigger
from tests.spark.streams import run_streams
from tests.spark.times import at, clock, events

IMPRESSION = "event_id string, event_time string, impression_id string, ad_id string, user_id string"
CLICK = (
    "event_id string, event_time string, click_id string, impression_id string, ad_id string, user_id string"
)
Seen = tuple[str, str]  # when, and the impression's id
Clicked = tuple[str, str, str]  # when, the click's id, and the impression's
Pair = tuple[str | None, str | None, str | None, str | None]  # impression's id and time, click's id and time


def impressions(spark: SparkSession, rows: Sequence[Seen]) -> DataFrame:
    """Return impressions, each an event of its own unless time and id are the same."""
    return events(spark, IMPRESSION, [(f"i-{when}-{name}", when, name, "ad-1", "u-1") for when, name in rows])


def clicks(spark: SparkSession, rows: Sequence[Clicked]) -> DataFrame:
    return events(
        spark, CLICK, [(f"c-{when}-{name}", when, name, of, "ad-1", "u-1") for when, name, of in rows]
    )


def pair(row: dict[str, Any]) -> Pair:
    return row["impression_id"], clock(row["impression_time"]), row["click_id"], clock(row["click_time"])


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

    sources = [[impressions(spark, rows) for rows in seen], [clicks(spark, rows) for rows in clicked]]
    return [[pair(row) for row in batch] for batch in run_streams(spark, folder, sources, table)]


# The lesson joins by the ad: every impression of an ad with every click on it within the hour.
LESSON_SEEN: list[Seen] = [("10:00:00", "a"), ("10:20:00", "a"), ("10:00:00", "b"), ("10:00:00", "c")]
LESSON_CLICKED: list[Clicked] = [
    ("10:30:00", "1", "a"),
    ("11:10:00", "2", "a"),
    ("11:00:00", "3", "b"),
    ("11:00:00.001", "4", "c"),
    ("10:05:00", "5", "nowhere"),
]
PAIRS: list[Pair] = [
    ("a", "10:00:00", "1", "10:30:00"),
    ("a", "10:20:00", "1", "10:30:00"),
    ("a", "10:20:00", "2", "11:10:00"),
    ("b", "10:00:00", "3", "11:00:00"),
]
ALONE_SEEN: list[Pair] = [("c", "10:00:00", None, None)]
ALONE_CLICKED: list[Pair] = [("c", None, "4", "11:00:00.001"), ("nowhere", None, "5", "10:05:00")]
LESSON: dict[str, list[Pair]] = {
    "inner": PAIRS,
    "left": PAIRS + ALONE_SEEN,
    "right": PAIRS + ALONE_CLICKED,
    "full": PAIRS + ALONE_SEEN + ALONE_CLICKED,
    "semi": [("a", "10:00:00", None, None), ("a", "10:20:00", None, None), ("b", "10:00:00", None, None)],
}
# Later events on both sides, which move the watermark past everything before.
LATER_SEEN, LATER_CLICKED = [("20:00:00", "later")], [("20:00:00", "later", "other")]


def test_every_type_of_join_is_held_to_the_lesson() -> None:
    assert set(LESSON) == set(JOINS)


@pytest.mark.parametrize("join", LESSON)
def test_the_lessons_pairs_come_out_and_those_alone_that_the_join_keeps(
    spark: SparkSession, tmp_path: Path, join: str
) -> None:
    first, *rest = run(spark, tmp_path, [LESSON_SEEN, LATER_SEEN], [LESSON_CLICKED, LATER_CLICKED], join)
    expected = Counter(LESSON[join])
    assert Counter([*first, *(row for batch in rest for row in batch)]) == expected
    # Pairs at once; who is alone only when nobody can come any more.
    pairs = LESSON["semi"] if join == "semi" else PAIRS
    assert Counter(first) == Counter(pairs)


def test_an_hour_is_an_hour_to_the_millisecond_with_both_ends_in(spark: SparkSession, tmp_path: Path) -> None:
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


def test_repeats_are_removed_before_the_join_and_a_second_click_is_no_repeat(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen, click = ("10:00:00", "a"), ("10:01:00", "1", "a")
    again = [[seen, seen], [seen]], [[click, click, ("10:02:00", "2", "a")], [click]]
    rows = run(spark, tmp_path, *again)
    assert sorted(row for batch in rows for row in batch) == [
        ("a", "10:00:00", "1", "10:01:00"),
        ("a", "10:00:00", "2", "10:02:00"),
    ]


def test_a_click_that_came_before_its_impression_joins_when_that_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second, *_ = run(
        spark, tmp_path, [[("10:30:00", "b")], [("10:00:00", "a")]], [[("10:01:00", "1", "a")], []]
    )
    assert (first, second) == ([], [("a", "10:00:00", "1", "10:01:00")])


def test_an_impression_alone_appears_only_after_newer_events_on_both_sides(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen, clicked = [("10:00:00", "a")], [("10:00:00", "1", "nowhere")]
    # The newest impression says 11:30 less 2 hours, the newest click 20:00 less 3: the one behind counts.
    one = run(spark, tmp_path / "one", [seen, [("11:30:00", "b")]], [clicked, LATER_CLICKED])
    assert not any(one)
    # 13:00:00.001 less 2 hours is when nobody can click any more on what was there at 10:00.
    last = [("13:00:00.001", "b")]
    both = run(spark, tmp_path / "both", [seen, last], [clicked, LATER_CLICKED])
    assert [row for batch in both for row in batch] == [("a", "10:00:00", None, None)]
    early = run(spark, tmp_path / "early", [seen, [("13:00:00", "b")]], [clicked, LATER_CLICKED])
    assert not any(early)


@pytest.mark.parametrize("policy", ["min", "max"])
def test_time_is_that_of_the_stream_behind_or_by_policy_of_the_one_ahead(
    spark: SparkSession, tmp_path: Path, policy: str
) -> None:
    # Clicks run ahead of the impressions by half a day; the impression of 10:00 comes last.
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
        # At 17:00 (20:00 less 3 hours) the others are long alone, and what comes then is late.
        assert found == {(name, f"09:00:0{n}", None, None) for n, name in enumerate("xyz")}


def test_the_first_click_is_kept_alone_and_only_when_none_earlier_can_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[list[Seen]] = [[("10:00:00", "a"), ("10:00:00", "b"), ("10:00:00", "c")], [], LATER_SEEN]
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


def by_hand(seen: Sequence[Seen], clicked: Sequence[Clicked]) -> Counter[Pair]:
    """Return what must come out: compare every impression with every click, each once."""
    rows: Counter[Pair] = Counter()
    for when, name in set(seen):
        found = [
            (c, t)
            for t, c, of in set(clicked)
            if of == name and when <= t <= f"{int(when[:2]) + 1}{when[2:]}"
        ]
        rows.update([(name, when, c, t) for c, t in found] or [(name, when, None, None)])
    return rows


def test_any_history_within_the_watermarks_gives_what_comparing_all_with_all_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(5)
    seen: list[Seen] = [(at(random.uniform(0.001, 7000)), f"i{n}") for n in range(400)]
    clicked: list[Clicked] = []
    for when, name in seen:
        for number in range(random.choice([0, 0, 0, 1, 1, 2, 3])):
            hours, minutes, seconds = when.split(":")
            moment = (int(hours) - 10) * 3600 + int(minutes) * 60 + float(seconds)
            after = random.choice([0, random.uniform(-100, 3600), random.uniform(3500, 3700), 3600, 3600.001])
            clicked.append((at(moment + after), f"{name}-{number}", name))
    clicked += [(at(random.uniform(0, 7000)), f"o{n}", "nowhere") for n in range(20)]
    parts = 4

    def spread(rows: Sequence[Any]) -> list[list[Any]]:
        """Cut into batches by time, with some rows a batch later, and some sent again."""
        found: list[list[Any]] = [[] for _ in range(parts + 1)]
        for row in rows:
            hours, minutes, _ = row[0].split(":")
            part = min(parts - 1, ((int(hours) - 10) * 60 + int(minutes)) * parts // 180)
            found[part + random.choice([0, 0, 0, 1])].append(row)
            if random.random() < 0.1:
                found[part + 1].append(row)
        return found

    rows = run(spark, tmp_path, [*spread(seen), LATER_SEEN], [*spread(clicked), LATER_CLICKED])
    expected = by_hand([(f"{w:0<12}", n) for w, n in seen], [(f"{w:0<12}", c, n) for w, c, n in clicked])
    padded = Counter(
        (name, f"{when}.000"[:12], click, clicked_at and f"{clicked_at}.000"[:12])
        for batch in rows
        for name, when, click, clicked_at in batch
    )
    assert padded == expected
    assert 100 < sum(1 for row in expected if row[2] is None) < 300


def test_a_record_is_keyed_by_the_impression_and_has_the_contracts_fields(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = JOB.plans[Trigger.AVAILABLE_NOW]
    sources = [
        [impressions(spark, [("10:00:00", "a"), ("10:00:00", "b")]), impressions(spark, LATER_SEEN)],
        [clicks(spark, [("10:01:00.5", "1", "a")]), clicks(spark, LATER_CLICKED)],
    ]
    rows = run_streams(spark, tmp_path, sources, lambda i, c: plan.records(i, c, JobOptions()))
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


@pytest.mark.parametrize("join", ["right", "full", "semi"])
def test_the_first_click_of_no_impression_is_refused(spark: SparkSession, join: str) -> None:
    options = JobOptions(join=join, first_only=True)
    with pytest.raises(PersonError, match="--first-only goes with --join inner or left"):
        JOB.plans[Trigger.AVAILABLE_NOW].records(
            impressions(spark, LATER_SEEN), clicks(spark, LATER_CLICKED), options
        )
