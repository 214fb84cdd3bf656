"""Each gate fails on its own fault, and on no other; limits name what a valid point violated."""

import pytest
from msgspec.structs import replace

from loadtest.measure.gates import Compared, Findings, Gate, gates, is_valid
from loadtest.measure.latency import Percentiles
from loadtest.measure.limits import violated_limits
from loadtest.measure.result import PointResult, Process
from loadtest.plan import Gates, Limits
from loadtest.run import summary_line

GOOD = Findings(
    sent=1000, acknowledged=1000, stored=1000, unread=0, compared=(Compared("alerts", 40, 0, 0),),
    schedule_lag_p99_ms=8.0, tail_s=0.4, latencies=500,
)  # fmt: skip
DEAD_LETTERS = Compared("dead letters", 3, 0, 0, is_result=False)
LIMITS = Gates(schedule_lag_ms=100, tail_s=5, min_latencies=100)


def reasons(found: Findings, limits: Gates = LIMITS, trigger: str = "real-time") -> list[str]:
    return [gate.reason for gate in gates(found, limits, trigger) if gate.passed is False]


def test_a_good_point_passes_all_gates() -> None:
    checks = gates(GOOD, LIMITS, "real-time")
    assert is_valid(checks)
    assert [gate.passed for gate in checks] == [True] * 6


NOT_ONCE = "the topics do not hold each record once"


FAULTS: list[tuple[dict[str, object], str]] = [
    ({"acknowledged": 999}, f"{NOT_ONCE} (1,000 sent, 999 acknowledged, 1,000 stored)"),
    ({"stored": 999}, f"{NOT_ONCE} (1,000 sent, 1,000 acknowledged, 999 stored)"),
    ({"stored": 1001}, f"{NOT_ONCE} (1,000 sent, 1,000 acknowledged, 1,001 stored)"),
    ({"unread": 1}, "the jobs did not read all records (1 of 1,000 unread)"),
    (
        {"compared": (Compared("alerts", 40, 1, 0),)},
        "output differs from the truth (alerts: 40 expected, 1 missing, 0 wrong)",
    ),
    (
        {"compared": (Compared("alerts", 40, 0, 1),)},
        "output differs from the truth (alerts: 40 expected, 0 missing, 1 wrong)",
    ),
    (
        {"compared": (Compared("alerts", 0, 0, 0), DEAD_LETTERS)},
        "output differs from the truth (alerts: 0 expected, 0 missing, 0 wrong; "
        "dead letters: 3 expected, 0 missing, 0 wrong)",
    ),
    (
        {"compared": (Compared("dead letters", 3, 1, 0, is_result=False),)},
        "output differs from the truth (dead letters: 3 expected, 1 missing, 0 wrong)",
    ),
    (
        {"schedule_lag_p99_ms": 19_071.0},
        "producer fell behind schedule (p99 19.1 s, limit 100 ms)",
    ),
    (
        {"tail_s": 5.1},
        "the last output came too late (5.1 s after the last record, limit 5 s)",
    ),
    ({"tail_s": None}, "no output came (no output)"),
    ({"latencies": 99}, "too few latencies (99, at least 100 needed)"),
]


def test_each_fault_fails_one_gate_with_its_reason() -> None:
    found = [(changes, reasons(replace(GOOD, **changes))) for changes, _ in FAULTS]
    assert found == [(changes, [reason]) for changes, reason in FAULTS]


def test_without_offsets_missing_outputs_mean_unread_records() -> None:
    found = replace(GOOD, unread=None, compared=(Compared("alerts", 40, 2, 0), DEAD_LETTERS))
    assert reasons(found) == [
        "the jobs did not read all records (2 of 40 outputs missing)",
        "output differs from the truth (alerts: 40 expected, 2 missing, 0 wrong; "
        "dead letters: 3 expected, 0 missing, 0 wrong)",
    ]


def test_wrong_or_lost_output_is_an_error_and_output_that_is_still_to_come_is_not() -> None:
    wrong, missing = Compared("alerts", 40, 0, 1), Compared("alerts", 40, 1, 0)
    cases: list[tuple[dict[str, object], bool]] = [
        ({"compared": (missing,)}, True),
        ({"compared": (missing,), "unread": None}, True),
        ({"compared": (missing,), "unread": 1}, False),
        ({"compared": (missing,), "unread": None, "idle": False}, False),
        ({"compared": (wrong,), "unread": None, "idle": False}, True),
        ({"compared": (wrong,), "unread": 1}, True),
        ({"schedule_lag_p99_ms": 9e9, "tail_s": 9e9, "latencies": 0, "unread": 1}, False),
    ]
    found = [
        (changes, any(gate.is_error for gate in gates(replace(GOOD, **changes), LIMITS, "x")))
        for changes, _ in cases
    ]
    assert found == cases


def test_a_gate_that_cannot_be_checked_neither_passes_nor_fails() -> None:
    for compared, detail in (
        ((), "not compared"),
        ((DEAD_LETTERS,), "not compared; dead letters: 3 expected, 0 missing, 0 wrong"),
    ):
        checks = gates(replace(GOOD, unread=None, compared=compared), LIMITS, "real-time")
        assert [(gate.name, gate.detail) for gate in checks if gate.passed is None] == [
            ("all records read", "the job reports no offsets, and no output was compared"),
            ("output matches the truth", detail),
        ]
        assert is_valid(checks)


