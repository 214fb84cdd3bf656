"""The search finds the highest rate that holds, in few runs; a rate holds when nothing is to be said against it."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from loadtest.capacity import Found, complaints, most, search, two_digits
from loadtest.measure.gates import Gate
from loadtest.measure.latency import Percentiles
from loadtest.measure.result import PointResult
from loadtest.plan import Bounds

BOUNDS = Bounds(low=1000, high=64_000, p99_ms=100)


def tried(limit: float, bounds: Bounds = BOUNDS) -> tuple[Found, list[float]]:
    """Search on a machine that holds every rate up to a limit."""
    asked: list[float] = []

    def holds(rate: float) -> bool:
        asked.append(rate)
        return rate <= limit

    return search(holds, bounds), asked


@pytest.mark.parametrize("limit", [1000, 1500, 7777, 23_000, 40_000, 63_999])
def test_what_is_found_is_within_the_precision_of_the_truth(limit: float) -> None:
    found, asked = tried(limit)
    assert found.held is not None
    assert found.broke is not None
    assert found.held <= limit < found.broke <= found.held * 1.11
    assert len(asked) == len(set(asked)) <= 12


def test_the_search_doubles_and_then_halves_the_gap() -> None:
    found, asked = tried(5200)
    # sqrt(4000 * 8000) is 5657, to two digits and a half 5650; sqrt(4000 * 5650) 4750, sqrt(4750 * 5650) 5200.
    assert asked == [1000, 2000, 4000, 8000, 5650, 4750, 5200]
    assert found == Found(5200, 5650)


def test_where_all_holds_the_highest_is_the_answer_and_where_nothing_does_there_is_none() -> None:
    assert tried(1e9)[0] == Found(64_000, None)
    assert tried(10) == (Found(None, 1000), [1000])


def test_the_last_doubling_stops_at_the_highest() -> None:
    assert tried(1e9, Bounds(low=1000, high=5000, p99_ms=1))[1] == [1000, 2000, 4000, 5000]


def test_rates_are_round() -> None:
    assert [two_digits(rate) for rate in (28_284.3, 1414.2, 97.3)] == [28_500, 1400, 97.5]


@pytest.mark.parametrize(
    ("repeats", "outcomes", "holds", "ran"),
    [
        (1, "+", True, 1), (1, "-", False, 1),
        (3, "++?", True, 2), (3, "--?", False, 2), (3, "+-+", True, 3), (3, "+--", False, 3),
        (2, "++", True, 2), (2, "-?", False, 1), (2, "+-", False, 2),
    ],
)  # fmt: skip
def test_more_than_half_of_the_repeats_decide_and_no_more_are_run(
    repeats: int, outcomes: str, holds: bool, ran: int
) -> None:
    done = []

    def run() -> Iterator[list[str]]:
        for outcome in outcomes:
            done.append(outcome)
            yield [] if outcome == "+" else ["too late"]

    assert most(run(), repeats) is holds
    assert len(done) == ran


GOOD = PointResult(
    label="x", variant="", rate=1000, repeat=0, jobs=("overheating",), trigger="real-time", began="",
    gates=[Gate("a gate", True, "so")], lag_slope=10.0, late_per_s=100.0,
    from_schedule=Percentiles(count=500, p50=1, p95=1, p99=100.0, p999=1, max=1),
)  # fmt: skip


def test_a_rate_at_its_bounds_is_sustained() -> None:
    assert complaints(GOOD, BOUNDS) == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"lag_slope": 10.5}, "the lag grows by 10 records/s"),
        ({"lag_slope": None}, "there are too few batches or outputs to see whether the lag grows"),
        ({"late_per_s": 101.0}, "101 records/s are dropped as late"),
        ({"from_schedule": None}, "no latency was measured"),
        (
            {"from_schedule": Percentiles(count=500, p50=1, p95=1, p99=101, p999=1, max=1)},
            "p99 is 101 ms, above 100",
        ),
        ({"gates": [Gate("a gate", False, "so")]}, "not so: a gate (so)"),
    ],
)
def test_what_is_beyond_a_bound_is_said(changes: dict[str, object], complaint: str) -> None:
    assert complaints(replace(GOOD, **changes), BOUNDS) == [complaint]


def test_nothing_is_said_against_a_job_that_drops_nothing() -> None:
    assert complaints(replace(GOOD, late_per_s=None), BOUNDS) == []
