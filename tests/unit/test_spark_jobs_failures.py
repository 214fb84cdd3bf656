"""What a user reads when a query fails, and whether it is started again."""

import pytest

from spark_jobs.runtime.failures import explain, is_permanent, names_a_missing_topic


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not",
            "a topic is missing: run python -m broker topics.",
        ),
        (
            "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost",
            "the topic no longer holds the records that the checkpoint continues from "
            "(the topic was deleted, or its retention is too short): "
            "choose another --checkpoint-root to start from the beginning.",
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator",
            "the state in the checkpoint is that of other options or of another version: "
            "use those, or choose another --checkpoint-root to start from the beginning.",
        ),
        (
            "java.io.IOException: No space left on device",
            "the disk is full: free some space and start the job again; "
            "it continues from its checkpoint.",
        ),
        (
            "Destination exists and is not a directory: /c/offsets\n\tat a.B.c(B.scala:1)",
            "a folder cannot be written (Destination exists and is not a directory: /c/offsets): "
            "correct the folder; the query continues from its checkpoint.",
        ),
        (
            "Caused by: java.nio.file.AccessDeniedException: /c/x: Permission denied",
            "a folder cannot be written (java.nio.file.AccessDeniedException: /c/x: Permission "
            "denied): correct the folder; the query continues from its checkpoint.",
        ),
        (
            "Caused by: java.nio.file.AccessDeniedException: /c/x",
            "a folder cannot be written (java.nio.file.AccessDeniedException: /c/x): "
            "correct the folder; the query continues from its checkpoint.",
        ),
        (
            "Caused by: java.nio.file.FileSystemException: /c/offsets/1: Not a directory",
            "a folder cannot be written (java.nio.file.FileSystemException: /c/offsets/1: Not a "
            "directory): correct the folder; the query continues from its checkpoint.",
        ),
        (
            "Job aborted\n=== Streaming Query ===\n\tat a.B.c(B.scala:1)\n"
            "Caused by: org.apache.spark.SparkException: Task failed\n\tat a.B.c(B.scala:2)\n"
            "Caused by: java.lang.ArithmeticException: / by zero\n\tat a.B.c(B.scala:3)",
            "java.lang.ArithmeticException: / by zero",
        ),
        (
            "An error occurred while calling o57.start.\n"
            ": org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme: s4\n"
            "\tat a.B.c(B.java:1)",
            "org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme: s4",
        ),
        ("something new\nwith details", "something new"),
        # As Spark begins the message of a `ParseException`.
        (
            "\n[INVALID_TYPED_LITERAL] not an interval\n\n== SQL ==",
            "[INVALID_TYPED_LITERAL] not an interval",
        ),
    ],
)
def test_why_a_query_failed_is_one_sentence(failure: str, sentence: str) -> None:
    assert explain(RuntimeError(failure)) == sentence


def test_a_failure_that_says_nothing_is_still_explained() -> None:
    assert explain(RuntimeError("")) != ""


@pytest.mark.parametrize(
    ("failure", "permanent", "missing_topic"),
    [
        ("[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost", True, False),
        (
            "Some data may have been lost because they are not available in Kafka any more; either",
            True,
            False,
        ),
        (
            "kafka.clients.consumer.OffsetOutOfRangeException: Fetch position",
            True,
            False,
        ),
        ("[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema", True, False),
        ("errors.UnknownTopicOrPartitionException: This server does not host", False, True),
        ("java.io.IOException: No space left on device", False, False),
        (
            "common.errors.TimeoutException: Call(callName=fetchMetadata)",
            False,
            False,
        ),
    ],
)
def test_only_what_a_restart_cannot_change_is_permanent(
    failure: str, permanent: bool, missing_topic: bool
) -> None:
    error = RuntimeError(failure)
    assert (is_permanent(error), names_a_missing_topic(error)) == (permanent, missing_topic)
