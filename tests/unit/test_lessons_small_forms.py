"""Lessons name the published claims that they refute."""

import pytest

from lessons.harness.catalogue import load

COMMON_CLAIMS = [
    ("loop", '"Since 2.3": Structured Streaming came with Spark 2.0'),
    ("loop", '"There are no batches": the model has none, the engine has'),
    ("loop", '"The slide says how often it is computed": the slide says where windows begin'),
    ("file_source", "Some texts say that only new files are read"),
    (
        "slow_batches",
        "Many texts say that a query with an interval of N seconds runs a batch every",
    ),
    ("output_modes", "Some texts say that append mode does not support aggregations"),
    ("schema_inference", "Some texts say that streams cannot infer a schema"),
    ("partition_discovery", "A common text says that the folders have to exist when the query"),
    ("continuous_limits", "A published list names map, flatMap and mapPartitions as supported"),
    ("listener", "although older texts deny it"),
    ("bad_records", "which many texts mention, is not part of open-source Spark"),
    ("sensor_etl", "Published versions set bad records apart with `badRecordsPath`"),
]
"""How a lesson names a published claim that it refutes."""


def test_a_changed_file_is_not_read_again() -> None:
    assert "Texas" in load("file_source").source
    assert "Texas" not in load("file_source").expected.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "claim"), COMMON_CLAIMS)
def test_a_lesson_names_the_published_claim_that_it_refutes(name: str, claim: str) -> None:
    assert claim in " ".join(load(name).explanation.split())
