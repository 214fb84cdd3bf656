"""Golden figures of the lessons on custom state."""

from tests.unit.lessons_golden.output import Output, golden

NO_WATERMARK = "1970-01-01 00:00:00"


@golden("rack_warning")
def test_three_consecutive_hot_readings_warn_and_two_do_not(output: Output) -> None:
    rack1, rack2 = ("rack1", "WARNING", "08:16:04"), ("rack2", "WARNING", "08:16:08")
    cool = ("rack1", "NORMAL", "08:21:05")
    for mode in ("update", "append"):
        one_by_one = output[f"one file per batch, {mode}"]
        assert one_by_one.batches == {0: [rack1], 1: [rack2], 2: [], 3: [cool]}
        assert one_by_one.progress == [
            (0, 4, "none", 0, 1),
            (1, 4, "none", 0, 2),
            (2, 4, "none", 0, 3),
            (3, 2, "none", 0, 1),
        ]
    at_once = output["one batch, update"]
    assert at_once.batches == {0: [cool, rack1, rack2]}
    assert at_once.progress == [(0, 14, "none", 0, 1)]


@golden("rack_warning")
def test_the_function_is_called_once_per_group_and_batch(output: Output) -> None:
    calls = [heading for heading in output.headings if "called" in heading]
    assert calls == [f"the function was called {times} times" for times in (5, 5, 3)]


@golden("user_totals")
def test_a_total_continues_for_ever_with_either_format_of_the_time(output: Output) -> None:
    assert output.sections[0].batches == {
        0: [
            ("user1", "2023-07-24 03:00:00", 10.5, 1),
            ("user2", "2023-07-24 03:10:00", 5.0, 1),
        ],
        1: [("user1", "2023-07-25 03:00:00", 18.75, 3)],
    }


@golden("totals_timeout")
def test_a_total_ends_an_hour_after_the_latest_transaction(output: Output) -> None:
    (totals,) = output.sections
    assert totals.batches == {
        0: [("user1", 10.5, "open"), ("user2", 5.0, "open")],
        1: [("user1", 17.75, "open")],
        2: [("user2", 7.0, "open")],
        3: [("user3", 3.0, "open")],
        4: [("user1", 17.75, "ended"), ("user3", 4.0, "open")],
        5: [("user2", 7.0, "ended"), ("user3", 10.0, "open"), ("user4", 4.0, "open")],
        6: [("user4", 4.0, "ended")],
    }
    assert totals.progress == [
        (0, 2, NO_WATERMARK, 0, 2),
        (1, 1, "2023-07-24 03:00:00", 0, 2),
        (2, 1, "2023-07-24 03:40:00", 0, 2),
        (3, 1, "2023-07-24 04:35:00", 0, 3),
        (4, 1, "2023-07-24 05:00:00", 0, 2),
        (5, 2, "2023-07-24 06:50:00", 0, 2),
        (6, 0, "2023-07-24 06:55:00", 0, 1),
    ]


@golden("processing_time_timeout")
def test_devices_become_silent_without_any_new_row(output: Output) -> None:
    states = [("a", "active"), ("a", "silent"), ("b", "active"), ("b", "silent")]
    assert output.sections[0].rows == states
    assert output["rows read: "].value == "2, all in the first batch: True"


@golden("state_variables")
def test_a_value_a_list_and_a_map_continue_in_the_next_batch(output: Output) -> None:
    assert output.sections[0].batches == {
        0: [
            ("user1", 2, "['/home', '/racks']", "{'/home': 1, '/racks': 1}"),
            ("user2", 1, "['/home']", "{'/home': 1}"),
        ],
        1: [("user1", 4, "[]", "{'/home': 2, '/racks': 2}")],
    }


@golden("timers")
def test_a_timer_expires_when_the_watermark_passes_it(output: Output) -> None:
    (silences,) = output.sections
    assert silences.batches == {0: [], 1: [], 2: [("rack1", "2017-06-02 08:00:00")], 3: []}
    assert silences.progress == [
        (0, 2, NO_WATERMARK, 0, 0),
        (1, 1, "2017-06-02 08:00:00", 0, 0),
        (2, 1, "2017-06-02 08:11:00", 0, 0),
        (3, 0, "2017-06-02 08:24:00", 0, 0),
    ]


@golden("state_ttl")
def test_a_count_with_a_ttl_starts_again_from_one(output: Output) -> None:
    assert output["event 1"].value == "ever 1, lately 1"
    assert output["event 2"].value == "ever 2, lately 1"


@golden("initial_state")
def test_totals_continue_from_the_earlier_ones_and_add_them_once(output: Output) -> None:
    assert output.sections[0].batches == {
        0: [("user1", 107), ("user3", 3)],
        1: [("user1", 114), ("user3", 6)],
    }


@golden("processor_test")
def test_the_tester_gives_what_the_processors_give_in_a_query(output: Output) -> None:
    assert output["visits as expected"].value == "True"
    assert output["value state"].value == "(2,)"
    assert output["after setting the count to 41"].value == "count 42, pages []"
    assert output["watermark 600000"].value == "[]"
    assert output["watermark 601000"].value == "[{'rack': 'rack1', 'silent_since_ms': 1000}]"


@golden("group_order")
def test_rows_of_a_group_come_as_read_until_they_are_sorted(output: Output) -> None:
    in_a_function, in_aggregates = output.sections
    assert in_a_function.batches == {
        0: [("user1", "[3, 1, 2]", "[1, 2, 3]"), ("user2", "[2, 1]", "[1, 2]")]
    }
    assert in_aggregates.batches == {0: [("user1", 2, 3), ("user2", 1, 2)]}


@golden("state_plan")
def test_a_stateful_count_shuffles_restores_merges_and_saves(output: Output) -> None:
    assert [line.split() for line in output["the plan, starting at the source"].lines] == [
        ["HashAggregate", "partial_count"],
        ["Exchange"],
        ["HashAggregate", "merge_count"],
        ["StateStoreRestore"],
        ["HashAggregate", "merge_count"],
        ["StateStoreSave"],
        ["HashAggregate", "count"],
    ]


@golden("state_plan")
def test_a_key_stays_in_its_partition_whatever_the_setting(output: Output) -> None:
    words = [
        ("apple", 2, 3),
        ("banana", 2, 3),
        ("cherry", 1, 2),
        ("date", 1, 0),
        ("elder", 1, 1),
        ("fig", 1, 3),
    ]
    assert output["spark.sql.shuffle.partitions = 4"].rows == words
    assert output["spark.sql.shuffle.partitions = 8"].rows == [*words, ("grape", 1, 2)]
