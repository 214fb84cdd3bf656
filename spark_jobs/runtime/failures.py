"""Explain in a sentence why a query failed, and tell whether a restart can help."""

import re

_TOPIC_IS_MISSING = ("UnknownTopicOrPartition", "UNKNOWN_TOPIC")
_RECORDS_ARE_GONE = (
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRange",
    "FAIL_ON_DATA_LOSS",
    "Some data may have been lost because they are not available in Kafka any more",
)
_UNWRITABLE = (
    "AccessDeniedException",
    "Permission denied",
    "Read-only file system",
    "is not a directory",
    "Not a directory",
)
_STATE_DOES_NOT_FIT = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STREAM_CHECKPOINT_METADATA_MISMATCH",
)


def explain(failure: Exception) -> str:
    """Return one sentence that says why a query failed.

    It says what to do where the user can do something, else it is the first cause.
    """
    text = str(failure)
    if _has(text, _TOPIC_IS_MISSING):
        return "a topic is missing: run python -m broker topics."
    if _has(text, _RECORDS_ARE_GONE):
        return (
            "the topic no longer holds the records that the checkpoint continues from "
            "(the topic was deleted, or its retention is too short): "
            "choose another --checkpoint-root to start from the beginning."
        )
    if _has(text, _STATE_DOES_NOT_FIT):
        return (
            "the state in the checkpoint is that of other options or of another version: "
            "use those, or choose another --checkpoint-root to start from the beginning."
        )
    if "No space left on device" in text:
        return (
            "the disk is full: free some space and start the job again; "
            "it continues from its checkpoint."
        )
    causes = re.findall(
        r"^(?:Caused by: |: )?([\w.$]+(?:Exception|Error): .*)$", text, flags=re.MULTILINE
    )
    first_line = next((line for line in text.splitlines() if line.strip()), repr(failure))
    cause = causes[-1] if causes else first_line
    if _has(cause, _UNWRITABLE):
        return (
            f"a folder cannot be written ({cause.rstrip('.')}): correct the folder; "
            "the query continues from its checkpoint."
        )
    return cause


def names_a_missing_topic(failure: Exception) -> bool:
    """Tell whether a broker has said that a topic does not exist.

    A broker that has just started may say so, too, for a moment.
    """
    return _has(str(failure), _TOPIC_IS_MISSING)


def is_permanent(failure: Exception) -> bool:
    """Tell whether a query that is started again will fail for the same reason."""
    return _has(str(failure), (*_RECORDS_ARE_GONE, *_STATE_DOES_NOT_FIT))


def _has(text: str, marks: tuple[str, ...]) -> bool:
    return any(mark in text for mark in marks)
