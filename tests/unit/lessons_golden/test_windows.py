"""Golden figures of the lessons on event-time windows."""

from tests.unit.lessons_golden.output import Output, golden


@golden("window_sums")
def test_tumbling_and_sliding_windows_give_the_published_sums(output: Output) -> None:
    tumbling = [("10:00:00", "10:01:00", 6), ("10:01:00", "10:02:00", 15)]
    assert output["tumbling, 1 minute"].batches == {0: tumbling}
    assert output["1 minute every minute"].batches == {0: tumbling}
    averages = [("10:00:00", "10:01:00", 2.0), ("10:01:00", "10:02:00", 5.0)]
    assert output["average per minute"].batches == {0: averages}
    assert output["sliding, 2 minutes every minute"].batches == {
        0: [
            ("09:59:00", "10:01:00", 6),
            ("10:00:00", "10:02:00", 21),
            ("10:01:00", "10:03:00", 15),
        ]
    }
    assert output["sliding, 1 minute every 30 seconds"].batches == {
        0: [
            ("09:59:30", "10:00:30", 3),
            ("10:00:00", "10:01:00", 6),
            ("10:00:30", "10:01:30", 12),
            ("10:01:00", "10:02:00", 15),
            ("10:01:30", "10:02:30", 6),
        ]
    }


@golden("rack_averages")
def test_rack_averages_come_at_once_in_update_and_when_closed_in_append(output: Output) -> None:
    first, second, third, fourth, fifth = (
        [(start, end, "rack1", rack1), (start, end, "rack2", rack2)]
        for start, end, rack1, rack2 in (
            ("07:55", "08:05", 99.5, 99.5),
            ("08:00", "08:10", 100.0, 102.5),
            ("08:05", "08:15", 100.75, 104.75),
            ("08:10", "08:20", 101.5, 106.0),
            ("08:15", "08:25", 102.0, 108.0),
        )
    )
    assert output["update"].batches == {
        0: first + second + third + fourth + fifth,
        1: [("08:30", "08:40", "rack1", 90.0), ("08:35", "08:45", "rack1", 90.0)],
        2: [("08:45", "08:55", "rack1", 90.0), ("08:50", "09:00", "rack1", 90.0)],
        3: [],
    }
    assert output["append"].batches == {
        0: [],
        1: first,
        2: second + third + fourth + fifth,
        3: [("08:30", "08:40", "rack1", 90.0)],
    }


@golden("user_minutes")
def test_users_per_minute_from_a_socket_or_files_are_counted_as_published(output: Output) -> None:
    counts = [("10:00", "user1", 2), ("10:01", "user1", 1), ("10:01", "user2", 1)]
    all_counts = [*counts, ("10:02", "user2", 1)]
    assert output["from a socket, the last batch"].rows == all_counts
    by_file = output["from JSON files, each batch"].batches
    assert by_file == {0: counts[:1], 1: counts, 2: all_counts}


@golden("actions_per_hour")
def test_actions_per_hour_are_the_published_counts_as_a_table_and_as_a_stream(
    output: Output,
) -> None:
    close_and_open = {
        "02:00": (11, 179),
        "03:00": (344, 1001),
        "04:00": (815, 999),
        "05:00": (1003, 1000),
        "06:00": (1011, 993),
    }
    table = output["7356 events as a table"]
    assert table.rows == [
        (f"Jul-26 {hour}", action, count)
        for hour, counts in close_and_open.items()
        for action, count in zip(("Close", "Open"), counts, strict=True)
    ]
    assert sum(map(sum, close_and_open.values())) == 7356
    assert output["as a stream of 5 batches"].value == "the same: True"


@golden("session_windows")
def test_a_session_ends_one_gap_after_its_last_action(output: Output) -> None:
    user1 = ("user1", "10:00:00", "10:14:00", 4, 12.5)
    user2 = ("user2", "10:05:00", "10:10:00", 1, 0.0)
    user3 = ("user3", "10:00:00", "10:10:00", 2, 0.0)
    user2_again = ("user2", "10:30:00", "10:35:00", 1, 0.0)
    assert output["five minutes"].batches == {0: [], 1: [user1, user2, user3], 2: [user2_again]}
    assert output["tablets have thirty"].batches == {0: [], 1: [user1, user3], 2: []}
    assert output.outcomes == {"update": "refused", "complete": "allowed"}


@golden("monitoring_windows")
def test_irregular_windows_average_the_readings_that_they_contain(output: Output) -> None:
    ((*_, audit), *others) = output.sections[0].batches[0]
    assert audit == (100.5 + 101.0 + 102.0) / 3
    assert output.sections[0].batches[0][0][:3] == ("audit", "rack1", 3)
    assert others == [
        ("audit", "rack2", 2, 104.75),
        ("night round", "rack1", 1, 99.5),
        ("visit", "rack1", 1, 100.5),
        ("visit", "rack2", 1, 99.5),
    ]


@golden("everyday_windows")
def test_the_four_everyday_windows_close_and_open_at_their_edges(output: Output) -> None:
    day = "2018-03-02"
    words = [
        (f"{day} 10:00:00", "open", 1),
        (f"{day} 10:05:00", "close", 1),
        (f"{day} 10:05:00", "open", 2),
        (f"{day} 10:10:00", "close", 1),
        (f"{day} 10:10:00", "open", 1),
    ]
    assert output["words in 10 minutes, every 5"].batches == {0: words, 1: []}
    assert output["the same words without a watermark"].batches == {0: words}
    maxima = [("2018-03-01 00:00:00", 31.5), (f"{day} 00:00:00", 33.0)]
    assert output["maximum temperature per day"].batches == {0: maxima, 1: []}
    errors = [(f"{day} 10:00:00", 1), (f"{day} 10:15:00", 2)]
    assert output["errors per 15 minutes"].batches == {0: errors, 1: []}
    amounts = [(f"{day} 10:00:00", 2, 20.0), (f"{day} 11:00:00", 1, 5.0)]
    assert output["transactions per hour"].batches == {0: amounts, 1: []}


@golden("time_zones")
def test_windows_follow_utc_in_every_session_and_local_days_need_local_dates(
    output: Output,
) -> None:
    in_utc = {0: [("2023-03-25 00:00:00", 2), ("2023-03-26 00:00:00", 1)]}
    assert output["day in UTC"].batches == in_utc
    shifted = output["day with an offset of 23 hours"].batches
    assert shifted == {0: [("2023-03-24 23:00:00", 1), ("2023-03-25 23:00:00", 2)]}
    local = output["date in Berlin"].batches
    assert local == {0: [("2023-03-25", 1), ("2023-03-26", 1), ("2023-03-27", 1)]}
    shown = output["day in UTC, shown by a session in Berlin"].batches
    assert shown == {0: [("2023-03-25 01:00:00", 2), ("2023-03-26 01:00:00", 1)]}
