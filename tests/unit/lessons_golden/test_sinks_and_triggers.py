"""Golden figures of the lessons on sinks, output modes and triggers."""

import json
import re

from tests.unit.lessons_golden.output import Output, golden, modes


@golden("output_modes")
def test_a_count_can_append_only_with_a_watermark_on_its_group(output: Output) -> None:
    assert output["filter"].outcomes == modes("allowed", "allowed", "refused")
    assert output["count"].outcomes == modes("refused", "allowed", "allowed")
    on_another_column = output["count, watermark on another column"]
    assert on_another_column.outcomes == modes("refused", "allowed", "allowed")
    on_its_group = output["count per window, watermark on ts"]
    assert on_its_group.outcomes == modes("allowed", "allowed", "allowed")


@golden("output_modes")
def test_update_equals_append_without_an_aggregation(output: Output) -> None:
    assert output["the filter in append mode"].batches == {
        0: [("open", "2018-03-02 10:01:00")],
        1: [("open", "2018-03-02 10:03:00")],
        2: [("open", "2018-03-02 10:21:00")],
    }
    assert output["update mode writes the same"].value == "True"


@golden("output_modes")
def test_each_mode_writes_other_rows_of_the_same_counts(output: Output) -> None:
    first = [("10:00", "close", 1), ("10:00", "open", 1)]
    final = [("10:00", "close", 2), ("10:00", "open", 2)]
    later = [("10:20", "open", 1)]
    for mode, batches in {
        "append": {0: [], 1: [], 2: [], 3: final},
        "update": {0: first, 1: final, 2: later, 3: []},
        "complete": {0: first, 1: final, 2: final + later},
    }.items():
        assert output[f"the count per window in {mode} mode"].batches == batches


@golden("console_sink")
def test_the_console_shows_the_published_counts_of_ten_minutes(output: Output) -> None:
    assert re.findall(r"^Batch: (\d+)$", output.text, re.MULTILINE) == ["0", "0"]
    table = output.text.split("Batch: ")[1].splitlines()
    cells = [line.strip("|").split("|") for line in table if line.startswith("|{")]
    assert [(window, action.strip(), int(count)) for window, action, count in cells] == [
        ("{2018-03-02 10:10:00, 2018-03-02 10:20:00}", "open", 2),
        ("{2018-03-02 10:00:00, 2018-03-02 10:10:00}", "close", 6),
        ("{2018-03-02 10:00:00, 2018-03-02 10:10:00}", "open", 8),
    ]


@golden("console_sink")
def test_the_console_shows_rows_without_an_aggregation_as_they_come(output: Output) -> None:
    table = output.text.split("Batch: ")[2].splitlines()
    assert [re.split(r" *\| *", line)[1:-1] for line in table if re.match(r"\| *\d", line)] == [
        ["1", "open", "2018-03-02 10:01:00"],
        ["2", "open", "2018-03-02 10:09:23"],
        ["3", "open", "2018-03-02 10:07:46"],
    ]
    assert table[-1] == "only showing top 3 rows"


@golden("memory_sink")
def test_the_memory_tables_hold_the_published_averages_by_window(output: Output) -> None:
    fleet = output["SELECT window, avg_temp FROM iot "]
    assert fleet.columns == ("window", "avg_temp")
    windows = {
        "{2017-06-02 07:55:00, 2017-06-02 08:05:00}": 99.5,
        "{2017-06-02 08:00:00, 2017-06-02 08:10:00}": 101.25,
        "{2017-06-02 08:05:00, 2017-06-02 08:15:00}": 102.75,
        "{2017-06-02 08:10:00, 2017-06-02 08:20:00}": 103.75,
        "{2017-06-02 08:15:00, 2017-06-02 08:25:00}": 105.0,
    }
    assert fleet.rows == list(windows.items())
    per_rack = output["SELECT window, rack, avg_temp FROM iot_rack "]
    assert per_rack.columns == ("window", "rack", "avg_temp")
    rack1, rack2 = (99.5, 100.0, 100.75, 101.5, 102.0), (99.5, 102.5, 104.75, 106.0, 108.0)
    assert per_rack.rows == [
        (window, rack, average)
        for window, *averages in zip(windows, rack1, rack2, strict=True)
        for rack, average in zip(("rack1", "rack2"), averages, strict=True)
    ]


@golden("memory_sink")
def test_a_memory_table_restarts_from_its_checkpoint_in_complete_mode_only(
    output: Output,
) -> None:
    assert output.outcomes == {
        "restart in complete mode": "allowed",
        "restart in update mode": "refused",
    }
    assert output["restart in complete mode"].rows == [
        ("{2017-06-02 07:55:00, 2017-06-02 08:05:00}", 99.5),
        ("{2017-06-02 08:00:00, 2017-06-02 08:10:00}", 101.25),
        ("{2017-06-02 08:05:00, 2017-06-02 08:15:00}", 102.75),
        ("{2017-06-02 08:10:00, 2017-06-02 08:20:00}", 103.75),
        ("{2017-06-02 08:15:00, 2017-06-02 08:25:00}", (102.0 + 108.0 + 90.0) / 3),
        ("{2017-06-02 08:20:00, 2017-06-02 08:30:00}", 90.0),
    ]


