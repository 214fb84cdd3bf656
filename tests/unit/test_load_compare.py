"""Intervals and verdicts, checked against values computed by hand."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from events.cli import UserFacingError
from loadtest.measure.gates import Gate
from loadtest.measure.latency import Percentiles
from loadtest.measure.result import PointResult, Run, SavedRun
from loadtest.reports import performance
from loadtest.reports.compare import Difference, compare, interval, select_variant


def point(label: str, p99: float, repeat: int = 0, passed: bool = True) -> PointResult:
    latency = Percentiles(count=500, p50=p99 / 2, p95=p99, p99=p99, p999=p99, max=p99)
    return PointResult(
        label=label, variant="", rate=100, repeat=repeat, jobs=("overheating",),
        trigger="real-time", began="", gates=[Gate("a gate", passed, "so")], from_schedule=latency,
    )  # fmt: skip


def saved(*points: PointResult, capacity: dict[str, float | None] | None = None) -> SavedRun:
    run = Run(
        name="a",
        description="",
        began="2026-11-21T06:26:00.123Z",
        machine={},
        points=1,
        capacity=capacity or {},
    )
    return SavedRun(run=run, points=list(points), folder=Path())


def test_intervals_of_two_and_three_repeats_are_students() -> None:
    # Mean 20, standard deviation 2, t = 4.303: 4.303 * 2 / sqrt(3) = 4.969.
    found = interval([18, 20, 22])
    assert (found.mean, found.repeats) == (20, 3)
    assert found.low == pytest.approx(15.031, abs=0.001)
    assert found.high == pytest.approx(24.969, abs=0.001)
    # Standard deviation sqrt(2), t = 12.706: 12.706 * sqrt(2) / sqrt(2).
    assert interval([9, 11]).high == pytest.approx(22.706)


def test_one_repeat_has_no_interval_and_no_repeat_is_an_error() -> None:
    assert str(interval([7])) == "7 (one repeat)"
    with pytest.raises(ValueError, match="nothing was measured"):
        interval([])


# Three values in steps of d have a half width of 4.303 * d / sqrt(3) = 2.484 * d. So the first
# ratio is between 2 / f and 2 * f with f = exp(hypot(2.484 / 100, 2.484 / 200)) = 1.028.
VERDICTS: list[tuple[list[float], list[float], str]] = [
    ([100, 101, 99], [200, 201, 199], "B is 2.00 times A (1.95 to 2.06)"),
    ([200, 201, 199], [100, 101, 99], "B is 0.50 times A (0.49 to 0.51)"),
    ([100, 101, 99], [78, 79, 77], "B is 0.78 times A (0.75 to 0.81)"),
    ([78, 79, 77], [100, 101, 99], "B is 1.28 times A (1.23 to 1.33)"),
    ([100, 101, 99], [120, 121, 119], "less than 25 % apart: B is 1.16 to 1.24 times A"),
    ([100, 101, 99], [100, 101, 99], "less than 25 % apart: B is 0.97 to 1.04 times A"),
    ([100, 101, 99], [124, 125, 123], "cannot tell: B is 1.2 to 1.3 times A"),
    ([100, 110, 90], [100, 110, 90], "cannot tell: B is 0.7 to 1.4 times A"),
    ([100, 300, 200], [400, 200, 300], "cannot tell: B is 0.34 to 6.7 times A"),
    ([0, 0, 0], [1, 1, 1], "cannot tell"),
    ([100, 101, 99], [1000], "one repeat: cannot compare"),
]


def test_figures_differ_by_25_percent_or_are_alike_within_it_or_not_comparable() -> None:
    found = [Difference("x", "p99 ms", interval(a), interval(b)).verdict for a, b, _ in VERDICTS]
    assert found == [verdict for *_, verdict in VERDICTS]


def test_valid_points_are_compared_by_label() -> None:
    a = saved(
        point("x", 10), point("x", 12, 1), point("x", 900, 2, passed=False), point("only a", 1)
    )
    b = saved(point("x", 11), point("only b", 1))
    assert [(d.label, d.metric, d.a.mean, d.a.repeats, d.b.mean) for d in compare(a, b)] == [
        ("x", "p50 ms", 5.5, 2, 5.5),
        ("x", "p99 ms", 11, 2, 11),
        ("x", "max ms", 11, 2, 11),
    ]


def test_a_comparison_shows_first_how_fast_the_machine_was() -> None:
    slow, usual = ([replace(point("x", 10, n), machine_speed=speed + n) for n in (-1, 0, 1)]
                   for speed in (80, 170))  # fmt: skip
    first = next(compare(saved(*usual), saved(*slow)))
    assert (first.metric, first.verdict) == ("machine speed", "B is 0.47 times A (0.45 to 0.49)")
    (row,) = performance.rows(saved(*slow))
    assert "; machine speed: 80 (77.5 to 82.5, 3 repeats) | 3 of 3 |" in row


def test_variants_of_one_run_can_be_compared() -> None:
    both = saved(
        *(replace(point(f"{name} 100/s", p99, repeat), variant=name) for name, p99s in
          (("slow", (40, 42)), ("slower", (90, 91))) for repeat, p99 in enumerate(p99s))
    )  # fmt: skip
    found = [
        (d.label, d.metric, d.a.mean, d.b.mean)
        for d in compare(select_variant(both, "slow"), select_variant(both, "slower"))
    ]
    assert found[1] == ("100/s", "p99 ms", 41, 90.5)
    with pytest.raises(UserFacingError, match="has no variant 'fast'"):
        select_variant(both, "fast")


TABLE = "| run | point |\n|---|---|\n| b | old |\n| a | old |"
PAGE = f"# Words\n\n{performance.BEGIN}\n{TABLE}\n{performance.END}\nMore.\n"


def test_a_runs_rows_are_replaced_and_other_rows_stay() -> None:
    rows = performance.rows(saved(point("x", 10), point("x", 12, 1), point("y", 1, passed=False)))
    text = performance.with_rows(PAGE, "a", rows)
    assert text == PAGE.replace(
        "| b | old |\n| a | old |\n",
        "| a | x | p50 ms: 5.5 (-0.853 to 11.9, 2 repeats); p99 ms: 11 (-1.71 to 23.7, 2 repeats); "
        "max ms: 11 (-1.71 to 23.7, 2 repeats) | 2 of 2 | 2026-11-21 |\n"
        "| a | y | INVALID: a gate (so) | 0 of 1 | 2026-11-21 |\n"
        "| b | old |\n",
    )


def test_a_capacity_row_names_the_sustained_and_the_failed_rate() -> None:
    (row,) = performance.rows(saved(capacity={"": 28_500.0}))
    assert row == "| a | capacity | sustained events/s: 28,500 | | 2026-11-21 |"
    row, *_ = performance.rows(saved(point("100/s", 10), capacity={"": 50.0}))
    assert row == "| a | capacity | sustained events/s: 50; not sustained: 100 | | 2026-11-21 |"
    row, *_ = performance.rows(saved(point("100/s", 10), capacity={"": None}))
    assert row == "| a | capacity | sustained events/s: 0; not sustained: 100 | | 2026-11-21 |"


def test_the_row_says_in_how_many_repeats_a_limit_was_violated() -> None:
    first = replace(point("x", 10), violated_limits=["p50 5 ms, limit 4 ms", "p99 10 ms, limit 9"])
    second = replace(point("x", 11, 1), violated_limits=["p99 11 ms, limit 9"])
    (row,) = performance.rows(saved(first, second, point("x", 9, 2)))
    assert row.endswith(
        "; LIMIT VIOLATED in 2 of 3 repeats: p50 5 ms, limit 4 ms; p99 10 ms, limit 9; "
        "p99 11 ms, limit 9 | 3 of 3 | 2026-11-21 |"
    )


def test_an_invalid_points_row_has_its_reason_and_no_violated_limit() -> None:
    bad = replace(point("x", 10, passed=False), violated_limits=["p99 10 ms, limit 9 ms"])
    (row,) = performance.rows(saved(bad))
    assert row == "| a | x | INVALID: a gate (so) | 0 of 1 | 2026-11-21 |"


def test_a_valid_point_without_a_shown_figure_is_not_called_invalid() -> None:
    first, second = (replace(point("x", 10, repeat), from_schedule=None) for repeat in (0, 1))
    (row,) = performance.rows(saved(first, second))
    assert row == "| a | x | no figure | 2 of 2 | 2026-11-21 |"
    bad = replace(first, gates=[Gate("a gate", False, "so")])
    (row,) = performance.rows(saved(bad, second))
    assert row == "| a | x | no figure | 1 of 2 | 2026-11-21 |"


def test_a_page_without_marks_for_rows_is_refused() -> None:
    with pytest.raises(UserFacingError, match="the page lacks marks: put the lines <!-- rows"):
        performance.with_rows("# Words\n", "a", [])
