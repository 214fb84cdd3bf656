"""Each gate closes on its own fault, and on no other."""

import pytest
from msgspec.structs import replace

from loadtest.measure.gates import Findings, gates, is_valid
from loadtest.plan import Gates

GOOD = Findings(
    sent=1000, acknowledged=1000, held=1000, unread=0, missing=0, wrong=0, expected=40,
    slip_p99_ms=8.0, tail_s=0.4, latencies=500,
)  # fmt: skip
BOUNDS = Gates(slip_ms=100, tail_s=5, outputs=100)


def failed(found: Findings, bounds: Gates = BOUNDS, trigger: str = "real-time") -> list[str]:
    return [gate.name for gate in gates(found, bounds, trigger) if gate.holds is False]


def test_a_good_point_passes_all_gates() -> None:
    checks = gates(GOOD, BOUNDS, "real-time")
    assert is_valid(checks)
    assert [gate.holds for gate in checks] == [True] * 6


@pytest.mark.parametrize(
    ("changes", "gate"),
    [
        ({"acknowledged": 999}, "all sent records are in the topics, once"),
        ({"held": 999}, "all sent records are in the topics, once"),
        ({"held": 1001}, "all sent records are in the topics, once"),
        ({"unread": 1}, "all that was sent was drained"),
        ({"missing": 1}, "the outputs are those of the truth"),
        ({"wrong": 1}, "the outputs are those of the truth"),
        ({"expected": 0}, "the outputs are those of the truth"),
        ({"slip_p99_ms": 100.1}, "the generator kept its schedule"),
        ({"tail_s": 5.1}, "the tail is short"),
        ({"tail_s": None}, "the tail is short"),
        ({"latencies": 99}, "there is a distribution"),
    ],
)
def test_a_fault_closes_its_own_gate(changes: dict[str, object], gate: str) -> None:
    assert failed(replace(GOOD, **changes)) == [gate]


def test_where_spark_tells_no_offsets_missing_outputs_say_that_it_was_not_drained() -> None:
    found = replace(GOOD, unread=None, missing=2)
    assert failed(found) == ["all that was sent was drained", "the outputs are those of the truth"]


def test_what_cannot_be_asked_is_neither_held_nor_failed() -> None:
    checks = gates(replace(GOOD, unread=None, missing=None, wrong=None), BOUNDS, "real-time")
    assert [gate.name for gate in checks if gate.holds is None] == [
        "all that was sent was drained",
        "the outputs are those of the truth",
    ]
    assert is_valid(checks)


def test_records_that_only_move_watermarks_are_held_but_not_sent() -> None:
    assert failed(replace(GOOD, held=1002, flushes=2)) == []


def test_a_run_that_sent_nothing_is_none() -> None:
    found = replace(GOOD, sent=0, acknowledged=0, held=0)
    assert failed(found) == ["all sent records are in the topics, once"]


def test_a_catch_up_has_neither_schedule_nor_tail_nor_latencies() -> None:
    checks = gates(replace(GOOD, slip_p99_ms=None, tail_s=900, latencies=None), BOUNDS, "micro-batch")
    assert len(checks) == 3
    assert is_valid(checks)


@pytest.mark.parametrize(
    ("trigger", "tail_s", "holds"),
    [("real-time", 11, False), ("micro-batch", 11, True), ("micro-batch", 91, False)],
)
def test_micro_batches_may_have_the_longer_tail(trigger: str, tail_s: float, holds: bool) -> None:
    assert (failed(replace(GOOD, tail_s=tail_s), Gates(), trigger) == []) is holds
