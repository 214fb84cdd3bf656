"""Golden figures of the model, of own state and of the state stores."""

import json
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

from tests.support import ROOT
from tests.unit.lessons_golden.output import Output, Rows, golden

AGGREGATE = (
    "HashAggregate, Exchange, HashAggregate, StateStoreRestore, HashAggregate, StateStoreSave,"
    " HashAggregate"
)


def records(path: str) -> list[dict[str, Any]]:
    """Return the records of a data file."""
    text = (ROOT / "lessons" / "data" / path).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@golden("first_stream")
def test_a_stream_has_the_schema_and_in_the_end_the_result_of_a_table(output: Output) -> None:
    readings = defaultdict[str, list[float]](list)
    for record in records("first_stream/1.json") + records("first_stream/2.json"):
        readings[record["rack"]].append(record["temperature"])
    averages: Rows = [(rack, sum(v) / len(v)) for rack, v in sorted(readings.items())]
    assert averages == [("rack1", 100.0), ("rack2", 101.0)]
    assert output["the static result"].rows == averages
    batches = output["the stream, one file per batch"].batches
    assert batches == {0: [("rack1", 99.0), ("rack2", 101.0)], 1: averages}
    schema = [
        "root",
        " |-- rack: string (nullable = true)",
        " |-- temperature: double (nullable = true)",
    ]
    assert output.headings[:10] == [
        "static: isStreaming False",
        *schema,
        "plan, starting at the source: FileScan, HashAggregate, Exchange, HashAggregate",
        "stream: isStreaming True",
        *schema,
        f"plan, starting at the source: StreamingRelation, {AGGREGATE}",
    ]


def windows(*files: str) -> Rows:
    """Return readings by start of a window of ten minutes that slides by five."""
    counts: Counter[str] = Counter()
    for record in (record for file in files for record in records(f"loop/{file}")):
        minute = int(record["ts"][11:13]) * 60 + int(record["ts"][14:16])
        latest = minute // 5 * 5
        counts.update(f"{start // 60:02}:{start % 60:02}" for start in (latest - 5, latest))
    return sorted(counts.items())


@golden("loop")
def test_each_batch_is_planned_before_it_runs_and_committed_after(output: Output) -> None:
    logs = [h for h in output.headings if "offsets" in h]
    assert logs == [
        "batch 0 runs: offsets [0], commits []; the result table",
        "afterwards: offsets [0], commits [0]",
        "batch 1 runs: offsets [0, 1], commits [0]; the result table",
        "afterwards: offsets [0, 1], commits [0, 1]",
        "afterwards: offsets [0, 1], commits [0, 1]",
    ]
    assert output["nothing new"].lines == []
    assert output["batches in the progress"].value == "[0, 1]; durations of"
    steps = [line.split()[0] for line in output["batches in the progress"].lines]
    assert steps == ["poll", "plan", "run", "commit"]


@golden("loop")
def test_the_result_table_is_computed_in_each_batch_not_in_each_slide(output: Output) -> None:
    first, both = windows("1.json"), windows("1.json", "2.json")
    assert [start for start, _ in first] == [start for start, _ in both]  # no slide between
    assert len(first) == 4
    assert output["batch 0 runs"].rows == first
    assert output["batch 1 runs"].rows == both
    same = "the same as the query over the input table so far: True"
    assert [h for h in output.headings if h.startswith("the same")] == [same, same]
    assert [h for h in output.headings if h.endswith(".json")] == ["1.json", "2.json"]


@golden("own_totals")
def test_own_state_gives_the_totals_of_a_group_by(output: Output) -> None:
    totals, counts = defaultdict[str, Decimal](Decimal), Counter[str]()
    batches: dict[int, Rows] = {}
    transactions = records("user_totals/transactions.json")
    for number, batch in enumerate((transactions[:2], transactions[2:])):
        for record in batch:
            totals[record["userId"]] += Decimal(str(record["amount"]))
            counts[record["userId"]] += 1
        users = sorted({record["userId"] for record in batch})
        batches[number] = [(user, float(totals[user]), counts[user]) for user in users]
    assert batches[1] == [("user1", 18.75, 3)]
    for name in ("built_in", "with_group_state", "with_processor"):
        assert output[name].batches == batches
        assert output[name].progress == [(0, 2, "none", 0, 2), (1, 2, "none", 0, 2)]


@golden("own_totals")
def test_only_the_built_in_aggregate_adds_up_before_the_shuffle(output: Output) -> None:
    plans = [section.value for section in output.sections if section.heading.startswith("plan")]
    assert plans == [
        AGGREGATE,
        "Exchange, Sort, FlatMapGroupsInPandasWithState",
        "Exchange, Sort, TransformWithStateInPySpark",
    ]


@golden("state_stores")
def test_memory_follows_the_rows_only_in_the_hdfs_backed_store(output: Output) -> None:
    assert output["without a setting"].value == "HDFSBackedStateStoreProvider"
    for name, suffix, grows in (
        ("HDFSBackedStateStoreProvider", "delta", "True"),
        ("RocksDBStateStoreProvider", "changelog", "False"),
        ("RocksDBStateStoreProvider without trackTotalNumberOfRows", "changelog", "False"),
    ):
        facts = output[name].facts
        assert facts["rows written in each batch"] == "[500, 9500, 10]"
        assert facts["more than 10 times the memory for 20 times the rows"] == grows
        assert facts["half as much again for a batch of 10 rows"] == grows
        assert facts["in the checkpoint"] == ", ".join(f"{n}.{suffix}" for n in (1, 2, 3))


@golden("state_stores")
def test_rocksdb_counts_its_rows_by_reading_each_before_writing_it(output: Output) -> None:
    rows, reads = "rows after each batch", "in the last batch"
    assert output["HDFSBackedStateStoreProvider"].facts[rows] == "[500, 10000, 10000]"
    tracked = output["RocksDBStateStoreProvider"].facts
    assert (tracked[rows], tracked[reads]) == ("[500, 10000, 10000]", "10 reads to write 10 rows")
    untracked = output["RocksDBStateStoreProvider without trackTotalNumberOfRows"].facts
    assert (untracked[rows], untracked[reads]) == ("[0, 0, 0]", "0 reads to write 10 rows")


@golden("state_stores")
def test_the_store_is_chosen_once_and_decides_what_may_run(output: Output) -> None:
    assert output["the first checkpoint, restarted with RocksDB"].value == "4.delta"
    of_new_state = "transformWithState with the HDFS-backed store"
    assert output.outcomes[of_new_state] == "refused"
    assert output.details[of_new_state].startswith(
        "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"
    )
