"""Golden figures of the lessons on running queries and on recovery."""

import json
import re

from tests.unit.lessons_golden.output import Output, golden


@golden("watching_a_query")
def test_an_idle_query_waits_and_a_restart_keeps_its_id(output: Output) -> None:
    idle = {
        "message": "Waiting for data to arrive",
        "isDataAvailable": False,
        "isTriggerActive": False,
    }
    for start in ("first start", "restart"):
        assert output[start].value == f"name users, active True, status {idle}"
        facts = output[start].facts
        assert facts["found again by id"] == "True"
        assert facts["active in the session"] == "['users']"
        assert facts["after stop"] == "active False, in the session []"
    assert output["the same id"].value == "True; the same runId: False"


@golden("watching_a_query")
def test_the_plan_restores_and_saves_the_two_rows_of_state(output: Output) -> None:
    facts = output["first start"].facts
    assert facts["state"] == "stateStoreSave, 2 rows"
    assert facts["in the plan"] == "StateStoreRestore, StateStoreSave"
    assert {"latestOffset", "walCommit", "addBatch", "commitOffsets", "triggerExecution"} <= set(
        facts["durations of"].split(", ")
    )


@golden("watching_a_query")
def test_the_progress_has_the_offsets_of_the_topic_and_the_rows_of_the_sink(
    output: Output,
) -> None:
    for start, batch, end in (("first start", 1, 3), ("restart", 2, 4)):
        facts = output[start].facts
        before, after = (json.dumps({"watching-in": {"0": offset}}) for offset in (end - 1, end))
        assert facts["last progress"] == f"batch {batch}, 1 rows"
        source = facts["source KafkaV2[Subscribe[watching-in]]"]
        assert source == f"offsets {before} to {after}"
        assert facts["behind the latest offset"] == "0"
        assert facts["sink KafkaTable"] == "1 rows"
        arrived = facts["rows arrived per second above 0"]
        assert arrived == f"{start == 'first start'}; processed: True"
    assert output["first start"].facts["recent progress"] == "2"


@golden("listener")
def test_the_listener_hears_start_progress_and_end(output: Output) -> None:
    assert output.headings[:3] == [
        "started users",
        "batch 0: 2 rows, observed {'last_by_name': 'user2'}",
        "ended, exception None",
    ]


@golden("listener")
def test_the_metrics_system_has_gauges_under_the_name_of_the_query(output: Output) -> None:
    gauges = [line.strip().partition(" = ") for line in output["gauges"].lines]
    values = {name.removeprefix("spark.streaming.users."): value for name, _, value in gauges}
    assert values == {
        "eventTime-watermark": "0",
        "inputRate-total": "",
        "latency": "",
        "processingRate-total": "",
        "states-rowsTotal": "2",
        "states-usedBytes": "",
    }


@golden("several_queries")
def test_one_query_fails_and_the_other_continues(output: Output) -> None:
    active = [value for name, _, value in (h.partition(": ") for h in output.headings)
              if name == "active"]  # fmt: skip
    assert active == ["['lenient', 'strict']", "['lenient']"]
    assert output["a query ended within a second"].value == "False"
    assert output["after resetTerminated, a query ended within a second"].value == "False"
    for failure in ("raised", "exception of strict"):
        assert output[failure].value.startswith("CAST_INVALID_INPUT: The value 'twelve'")
    assert output["exception of lenient"].value == "None"
    assert output["strict"].rows == [("user1", 12)]
    assert output["lenient"].rows == [("user1", 12), ("user2", None)]


@golden("checkpoint")
def test_a_new_checkpoint_writes_all_again_only_without_the_log_and_an_old_one_nothing(
    output: Output,
) -> None:
    assert output["first start"].value == "rows in the output: 2"
    assert output["again"].value == "rows in the output: 2"
    with_log = output["with a new checkpoint and the sink's log"]
    assert with_log.value == "rows in the output: 2"
    assert output["with a new checkpoint and no log"].value == "rows in the output: 4"
    assert output["with the old checkpoint and no output"].value == "rows in the output: 0"
    assert output["first start"].facts == {
        "commits": "['0', '1']",
        "metadata": "a file",
        "offsets": "['0', '1']",
        "sources": "['0']",
        "state": "['0']",
    }


