"""Golden figures of the lessons about small forms, shown figures and wrong published claims."""

import pytest

from lessons.harness.catalogue import load

COMMON_CLAIMS = {
    "file_source": "Some texts say that only new files are read",
    "slow_batches": "Many texts say that a query with an interval of N seconds runs a batch every",
    "output_modes": "Some texts say that append mode does not support aggregations",
    "schema_inference": "Some texts say that streams cannot infer a schema",
    "partition_discovery": "A common text says that the folders have to exist when the query",
    "continuous_limits": "A published list names map, flatMap and mapPartitions as supported",
    "listener": "although older texts deny it",
    "bad_records": "which many texts mention, is not part of open-source Spark",
}
"""How a lesson names a published claim that it refutes."""

# Consecutive lines of an output, with single spaces; what the lessons' code computes is written
# here by hand. Figures are published ones, or measured with this Spark version.
GOLDEN = {
    "latency": [
        "continuous faster than micro-batch: True\nreal-time faster than micro-batch: True",
    ],
    "listener": [
        "batch 0: 2 rows, observed {'last_by_name': 'user2'}",
        "spark.streaming.users.states-rowsTotal = 2",
        "spark.streaming.users.inputRate-total\nspark.streaming.users.latency\n"
        "spark.streaming.users.processingRate-total",
    ],
    "watching_a_query": [
        'source KafkaV2[Subscribe[watching-in]]: offsets {"watching-in": {"0": 2}} to '
        '{"watching-in": {"0": 3}}\nbehind the latest offset: 0\nsink KafkaTable: 1 rows\n'
        "rows arrived per second above 0: True; processed: True",
        'source KafkaV2[Subscribe[watching-in]]: offsets {"watching-in": {"0": 3}} to '
        '{"watching-in": {"0": 4}}\nbehind the latest offset: 0\nsink KafkaTable: 1 rows\n'
        "rows arrived per second above 0: False; processed: True",
        "the same id: True; the same runId: False",
    ],
    "output_modes": [
        "filter\nappend allowed\nupdate allowed\ncomplete refused, "
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION: Invalid streaming output mode: complete",
        "count per ts, watermark on ts\nappend allowed\nupdate allowed\ncomplete allowed",
        "update mode writes the same: True",
    ],
    "window_sums": [
        "tumbling, 1 minute\nbatch 0\nstart end sum\n10:00:00 10:01:00 6\n10:01:00 10:02:00 15",
        "1 minute every minute\nbatch 0\nstart end sum\n10:00:00 10:01:00 6\n10:01:00 10:02:00 15",
        "09:59:00 10:01:00 6\n10:00:00 10:02:00 21\n10:01:00 10:03:00 15",
        "09:59:30 10:00:30 3\n10:00:00 10:01:00 6\n10:00:30 10:01:30 12\n10:01:00 10:02:00 15\n"
        "10:01:30 10:02:30 6",
        "average per minute\nbatch 0\nstart end avg\n10:00:00 10:01:00 2.0\n10:01:00 10:02:00 5.0",
    ],
    "everyday_windows": [
        "the same words without a watermark\nbatch 0\nwindow what count\n"
        "2018-03-02 10:00:00 open 1\n2018-03-02 10:05:00 close 1\n2018-03-02 10:05:00 open 2\n"
        "2018-03-02 10:10:00 close 1\n2018-03-02 10:10:00 open 1\nmaximum temperature per day",
        "words in 10 minutes, every 5\nbatch 0\nwindow what count\n2018-03-02 10:00:00 open 1\n"
        "2018-03-02 10:05:00 close 1\n2018-03-02 10:05:00 open 2\n2018-03-02 10:10:00 close 1\n"
        "2018-03-02 10:10:00 open 1\nbatch 1\nwindow what count\n(no rows)",
        "2018-03-01 00:00:00 31.5\n2018-03-02 00:00:00 33.0",
        "2018-03-02 10:00:00 1\n2018-03-02 10:15:00 2",
        "2018-03-02 10:00:00 2 20.0\n2018-03-02 11:00:00 1 5.0",
    ],
    "user_minutes": [
        "from a socket, the last batch\nminute user count\n10:00 user1 2\n10:01 user1 1\n"
        "10:01 user2 1\n10:02 user2 1",
        "batch 0\nminute user count\n10:00 user1 2\nbatch 1\nminute user count\n10:00 user1 2\n"
        "10:01 user1 1\n10:01 user2 1\nbatch 2\nminute user count\n10:00 user1 2\n10:01 user1 1\n"
        "10:01 user2 1\n10:02 user2 1",
    ],
    "watermark_order": [
        "the late click comes third, watermark before the count, update mode\n"
        "batch 0\nstart user clicks\n10:00 user1 2\n10:00 user2 1\n10:05 user2 1\n"
        "batch 1\nstart user clicks\n10:05 user1 1\n10:05 user2 2\n10:10 user1 1\n"
        "batch 2\nstart user clicks\n10:00 user1 3",
        "the late click comes third, watermark after the count, complete mode\n"
        "batch 0\nstart user clicks\n10:00 user1 2\n10:00 user2 1\n10:05 user2 1\n"
        "batch 1\nstart user clicks\n10:00 user1 2\n10:00 user2 1\n10:05 user1 1\n"
        "10:05 user2 2\n10:10 user1 1\n"
        "batch 2\nstart user clicks\n10:00 user1 3\n10:00 user2 1\n10:05 user1 1\n"
        "10:05 user2 2\n10:10 user1 1",
        "batch 2\nstart user clicks\n10:10 user2 1\nbatch 3\nstart user clicks\n(no rows)",
        "1 3 2023-08-01 10:00:20 0 5\n2 1 2023-08-01 10:05:10 0 4\n3 1 2023-08-01 10:05:10 1 4",
        "batch 3\nstart user clicks\n10:00 user1 3\n10:00 user2 1\n10:05 user1 1\n10:05 user2 2\n"
        "10:10 user1 1\n10:10 user2 1",
        "3 1 2023-08-01 10:05:00 0 6",
    ],
    "memory_sink": [
        "{2017-06-02 07:55:00, 2017-06-02 08:05:00} 99.5\n"
        "{2017-06-02 08:00:00, 2017-06-02 08:10:00} 101.25\n"
        "{2017-06-02 08:05:00, 2017-06-02 08:15:00} 102.75\n"
        "{2017-06-02 08:10:00, 2017-06-02 08:20:00} 103.75\n"
        "{2017-06-02 08:15:00, 2017-06-02 08:25:00} 105.0",
        "{2017-06-02 08:15:00, 2017-06-02 08:25:00} rack1 102.0\n"
        "{2017-06-02 08:15:00, 2017-06-02 08:25:00} rack2 108.0",
        "restart in complete mode: allowed\nwindow avg_temp\n"
        "{2017-06-02 07:55:00, 2017-06-02 08:05:00} 99.5\n"
        "{2017-06-02 08:00:00, 2017-06-02 08:10:00} 101.25\n"
        "{2017-06-02 08:05:00, 2017-06-02 08:15:00} 102.75\n"
        "{2017-06-02 08:10:00, 2017-06-02 08:20:00} 103.75\n"
        # With a third reading of 90 after those of 102 and 108.
        "{2017-06-02 08:15:00, 2017-06-02 08:25:00} 100.0\n"
        "{2017-06-02 08:20:00, 2017-06-02 08:30:00} 90.0\n"
        "restart in update mode: refused, "
        "This query does not support recovering from checkpoint location",
    ],
    "parquet_sink": [
        f"an aggregation to {kind}\nupdate refused, STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE: "
        "Invalid streaming output mode: update\ncomplete refused, "
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE: Invalid streaming output mode: complete"
        for kind in ("parquet", "json")
    ],
    "checkpoint": [
        "commits: ['0', '1']\nmetadata: a file\noffsets: ['0', '1']\nsources: ['0']\nstate: ['0']\n"
        "again: rows in the output: 2\nwith a new checkpoint: rows in the output: 4\n"
        "with the old checkpoint and no output: rows in the output: 0\n"
        "no checkpoint, to noop: allowed",
        "WARN: spark.sql.adaptive.enabled is not supported in streaming DataFrames/Datasets and "
        "will be disabled.\nthe folder exists after the end: False",
    ],
    "continuous": [
        "every epoch is printed as a batch: True\nvalues [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0.01] s "
        "apart\n8 partitions on 8 cores: rows from 8 arrived\n"
        "9 partitions on 8 cores: rows from 8 arrived",
    ],
    "continuous_limits": [
        "select, where, explode refused, Continuous processing does not support Generate "
        "operations\na Python function allowed\nmapInPandas refused, Continuous processing does "
        "not support MapInPandas operations",
        "a task that fails: DIVIDE_BY_ZERO: Division by zero",
    ],
    "low_latency_restart": [
        "continuous, restart, stopped before a commit\n"
        '[\'{"rack": "rack1", "temperature": 101.0}\']\n'
        "continuous, restart again\n"
        '[\'{"rack": "rack1", "temperature": 101.0}\']',
        'real-time, first start, stopped after a commit\n[\'{"rack":"rack1","count":1}\', '
        '\'{"rack":"rack2","count":1}\']\nreal-time, restart, stopped before a commit\n'
        '[\'{"rack":"rack1","count":2}\']\nreal-time, restart again\n'
        '[\'{"rack":"rack1","count":2}\']',
    ],
    "steps": [
        "id user_id device_id num_steps miles_walked calories_burnt timestamp value\n"
        '950000 24 5 5014 2.507 250.7 2018-07-22 06:44:25.732 {"source": "watch", "battery": 81}\n'
        '950001 24 13 2536 1.268 126.8 2018-07-22 06:44:26.732 {"source": "phone", "battery": 64}',
    ],
    "rate_source": [
        "the first values are 0 to 19: True\nmilliseconds between rows: [10]\n"
        "rate with {'rowsPerSecond': 100, 'rampUpTime': '1s', 'numPartitions': 2}\n"
        "rows in the first and second second: 50, 100\npartitions: [0, 1]",
        "2017-07-14 02:40:00 0\n2017-07-14 02:40:00 1",
    ],
    "console_sink": [
        "| id|action| event_time|\n+---+------+-------------------+\n"
        "| 1| open|2018-03-02 10:01:00|\n| 2| open|2018-03-02 10:09:23|\n"
        "| 3| open|2018-03-02 10:07:46|\n+---+------+-------------------+\n"
        "only showing top 3 rows",
    ],
    "file_source": [
        "1.json existed at the start\nbatch 0\nname age\nAda 36\nGrace 45\n2.json arrived\n"
        "batch 1\nname age\nEdsger 41\n1.json was changed\nno batch",
        "batch 2\nname age\nnull null",
    ],
    "slow_batches": ["no batch started before the previous one had ended: True"],
    "schema_inference": [
        "a schema is given: allowed; 0 jobs; name string, age int",
        "no schema is given, inference is on: allowed; 1 jobs; age double, name string",
    ],
    "partition_discovery": [
        "empty_day_in_schema, schema rack string, temperature double, day date: allowed\nbatch 0\n"
        "rack temperature day\nrack2 105.5 2017-06-02",
    ],
    "file_formats": [
        f"{kind}: batch 0\nname age\nAna 28\nBob 32\nJorge 30"
        for kind in ("csv", "json", "orc", "parquet")
    ],
    "foreach_batch": [
        "persist=False: 3 rows to 2 sinks, computed 6 times\n"
        "persist=True: 3 rows to 2 sinks, computed 3 times",
    ],
    "totals_timeout": [
        "batch 1\nuserId total state\nuser1 17.75 open",
        "batch 4\nuserId total state\nuser1 17.75 ended",
    ],
    "processing_time_timeout": ["a active\na silent\nb active\nb silent"],
    "monitoring_windows": [
        "audit rack1 3 101.16666666666667\naudit rack2 2 104.75\nnight round rack1 1 99.5\n"
        "visit rack1 1 100.5\nvisit rack2 1 99.5",
    ],
    "typed_rows": [
        f"{way}\nbatch 0\ndevice deviceType signal\nA thermometer 25.0\nB thermometer 16.0"
        for way in ("with_records", "with_columns")
    ],
    "table_api": [
        "even_rows: value bigint, half bigint; first values [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]"
    ],
}


def missing(output: str, figures: list[str]) -> list[str]:
    """Return the figures that are not whole lines of an output, whatever its columns' widths."""
    text = "\n".join(" ".join(line.split()) for line in output.splitlines())
    return [figure for figure in figures if f"\n{figure}\n" not in f"\n{text}\n"]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_expected_output_has_the_golden_figures(name: str) -> None:
    assert missing(load(name).expected.read_text(encoding="utf-8"), GOLDEN[name]) == []


def test_a_changed_figure_and_a_longer_line_are_found() -> None:
    output = "batch 0\n  user   count\n  user1  12\n"
    assert missing(output, ["user count\nuser1 12"]) == []
    assert missing(output, ["user1 1", "user1 2", "ser1 12"]) == ["user1 1", "user1 2", "ser1 12"]


def test_a_changed_file_is_not_read_again() -> None:
    assert "Texas" in load("file_source").source
    assert "Texas" not in load("file_source").expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMON_CLAIMS)
def test_a_lesson_names_the_published_claim_that_it_refutes(name: str) -> None:
    assert COMMON_CLAIMS[name] in " ".join(load(name).explanation.split())
