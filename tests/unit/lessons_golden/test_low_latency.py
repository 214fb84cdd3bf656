"""Golden figures of the lessons on low-latency triggers."""

import ast
import json

from tests.unit.lessons_golden.output import Output, golden


@golden("continuous")
def test_a_partition_without_a_core_never_gives_a_row(output: Output) -> None:
    hot = json.dumps({"rack": "rack2", "temperature": 105.5})
    assert output["hot readings"].value == str([hot])
    options = {"rowsPerSecond": 100, "rampUpTime": "5s", "numPartitions": 1}
    rate = output["rate with "]
    assert rate.heading == f"rate with {options} to the console"
    assert rate.facts["every epoch is printed as a batch"] == "True"
    assert rate.lines[1].strip() == f"values {list(range(10))}, [0.01] s apart"
    assert output["8 partitions on 8 cores"].value == "rows from 8 arrived"
    assert output["9 partitions on 8 cores"].value == "rows from 8 arrived"


@golden("continuous_limits")
def test_continuous_processing_allows_filters_and_maps_only(output: Output) -> None:
    (attempts,) = (section for section in output.sections if not section.heading)
    assert attempts.outcomes == {
        "rate to memory": "allowed",
        "rate to the console": "allowed",
        "select, where, explode": "refused",
        "a Python function": "allowed",
        "mapInPandas": "refused",
        "mapInArrow": "refused",
        "from files": "refused",
        "to foreachBatch": "refused",
        "an aggregation": "refused",
        "deduplication": "refused",
        "a sort": "refused",
        "a union": "refused",
        "a join with a table": "refused",
        "current_timestamp()": "refused",
    }
    assert output["to Parquet"].value == "Unknown type of trigger: ContinuousTrigger(1000)"
    assert output["a task that fails"].value == "DIVIDE_BY_ZERO: Division by zero"


@golden("real_time")
def test_real_time_counts_come_per_record(output: Output) -> None:
    counts = output["counts"]
    assert [json.loads(text) for text in ast.literal_eval(counts.value)] == [
        {"rack": "rack1", "count": 1},
        {"rack": "rack2", "count": 1},
        {"rack": "rack1", "count": 2},
    ]


@golden("real_time")
def test_the_real_time_trigger_refuses_what_needs_whole_batches(output: Output) -> None:
    details = output["counts"].details
    assert set(output["counts"].outcomes.values()) == {"refused"}
    for attempt, condition in {
        "append mode": "OUTPUT_MODE_NOT_SUPPORTED",
        "complete mode": "OUTPUT_MODE_NOT_SUPPORTED",
        "files": "INPUT_STREAM_NOT_SUPPORTED",
        "rate": "INPUT_STREAM_NOT_SUPPORTED",
        "to foreachBatch": "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST",
        "a Python state": "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST",
        "dropDuplicatesWithinWatermark": "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST",
    }.items():
        assert details[attempt].startswith(f"STREAMING_REAL_TIME_MODE.{condition}: ")
    limit = "maxOffsetsPerTrigger is not compatible with real time mode"
    assert details["a limit per batch"] == limit
    assert {"a session window", "a join of two streams"} <= set(details)


@golden("low_latency_restart")
def test_rows_of_an_open_epoch_or_batch_come_again_after_a_restart(output: Output) -> None:
    rack1, rack2 = {"rack": "rack1", "temperature": 99.5}, {"rack": "rack2", "temperature": 105.5}
    following = {"rack": "rack1", "temperature": 101.0}
    one, other = {"rack": "rack1", "count": 1}, {"rack": "rack2", "count": 1}
    two = {"rack": "rack1", "count": 2}
    for trigger, first, again in (
        ("continuous", [rack1, rack2], [following]),
        ("real-time", [one, other], [two]),
    ):
        for start, records in {
            "first start, stopped after a commit": first,
            "restart, stopped before a commit": again,
            "restart again": again,
        }.items():
            (line,) = output[f"{trigger}, {start}"].lines
            assert [json.loads(text) for text in ast.literal_eval(line.strip())] == records


@golden("latency")
def test_continuous_and_real_time_are_faster_than_batches(output: Output) -> None:
    assert output["continuous faster than micro-batch"].value == "True"
    assert output["real-time faster than micro-batch"].value == "True"
