"""Golden figures of the lessons on watermarks.

A row of progress is (batch, rows in, watermark, rows dropped, rows of state).
"""

from tests.unit.lessons_golden.output import Output, golden, modes

NO_WATERMARK = "1970-01-01 00:00:00"


@golden("late_rows")
def test_a_row_is_dropped_only_if_an_empty_batch_moved_the_watermark_first(
    output: Output,
) -> None:
    watermark = "2018-03-02 10:23:50"
    one_each = [("10:10", "open", 1), ("10:20", "open", 1), ("10:30", "open", 1)]

    later = output["the second file arrives later"]
    assert later.batches == {0: one_each, 1: [], 2: [("10:20", "open", 2)]}
    assert later.progress == [
        (0, 3, NO_WATERMARK, 0, 3),
        (1, 0, watermark, 0, 2),
        (2, 2, watermark, 1, 2),
    ]

    together = output["both files in one batch"]
    counted = [("10:10", "open", 2), ("10:20", "open", 2)]
    assert together.batches == {0: [*counted, ("10:30", "open", 1)], 1: []}
    assert together.progress == [(0, 5, NO_WATERMARK, 0, 3), (1, 0, watermark, 0, 2)]

    available_now = output["both files present, one per batch"]
    assert available_now.batches == {0: one_each, 1: counted}
    assert available_now.progress == [(0, 3, NO_WATERMARK, 0, 3), (1, 2, watermark, 0, 2)]


@golden("watermark_order")
def test_a_late_click_counts_in_the_third_batch_and_not_in_the_fourth(output: Output) -> None:
    third = output["the late click comes third, watermark before the count, update mode"]
    fourth = output["the late click comes fourth, watermark before the count, update mode"]
    first_files = {
        0: [("10:00", "user1", 2), ("10:00", "user2", 1), ("10:05", "user2", 1)],
        1: [("10:05", "user1", 1), ("10:05", "user2", 2), ("10:10", "user1", 1)],
    }
    assert third.batches == first_files | {2: [("10:00", "user1", 3)]}
    assert third.progress == [
        (0, 4, NO_WATERMARK, 0, 3),
        (1, 3, "2023-08-01 10:00:20", 0, 5),
        (2, 1, "2023-08-01 10:05:10", 0, 3),
    ]
    assert fourth.batches == first_files | {2: [("10:10", "user2", 1)], 3: []}
    assert fourth.progress == [
        (0, 4, NO_WATERMARK, 0, 3),
        (1, 3, "2023-08-01 10:00:20", 0, 5),
        (2, 1, "2023-08-01 10:05:10", 0, 4),
        (3, 1, "2023-08-01 10:05:10", 1, 4),
    ]


@golden("watermark_order")
def test_with_the_watermark_after_the_count_the_late_click_always_counts(output: Output) -> None:
    third = output["the late click comes third, watermark after the count, complete mode"]
    fourth = output["the late click comes fourth, watermark after the count, complete mode"]
    user1, user2 = ("10:00", "user1", 2), ("10:00", "user2", 1)
    with_late = ("10:00", "user1", 3)
    five_past = [("10:05", "user1", 1), ("10:05", "user2", 2), ("10:10", "user1", 1)]
    first_files = {0: [user1, user2, ("10:05", "user2", 1)], 1: [user1, user2, *five_past]}
    assert third.batches == first_files | {2: [with_late, user2, *five_past]}
    one_more = [*five_past, ("10:10", "user2", 1)]
    late_last = {2: [user1, user2, *one_more], 3: [with_late, user2, *one_more]}
    assert fourth.batches == first_files | late_last
    progress = [(0, 4, NO_WATERMARK, 0, 3), (1, 3, "2023-08-01 10:00:00", 0, 5)]
    assert third.progress == [*progress, (2, 1, "2023-08-01 10:05:00", 0, 5)]
    assert fourth.progress == [
        *progress,
        (2, 1, "2023-08-01 10:05:00", 0, 6),
        (3, 1, "2023-08-01 10:05:00", 0, 6),
    ]


@golden("state_cleanup")
def test_only_a_watermark_and_a_mode_other_than_complete_remove_state(output: Output) -> None:
    growing, bounded = [2, 4, 6, 8, 10], [2, 4, 4, 4, 4, 2]
    for query, state_rows in {
        "no watermark, update": growing,
        "watermark, complete": growing,
        "watermark, update": bounded,
        "watermark, append": bounded,
    }.items():
        assert output[query].value == str(state_rows)


@golden("watermark_placement")
def test_append_needs_the_watermark_on_the_grouped_column_before_the_grouping(
    output: Output,
) -> None:
    assert output["append mode, watermark"].outcomes == {
        "on the grouped column": "allowed",
        "on another column": "refused",
        "after the grouping": "refused",
        "on the column, grouped by rack alone": "refused",
    }
    second = output["a second aggregation over the first"]
    assert second.outcomes == modes("allowed", "refused", "refused")


@golden("watermark_placement")
def test_one_reading_from_the_future_makes_all_others_late(output: Output) -> None:
    future = output["a reading of 2019 in the first file"]
    assert future.batches == {
        0: [("2018-03-02 10:00", "rack1", 1), ("2019-03-02 10:00", "rack2", 1)],
        1: [("2018-03-02 10:00", "rack1", 2)],
        2: [],
    }
    assert future.progress == [
        (0, 2, NO_WATERMARK, 0, 2),
        (1, 1, "2019-03-02 09:52:00", 0, 1),
        (2, 2, "2019-03-02 09:52:00", 2, 1),
    ]


@golden("late_rows_counted")
def test_spark_reports_2784_of_10000_late_rows_after_an_aggregation(output: Output) -> None:
    for query, reported in (("count per rack and hour", 2784), ("deduplication", 10_000)):
        assert output[query].value == "10000 rows were late"
        assert output[query].progress == [
            (0, 1, NO_WATERMARK, 0, 1),
            (1, 0, "2018-03-02 09:50:00", 0, 1),
            (2, 10_000, "2018-03-02 09:50:00", reported, 1),
        ]


@golden("watermark_policies")
def test_the_slowest_watermark_counts_or_under_max_the_fastest(output: Output) -> None:
    both = [("10:10", 1), ("10:30", 1)]
    slowest, fastest = output["min"], output["max"]
    assert slowest.batches == {0: both, 1: [], 2: [("10:10", 2)], 3: []}
    assert slowest.progress == [
        (0, 2, NO_WATERMARK, 0, 2),
        (1, 0, "2018-03-02 10:05:00", 0, 2),
        (2, 1, "2018-03-02 10:05:00", 0, 2),
        (3, 0, "2018-03-02 10:07:00", 0, 2),
    ]
    assert fastest.batches == {0: both, 1: [], 2: []}
    assert fastest.progress == [
        (0, 2, NO_WATERMARK, 0, 2),
        (1, 0, "2018-03-02 10:20:00", 0, 1),
        (2, 1, "2018-03-02 10:20:00", 1, 1),
    ]
