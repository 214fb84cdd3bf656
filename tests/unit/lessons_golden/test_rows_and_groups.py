"""Golden figures of the lessons on single rows, aggregates without time and unsupported queries."""

from tests.unit.lessons_golden.output import Output, golden, modes


@golden("stateless")
def test_a_query_over_single_rows_is_the_same_in_sql_over_a_view(output: Output) -> None:
    strong = {0: [("a",), ("d",)]}
    assert output["select device where signal > 10"].batches == strong
    assert output["the same in SQL"].batches == strong
    percent = output["map: signal in percent of 20"].batches
    assert percent == {0: [("a", 62.5), ("b", 40.0), ("c", 50.0), ("d", 75.0)]}
    tags = output["explode: a row per tag"].batches
    assert tags == {0: [("a", "north"), ("a", "roof"), ("b", "south"), ("d", "north")]}
    assert output["union with itself"].batches == {0: [("a",), ("a",), ("d",), ("d",)]}
    per_type = {0: [("camera", 2), ("thermometer", 2)]}
    assert output["count per deviceType"].batches == per_type
    assert output["the same in SQL over the view"].batches == per_type
    assert "count(1)" in output.text  # SQL's name of the column


@golden("typed_rows")
def test_record_classes_and_columns_give_the_same_rows(output: Output) -> None:
    amplified = {0: [("A", "thermometer", 25.0), ("B", "thermometer", 16.0)]}
    assert output["with_records"].batches == amplified
    assert output["with_columns"].batches == amplified


@golden("counts_per_type")
def test_update_mode_writes_only_the_groups_of_the_batch(output: Output) -> None:
    assert output["all"].batches == {0: [(3,)], 1: [(5,)]}
    assert output["per type"].batches == {
        0: [("camera", 1), ("thermometer", 2)],
        1: [("door", 1), ("thermometer", 3)],
    }
    assert output["count, min, max, avg per type"].batches == {
        0: [("camera", 1, 10.0, 10.0, 10.0), ("thermometer", 2, 8.0, 12.5, 10.25)],
        1: [("door", 1, 1.0, 1.0, 1.0), ("thermometer", 3, 3.5, 12.5, 8.0)],
    }


@golden("running_count")
def test_the_running_count_continues_from_file_to_file_as_published(output: Output) -> None:
    first = [("user1", 1), ("user2", 1)]
    all_users = [("user1", 2), ("user2", 1), ("user3", 1)]
    assert output["complete"].batches == {0: first, 1: all_users}
    assert output["update"].batches == {0: first, 1: [("user1", 2), ("user3", 1)]}


@golden("unsupported_operations")
def test_what_older_texts_call_unsupported_is_allowed_now_or_refused(output: Output) -> None:
    assert output["two aggregations"].outcomes == modes("allowed", "refused", "refused")
    assert output["limit"].outcomes == modes("allowed", "refused", "refused")
    assert output["distinct"].outcomes == modes("allowed", "allowed", "refused")
    assert output["sort"].outcomes == modes("refused", "refused", "refused")
    sorted_counts = output["sort after an aggregation"]
    assert sorted_counts.outcomes == modes("refused", "refused", "allowed")
    eager = ("count()", "show()", "collect()", "foreach(print)", "describe()", "write.parquet()")
    assert output["eager actions"].outcomes == dict.fromkeys(eager, "refused")


@golden("unsupported_operations")
def test_a_limit_counts_over_the_whole_stream(output: Output) -> None:
    limited = output["limit 2 over two files"]
    assert limited.batches == {0: [("user1", 3), ("user2", 1)], 1: []}
    assert limited.progress == [
        (0, 2, "1970-01-01 00:00:00", 0, 1),
        (1, 2, "2018-03-02 10:01:00", 0, 1),
    ]