@golden("parquet_sink")
def test_a_file_sink_appends_only_and_reads_only_what_its_log_names(output: Output) -> None:
    assert output["in _spark_metadata"].value == "0, 1"
    written = output["in _spark_metadata"].rows
    assert written == [("rack1", 99.5), ("rack1", 100.5), ("rack2", 99.5)]
    assert "3 files exist, Spark reads 3 rows" in output.headings
    for format_ in ("parquet", "json"):
        aggregation = output[f"an aggregation to {format_}"]
        assert aggregation.outcomes == {"update": "refused", "complete": "refused"}
        for error in aggregation.details.values():
            assert error.startswith("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE: ")


@golden("kafka_sink")
def test_a_repeated_batch_writes_its_records_into_the_topic_again(output: Output) -> None:
    close, open1, open2 = (
        json.dumps({"word": word, "count": count}, separators=(",", ":"))
        for word, count in (("close", 1), ("open", 1), ("open", 2))
    )
    assert output["after 'open close'"].value == str([close, open1])
    assert output["after 'open':"].value == str([close, open1, open2])
    assert output["after the last batch ran again"].value == str([close, open1, open2, open2])


@golden("foreach_sink")
def test_foreach_opens_and_closes_each_partition_and_changes_nothing_in_the_driver(
    output: Output,
) -> None:
    assert output["the list that the function appended to"].value == "[]"
    calls = [line.strip() for line in output["calls that the object logged"].lines]
    assert calls == [
        "open partition 0 of batch 0",
        "process a 7.5",
        "process b 12.0",
        "close, error: None",
        "open partition 0 of batch 1",
        "process c 0.5",
        "close, error: None",
    ]


@golden("foreach_sink")
def test_a_repeated_batch_may_divide_its_rows_into_other_partitions(output: Output) -> None:
    a, b, close = "process a 7.5", "process b 12.0", "close, error: None"
    opens = [f"open partition {number} of batch 0" for number in range(3)]
    for run, calls in {
        "a batch of one file": [opens[0], a, b, close],
        "the same batch again": [opens[0], a, close, opens[1], b, close, opens[2], close],
    }.items():
        assert [line.strip() for line in output[run].lines] == calls


@golden("foreach_batch")
def test_without_persist_each_sink_computes_the_batch_again(output: Output) -> None:
    assert output["persist=False"].value == "3 rows to 2 sinks, computed 6 times"
    assert output["persist=True"].value == "3 rows to 2 sinks, computed 3 times"
    for sink in ("csv", "parquet"):
        assert output[sink].rows == [("a", 15.0, 0), ("b", 24.0, 0), ("c", 1.0, 1)]


@golden("idempotent_upsert")
def test_only_a_stored_batch_number_keeps_a_repeated_batch_from_counting_twice(
    output: Output,
) -> None:
    right, too_much = "[('user1', 17), ('user2', 5)]", "[('user1', 24), ('user2', 5)]"
    assert output["without batch numbers, after two batches"].value == right
    assert output["without batch numbers, after the last batch again"].value == too_much
    assert output["with batch numbers, after two batches"].value == right
    assert output["with batch numbers, after the last batch again"].value == right
    second_query = output["with batch numbers, after a batch of a second query"]
    assert second_query.value == "[('user1', 17), ('user2', 3)]"


@golden("table_api")
def test_the_second_table_has_the_even_rows_of_the_first(output: Output) -> None:
    columns, _, values = output["all_rows"].value.partition("; first values ")
    assert columns == "timestamp timestamp, value bigint"
    assert values == str(list(range(10)))
    columns, _, values = output["even_rows"].value.partition("; first values ")
    assert columns == "value bigint, half bigint"
    assert values == str([0, 2, 4, 6, 8, 10, 12, 14, 16, 18])


@golden("triggers")
def test_once_makes_one_batch_of_all_files_and_available_now_one_of_each(output: Output) -> None:
    for trigger in ("default", "every 2 s", "every 5 s", "once", "available now"):
        once, ends = trigger == "once", trigger in ("once", "available now")
        first, then = (["batch 0 file 1 2"], ["batch 1 file 3"])
        if not once:
            first, then = (["batch 0 file 1", "batch 1 file 2"], ["batch 2 file 3"])
        ended = f", ended by itself: {ends}"
        assert output[f"{trigger}, first start"].value == f"{first}{ended}"
        assert output[f"{trigger}, restart"].value == f"{then}{ended}"
    for seconds in (2, 5):
        waited = output[f"every {seconds} s, first start"].facts
        assert waited == {
            f"the second batch waited for the next multiple of {seconds} s": "True",
        }


@golden("slow_batches")
def test_a_batch_that_is_longer_than_its_interval_delays_the_next(output: Output) -> None:
    assert output["batches"].value == "3"
    assert output["every batch took longer than the interval"].value == "True"
    assert output["no batch started before the previous one had ended"].value == "True"
