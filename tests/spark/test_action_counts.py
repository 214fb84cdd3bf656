"""Counts over windows: late actions in every output mode, and a stream equal to its table.

The figures are those of the lessons.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from events.triggers import Trigger
from spark_jobs.clickstream.action_counts import JOB, Options, action_counts
from spark_jobs.runtime.late_records import late_records
from tests.spark.event_tables import clock, events
from tests.spark.file_streams import live_stream, run_stream

Count = tuple[str | None, str, int]  # start of the window, group, count


def actions(spark: SparkSession, rows: list[tuple[str, str]], by: str = "action") -> DataFrame:
    """Return actions from their times and the values of the column `by`."""
    other = "user_id" if by == "action" else "action"
    return events(
        spark, f"event_time string, {by} string, {other} string", [(*row, "-") for row in rows]
    )


def counts(rows: list[dict[str, Any]], by: str = "action") -> list[Count]:
    return sorted((clock(row["window_start"]), row[by], row["action_count"]) for row in rows)


def table(by: str, window: str, slide: str | None = None, watermark: str = "10 minutes") -> Any:
    return lambda rows: action_counts(rows, by, window, slide, watermark)


def static(
    spark: SparkSession, rows: list[tuple[str, str]], by: str, window: str, slide: str | None
) -> list[Count]:
    found = action_counts(actions(spark, rows, by), by, window, slide, "10 minutes").collect()
    return counts([row.asDict() for row in found], by)


def test_complete_mode_counts_each_action_in_its_ten_minute_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("10:00:01", "open")] * 8 + [("10:09:59.999", "close")] * 6 + [("10:10:00", "open")] * 2
    halves = [actions(spark, rows[::2]), actions(spark, rows[1::2])]
    *_, last = run_stream(spark, tmp_path, halves, table("action", "10 minutes"), "complete")
    assert counts(last) == [
        ("10:00:00", "close", 6),
        ("10:00:00", "open", 8),
        ("10:10:00", "open", 2),
    ]


LESSON_3 = [
    [("10:13:50", "open"), ("10:23:50", "open"), ("10:33:50", "open")],
    [("10:29:35", "open"), ("10:11:35", "open")],
]


def test_an_action_beyond_the_watermark_is_dropped_in_a_later_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = (actions(spark, rows) for rows in LESSON_3)
    ten = table("action", "10 minutes")
    with live_stream(spark, tmp_path, first, ten) as live:
        opened, *empty = live.take(first)
        assert counts(opened) == [
            ("10:10:00", "open", 1),
            ("10:20:00", "open", 1),
            ("10:30:00", "open", 1),
        ]
        assert empty == [[]], "the batch without data, in which the watermark becomes 10:23:50"
        later, *_ = live.take(second)
        assert counts(later) == [("10:20:00", "open", 2)]
        dropped = [
            operator["numRowsDroppedByWatermark"]
            for progress in live.query.recentProgress
            for operator in json.loads(progress.json)["stateOperators"]
        ]
        assert sum(dropped) == 1


@pytest.mark.full
@pytest.mark.parametrize("files", [1, 2], ids=["in one batch", "in two batches of one run"])
def test_nothing_is_dropped_of_a_topic_that_is_complete_at_the_start(
    spark: SparkSession, tmp_path: Path, files: int
) -> None:
    batches = LESSON_3 if files == 2 else [[*LESSON_3[0], *LESSON_3[1]]]
    found = run_stream(
        spark, tmp_path, [actions(spark, rows) for rows in batches], table("action", "10 minutes")
    )
    latest = {count[:2]: count for batch in found for count in counts(batch)}
    assert sorted(latest.values()) == [
        ("10:10:00", "open", 2),
        ("10:20:00", "open", 2),
        ("10:30:00", "open", 1),
    ]


LESSON_4 = [
    [("10:01:00", "user1"), ("10:02:00", "user1"), ("10:04:00", "user2"), ("10:05:20", "user9")],
    [("10:06:00", "user1"), ("10:07:00", "user2"), ("10:10:10", "user9"), ("10:09:00", "user2")],
]


@pytest.mark.full
@pytest.mark.parametrize("late_in", [2, 3])
def test_a_late_action_counts_in_the_third_batch_and_is_dropped_in_the_fourth(
    spark: SparkSession, tmp_path: Path, late_in: int
) -> None:
    late, filler = [("10:00:30", "user1")], [("10:06:00", "user9")]
    batches = [*LESSON_4, *([late] if late_in == 2 else [filler, late])]
    five = table("user_id", "5 minutes", watermark="5 minutes")
    found = run_stream(spark, tmp_path, [actions(spark, rows, "user_id") for rows in batches], five)
    known = [
        [count for count in counts(batch, "user_id") if count[1] != "user9"] for batch in found
    ]
    assert known[0] == [("10:00:00", "user1", 2), ("10:00:00", "user2", 1)]
    assert known[1] == [("10:05:00", "user1", 1), ("10:05:00", "user2", 2)]
    assert known[late_in] == ([("10:00:00", "user1", 3)] if late_in == 2 else [])


@pytest.mark.full
def test_complete_mode_never_drops_a_late_action(spark: SparkSession, tmp_path: Path) -> None:
    batches = [*LESSON_4, [("10:06:00", "user9")], [("10:00:30", "user1")]]
    five = table("user_id", "5 minutes", watermark="5 minutes")
    rows = [actions(spark, batch, "user_id") for batch in batches]
    *_, last = run_stream(spark, tmp_path, rows, five, "complete")
    assert ("10:00:00", "user1", 3) in counts(last, "user_id")


def test_complete_mode_counts_actions_per_user_and_minute(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        ("10:00:00", "user1"),
        ("10:00:20", "user1"),
        ("10:01:00", "user2"),
        ("10:01:20", "user1"),
        ("10:02:00", "user2"),
    ]
    one = [actions(spark, rows, "user_id")]
    *_, last = run_stream(spark, tmp_path, one, table("user_id", "1 minute"), "complete")
    assert counts(last, "user_id") == [
        ("10:00:00", "user1", 2),
        ("10:01:00", "user1", 1),
        ("10:01:00", "user2", 1),
        ("10:02:00", "user2", 1),
    ]


@pytest.mark.parametrize(
    ("window", "slide", "expected"),
    [
        ("1 minute", None, [("10:00:00", 6), ("10:01:00", 15)]),
        ("2 minutes", "1 minute", [("09:59:00", 6), ("10:00:00", 21), ("10:01:00", 15)]),
        (
            "1 minute",
            "30 seconds",
            [("09:59:30", 3), ("10:00:00", 6), ("10:00:30", 12), ("10:01:00", 15), ("10:01:30", 6)],
        ),
    ],
    ids=["tumbling", "sliding by half", "sliding by thirty seconds"],
)
def test_tumbling_and_sliding_windows_give_the_sums_of_the_lesson(
    spark: SparkSession, window: str, slide: str | None, expected: list[tuple[str, int]]
) -> None:
    # A value is so many records: their count is the sum.
    values = [
        ("10:00:05", 1),
        ("10:00:15", 2),
        ("10:00:45", 3),
        ("10:01:05", 4),
        ("10:01:25", 5),
        ("10:01:55", 6),
    ]
    rows = [(when, "v") for when, value in values for _ in range(value)]
    assert static(spark, rows, "action", window, slide) == [
        (start, "v", total) for start, total in expected
    ]


@pytest.mark.full
def test_a_stream_of_files_gives_the_same_counts_as_one_static_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    hours = {2: (11, 179), 3: (344, 1001), 4: (815, 999), 5: (1003, 1000), 6: (1011, 993)}
    rows = [
        (f"{hour:02d}:{number * 7 % 60:02d}:{number % 60:02d}", action)
        for hour, amounts in hours.items()
        for action, amount in zip(("Close", "Open"), amounts, strict=True)
        for number in range(amount)
    ]
    expected = sorted(
        (f"{hour:02d}:00:00", action, amount)
        for hour, amounts in hours.items()
        for action, amount in zip(("Close", "Open"), amounts, strict=True)
    )
    assert len(rows) == 7356
    assert static(spark, rows, "action", "1 hour", None) == expected
    files = [actions(spark, rows[part::3]) for part in range(3)]
    *_, last = run_stream(spark, tmp_path, files, table("action", "1 hour"), "complete")
    assert counts(last) == expected


def test_append_mode_writes_a_window_once_when_it_is_closed(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [("10:01:00", "open")],
        [("10:02:00", "open"), ("10:20:01", "open")],
        [("10:25:00", "view")],
    ]
    found = run_stream(
        spark,
        tmp_path,
        [actions(spark, rows) for rows in batches],
        table("action", "10 minutes"),
        "append",
    )
    assert [count for batch in found for count in counts(batch)] == [("10:00:00", "open", 2)]


@pytest.mark.parametrize(("output_mode", "late_rows"), [("update", [731]), ("complete", [])])
def test_late_records_are_counted_per_record_where_they_are_dropped(
    spark: SparkSession, tmp_path: Path, output_mode: Any, late_rows: list[int]
) -> None:
    def job(rows: DataFrame) -> DataFrame:
        return JOB.plans[Trigger.MICRO_BATCH].records(rows, Options(output_mode=output_mode))

    on_time = [("10:40:00", "open")]
    late = (
        [("10:01:00", "open")] * 700
        + [("10:19:59", "open")] * 30
        + [("10:20:00", "open"), ("10:31:00", "open")]
    )
    with live_stream(spark, tmp_path, actions(spark, on_time), job, output_mode) as live:
        live.take(actions(spark, on_time))
        live.take(actions(spark, late))
        progress = [json.loads(entry.json) for entry in live.query.recentProgress]
    watermarks = [None, *[entry.get("eventTime", {}).get("watermark") for entry in progress]]
    found = [
        late_records(entry, before) for entry, before in zip(progress, watermarks, strict=False)
    ]
    spark_says = sum(
        op["numRowsDroppedByWatermark"] for entry in progress for op in entry["stateOperators"]
    )
    assert [count for count in found if count] == late_rows
    assert spark_says < 10, "Spark counts one per group and partition"


@pytest.mark.parametrize("by", ["action", "user_id"])
def test_a_record_has_the_key_and_the_fields_of_the_contract(spark: SparkSession, by: Any) -> None:
    rows = actions(spark, [("10:01:00", "open")] * 3, by)
    plan = JOB.plans[Trigger.AVAILABLE_NOW]
    (record,) = plan.records(rows, Options(group_by=by)).collect()
    assert record["key"] == "2026-11-18T10:00:00.000Z|2026-11-18T10:10:00.000Z|open"
    assert list(json.loads(record["value"]).items()) == [
        ("window_start", "2026-11-18T10:00:00.000Z"),
        ("window_end", "2026-11-18T10:10:00.000Z"),
        ("action", "open" if by == "action" else None),
        ("user_id", "open" if by == "user_id" else None),
        ("action_count", 3),
    ]