def test_a_catch_up_is_invalid_if_nothing_shows_that_all_records_were_read() -> None:
    found = replace(
        GOOD, unread=None, compared=(DEAD_LETTERS,), catch_up=True,
        schedule_lag_p99_ms=None, latencies=None,
    )  # fmt: skip
    assert reasons(found) == [
        "nothing shows that all records were read "
        "(the job reports no offsets, and no output was compared)"
    ]
    assert reasons(replace(found, compared=GOOD.compared)) == []
    assert reasons(replace(found, unread=0)) == []


def test_flush_records_are_stored_but_not_sent() -> None:
    assert reasons(replace(GOOD, stored=1002, flushes=2)) == []


def test_a_point_that_sent_nothing_is_invalid() -> None:
    found = replace(GOOD, sent=0, acknowledged=0, stored=0)
    assert reasons(found) == [f"{NOT_ONCE} (0 sent, 0 acknowledged, 0 stored)"]


def test_a_catch_up_has_no_gates_for_schedule_tail_and_latencies() -> None:
    found = replace(GOOD, schedule_lag_p99_ms=None, tail_s=900, latencies=None)
    checks = gates(found, LIMITS, "micro-batch")
    assert len(checks) == 3
    assert is_valid(checks)


def test_micro_batches_have_more_time_for_the_last_output() -> None:
    tails = [("real-time", 11), ("micro-batch", 11), ("micro-batch", 91)]
    passed = [
        reasons(replace(GOOD, tail_s=tail_s), Gates(), trigger) == [] for trigger, tail_s in tails
    ]
    assert passed == [False, True, False]


def test_a_violated_limit_is_named_with_its_value_and_an_unmeasured_one_is_violated() -> None:
    point = PointResult(
        label="x", variant="", rate=1000, repeat=0, jobs=("overheating",), trigger="real-time",
        began="", gates=[], lag_slope=10.0, warm_throughput_per_s=79_000,
        from_schedule=Percentiles(count=9, p50=15, p95=40, p99=60.5, p999=90, max=2100),
    )  # fmt: skip
    limits = Limits(p50_ms=15, p99_ms=60, max_ms=2000, warm_records_per_s=80_000, lag_growth=0.009)
    assert violated_limits(point, limits) == [
        "p99 60.5 ms, limit 60 ms",
        "max 2.1 s, limit 2.0 s",
        "warm throughput 79,000 records/s, limit 80,000 records/s",
        "lag grows by 10 records/s, limit 9",
    ]
    unmeasured = replace(point, from_schedule=None, warm_throughput_per_s=None, lag_slope=None)
    assert violated_limits(unmeasured, limits) == [
        "p50 not measured, limit 15 ms",
        "p99 not measured, limit 60 ms",
        "max not measured, limit 2.0 s",
        "warm throughput not measured, limit 80,000 records/s",
        "lag growth not measured",
    ]
    assert violated_limits(unmeasured, Limits()) == []


def test_limits_apply_to_latencies_and_to_window_delays() -> None:
    fast = Percentiles(count=9, p50=1, p95=1, p99=1, p999=1, max=1)
    slow = Percentiles(count=9, p50=16, p95=40, p99=61, p999=90, max=2100)
    point = PointResult(
        label="x", variant="", rate=1000, repeat=0, jobs=("overheating", "silent_sensor"),
        trigger="real-time", began="", gates=[], from_schedule=fast, window_delay=slow,
    )  # fmt: skip
    limits = Limits(p50_ms=15, p99_ms=60, max_ms=2000)
    bounds = ["p50 16 ms, limit 15 ms", "p99 61 ms, limit 60 ms", "max 2.1 s, limit 2.0 s"]
    delays = [f"window delay {bound}" for bound in bounds]
    assert violated_limits(point, limits) == delays
    assert violated_limits(replace(point, from_schedule=None), limits) == delays
    both = replace(point, from_schedule=slow)
    assert violated_limits(both, limits) == bounds + delays
    assert violated_limits(replace(point, window_delay=fast), limits) == []
    assert summary_line(point) == (
        "  x, repeat 1: p50 1.0 ms, p99 1.0 ms of 9 outputs; "
        "window delay p50 16.0 ms, p99 61.0 ms of 9 outputs"
    )


@pytest.mark.parametrize("passed", [True, False])
def test_the_line_of_a_point_names_other_programs_that_use_much(passed: bool) -> None:
    gate = Gate(name="x", passed=passed, detail="", failure="it failed")
    point = PointResult(
        label="x", variant="", rate=1000, repeat=0, jobs=("overheating",), trigger="real-time",
        began="", gates=[gate], processes={"other programs": Process(cpu_percent=121.3, rss_mib=0)},
    )  # fmt: skip
    busy = "; other programs used 121 % of a processor"
    assert summary_line(point).endswith(busy)
    quiet = replace(point, processes={"other programs": Process(cpu_percent=4, rss_mib=0)})
    assert summary_line(quiet) == summary_line(point).removesuffix(busy)
    assert summary_line(replace(point, processes={})) == summary_line(quiet)
