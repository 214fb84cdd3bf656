"""Golden figures of the lessons on the model and on sources."""

from tests.unit.lessons_golden.output import Output, golden


@golden("file_source")
def test_a_file_is_read_once_whether_it_was_there_at_the_start_or_came_later(
    output: Output,
) -> None:
    assert output["1.json existed at the start"].batches == {0: [("Ada", 36), ("Grace", 45)]}
    assert output["2.json arrived"].batches == {1: [("Edsger", 41)]}
    assert output["1.json was changed"].batches == {}
    assert output["half of 3.json was written under a hidden name"].batches == {}
    assert output["other.json arrived with another schema"].batches == {2: [(None, None)]}


@golden("file_formats")
def test_every_format_gives_the_same_three_people(output: Output) -> None:
    people = [("Ana", 28), ("Bob", 32), ("Jorge", 30)]
    for format_with_columns in ("csv", "json", "orc", "parquet"):
        assert output[format_with_columns].batches == {0: people}
    assert output["text"].batches == {0: [("Ana is 28",), ("Bob is 32",), ("Jorge is 30",)]}
    assert len(output.sections) == 5


@golden("schema_inference")
def test_a_stream_of_files_needs_a_schema_or_one_job_that_infers_it(output: Output) -> None:
    given = output["a schema is given"].value
    none = output["no schema is given"].value
    inferred = output["no schema is given, inference is on"].value
    assert given == "allowed; 0 jobs; name string, age int"
    assert none.startswith("refused, Schema must be specified")
    assert none.endswith("; 0 jobs; no stream")
    assert inferred == "allowed; 1 jobs; age double, name string"


@golden("partition_discovery")
def test_a_partition_column_must_be_known_when_the_stream_is_defined(output: Output) -> None:
    second_day = ("rack2", 105.5, "2017-06-02")
    with_a_day = output["with_a_day, "]
    assert with_a_day.batches == {0: [("rack1", 99.5, "2017-06-01"), second_day]}
    assert list(output.outcomes.values()) == ["allowed", "refused", "allowed"]
    assert output["empty, "].batches == {}
    assert output["empty_day_in_schema, "].batches == {0: [second_day]}


@golden("file_order")
def test_the_oldest_file_comes_first_unless_the_latest_is_wanted(output: Output) -> None:
    assert output["options {}"].batches == {0: [(1,), (2,), (3,)]}
    one_per_batch = output["options {'maxFilesPerTrigger': 1}"]
    assert one_per_batch.batches == {0: [(1,)], 1: [(2,)], 2: [(3,)]}
    latest_first = output["options {'maxFilesPerTrigger': 1, 'latestFirst': True}"]
    assert latest_first.batches == {0: [(3,)], 1: [(2,)], 2: [(1,)]}


@golden("file_cleanup")
def test_a_cleaned_source_keeps_only_the_files_of_the_last_batch(output: Output) -> None:
    assert output["off"].value == "remaining 1.json, 2.json, 3.json"
    assert output["delete"].value == output["archive"].value == "remaining 3.json"
    assert output["archived"].value == "1.json, 2.json"


@golden("socket_words")
def test_a_socket_cannot_send_its_lines_again(output: Output) -> None:
    once = [("a", 1), ("reads", 1), ("spark", 1), ("stream", 1)]
    assert output["sent to a query with a checkpoint: spark reads a stream"].rows == once
    assert output["sent while no query runs"].value == "spark was not there"
    assert output.outcomes == {"": "refused"}
    assert output.details == {"": "Offsets committed out of order: 0 followed by -1"}
    from_nothing = [("a", 1), ("of", 1), ("spark", 1), ("stream", 1)]
    assert output["sent to a query with a new checkpoint"].rows == from_nothing


@golden("rate_source")
def test_the_rate_sources_count_from_zero_at_equal_distances(output: Output) -> None:
    rate = output["rate: "]
    assert rate.value == "columns timestamp, value"
    assert rate.facts["the first values are 0 to 19"] == "True"
    assert rate.facts["milliseconds between rows"] == "[10]"
    options = {"rowsPerSecond": 100, "rampUpTime": "1s", "numPartitions": 2}
    ramp = output["rate with "]
    assert ramp.heading == f"rate with {options}"
    assert ramp.facts == {
        "rows in the first and second second": "50, 100",
        "partitions": "[0, 1]",
    }
    at_the_start = "2017-07-14 02:40:00"
    micro_batch = output["rate-micro-batch"].batches
    assert micro_batch == {0: [(at_the_start, 0), (at_the_start, 1)]}


@golden("kafka_source")
def test_offsets_count_within_a_partition_and_a_start_can_name_them(output: Output) -> None:
    columns = output["columns"].value
    assert columns.startswith("key binary, value binary, topic string, partition int, offset big")
    earliest = output["{'startingOffsets': 'earliest'}"]
    assert earliest.batches == {
        0: [
            (0, 0, "rack1", 99.5),
            (0, 1, "rack2", 99.5),
            (0, 2, "rack1", 100.5),
            (1, 0, "rack5", 80.0),
        ],
        1: [(0, 3, "rack2", 105.5), (0, 4, "rack1", 101.0)],
    }
    from_offset_1 = output["""{'startingOffsets': '{"kafka-source": {"0": 1, "1": -2}}'}"""]
    assert from_offset_1.batches == {
        0: [
            (0, 1, "rack2", 99.5),
            (0, 2, "rack1", 100.5),
            (0, 3, "rack2", 105.5),
            (1, 0, "rack5", 80.0),
        ],
        1: [(0, 4, "rack1", 101.0)],
    }