@golden("checkpoint")
def test_without_a_checkpoint_location_only_a_sink_without_files_gets_a_temporary_one(
    output: Output,
) -> None:
    to_noop, to_files = "no checkpoint, to noop", "no checkpoint, to files"
    assert output.outcomes == {to_noop: "allowed", to_files: "refused"}
    assert output.details[to_files].startswith("checkpointLocation must be specified")
    temporary, adaptive, removed = output[to_noop].lines
    assert temporary.startswith("  WARN: Temporary checkpoint location created")
    assert adaptive.startswith("  WARN: spark.sql.adaptive.enabled is not supported")
    assert removed == "  the folder exists after the end: False"


@golden("kill_and_restart")
def test_a_killed_batch_is_written_again_with_the_same_rows(output: Output) -> None:
    assert output["after the kill"].value == "written ['out 0', 'out 1'], committed ['0']"
    written = "written ['out 0', 'out 1', 'out 1', 'out 2']"
    assert output["after the restart"].value == written
    same = output["each batch equals the run without a kill"]
    assert same.value == "[True, True, True]"
    assert same.rows == [("user1", 10), ("user2", 20), ("user3", 30), ("user9", 6)]


@golden("changes_between_runs")
def test_a_checkpoint_allows_each_change_but_one_of_its_sources(output: Output) -> None:
    assert output.headings[0] == "the first run wrote ['user1 1', 'user2 1']"
    wrote = dict.fromkeys(output.outcomes, "wrote [] and []") | {
        "nothing": "wrote ['user1 2', 'user3 1'] and []",
        "a rate limit": "wrote ['user1 2', 'user3 1'] and []",
        "a filter": "wrote ['user3 1'] and []",
        "a projection": "wrote ['user1 2 4', 'user3 1 2'] and []",
        "the output topic": "wrote [] and ['user1 2', 'user3 1']",
    }
    assert {name: output[name].value.rpartition("; ")[2] for name in wrote} == wrote
    allowed = [name for name, word in output.outcomes.items() if word == "allowed"]
    refused = [name for name, word in output.outcomes.items() if word == "refused"]
    assert allowed == [
        "nothing",
        "a rate limit",
        "a filter",
        "a projection",
        "the output topic",
        "the type of sink",
    ]
    assert refused == ["the source topic", "a second source", "the type of source"]
    found, requested = re.findall(r"\[(\d)\] sources", output.details["a second source"])
    assert (found, requested) == ("1", "2")


@golden("changes_of_state")
def test_a_checkpoint_allows_a_change_of_meaning_but_none_of_schema(output: Output) -> None:
    first_count, first_join = (s for s in output.sections if s.heading == "the first run")
    assert first_count.batches == {0: [("user1", 1), ("user2", 1)]}
    continued = {1: [("user1", 2), ("user3", 1)]}
    for change, batches in {
        "nothing": continued,
        "the grouping key": {1: [("close", 1), ("open", 1)]},
        "another aggregate of the same type": {1: [("user1", 6), ("user3", 1)]},
        "shuffle partitions": continued,
    }.items():
        assert output[change].value == "allowed"
        assert output[change].batches == batches
    for change, condition in {
        "the grouping key's type": "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "one aggregate more": "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "no aggregation": "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    }.items():
        assert output[change].value.startswith(f"refused, {condition}: ")
        assert output[change].batches == {}
    day = "2018-03-02"
    user1 = ("user1", f"{day} 10:00:00", "user1", f"{day} 10:10:00")
    user2 = ("user2", f"{day} 10:05:00", "user2", f"{day} 10:20:00")
    assert first_join.batches == {0: [user1], 1: []}
    inner, outer = output["join from inner to inner"], output["join from inner to left_outer"]
    assert inner.value == outer.value == "allowed"
    assert inner.batches == {2: [user2], 3: []}
    without_click = [
        ("user1", f"{day} 10:00:00", None, None),
        ("user3", f"{day} 10:30:00", None, None),
    ]
    assert outer.batches == {2: [user2], 3: without_click}
