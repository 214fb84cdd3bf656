"""The capacity search finds the highest sustained rate in few runs."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker.server import RunningBroker
from demo.processes import FOLDER_VARIABLE
from events.cli import UserFacingError
from loadtest import machine, run, topics
from loadtest.capacity import SearchResult, majority_sustains, round_rate, search, violations
from loadtest.measure.gates import Gate
from loadtest.measure.latency import Percentiles
from loadtest.measure.result import RESULT, RUN, PointResult, Run, load, save
from loadtest.plan import CapacityBounds, load_plan
from loadtest.point import PointRun, RunContext, ShowStatus
from loadtest.programs import ProgramFailedError
from loadtest.reports.report import PAGE

BOUNDS = CapacityBounds(low=1000, high=64_000, p99_ms=100)


def search_up_to(limit: float, bounds: CapacityBounds = BOUNDS) -> tuple[SearchResult, list[float]]:
    """Search on a machine that sustains every rate up to a limit; also return the tried rates."""
    rates: list[float] = []

    def sustains(rate: float) -> bool:
        rates.append(rate)
        return rate <= limit

    return search(sustains, bounds), rates


def test_the_result_is_within_the_precision() -> None:
    for limit in (1000, 1500, 7777, 23_000, 40_000, 63_999):
        found, rates = search_up_to(limit)
        assert found.sustained is not None, limit
        assert found.failed is not None, limit
        assert found.sustained <= limit < found.failed <= found.sustained * 1.11, limit
        assert len(rates) == len(set(rates)) <= 12, limit


def test_the_search_doubles_and_then_halves_the_gap() -> None:
    found, rates = search_up_to(5200)
    # sqrt(4000 * 8000) rounds to 5650, sqrt(4000 * 5650) to 4750, sqrt(4750 * 5650) to 5200.
    assert rates == [1000, 2000, 4000, 8000, 5650, 4750, 5200]
    assert found == SearchResult(5200, 5650)


def test_without_a_failed_or_a_sustained_rate_the_search_ends_at_its_bounds() -> None:
    assert search_up_to(1e9)[0] == SearchResult(64_000, None)
    assert search_up_to(10) == (SearchResult(None, 1000), [1000])


def test_the_last_doubling_stops_at_the_highest_rate() -> None:
    assert search_up_to(1e9, CapacityBounds(low=1000, high=5000, p99_ms=1))[1] == [
        1000,
        2000,
        4000,
        5000,
    ]


def test_rates_are_rounded_to_two_and_a_half_digits() -> None:
    assert [round_rate(rate) for rate in (28_284.3, 1414.2, 97.3)] == [28_500, 1400, 97.5]


@pytest.mark.parametrize(
    ("repeats", "outcomes", "sustained", "ran"),
    [
        (1, "+", True, 1), (1, "-", False, 1),
        (3, "++?", True, 2), (3, "--?", False, 2), (3, "+-+", True, 3), (3, "+--", False, 3),
        (2, "++", True, 2), (2, "-?", False, 1), (2, "+-", False, 2),
    ],
)  # fmt: skip
def test_more_than_half_of_the_repeats_decide_and_no_more_than_needed_run(
    repeats: int, outcomes: str, sustained: bool, ran: int
) -> None:
    done = []

    def run_points() -> Iterator[list[str]]:
        for outcome in outcomes:
            done.append(outcome)
            yield [] if outcome == "+" else ["too late"]

    assert majority_sustains(run_points(), repeats) is sustained
    assert len(done) == ran


GOOD = PointResult(
    label="x", variant="", rate=1000, repeat=0, jobs=("overheating",), trigger="real-time",
    began="", gates=[Gate("a gate", True, "so")], lag_slope=10.0, late_per_s=100.0,
    from_schedule=Percentiles(count=500, p50=1, p95=1, p99=100.0, p999=1, max=1),
)  # fmt: skip


def test_a_rate_exactly_at_its_bounds_is_sustained() -> None:
    assert violations(GOOD, BOUNDS) == []
    assert violations(replace(GOOD, late_per_s=None), BOUNDS) == []
    any_growth = replace(BOUNDS, lag_growth=1)
    assert violations(replace(GOOD, lag_slope=None), any_growth) == []


VIOLATIONS: list[tuple[dict[str, object], str]] = [
    ({"lag_slope": 10.5}, "the lag grows by 10 records/s, limit 10"),
    ({"lag_slope": None}, "too few batches or outputs to measure the lag's growth"),
    ({"late_per_s": 101.0}, "101 records/s dropped as late, limit 100"),
    ({"from_schedule": None}, "no latency was measured"),
    (
        {"from_schedule": Percentiles(count=500, p50=1, p95=1, p99=101, p999=1, max=1)},
        "p99 101 ms, limit 100 ms",
    ),
    (
        {"window_delay": Percentiles(count=500, p50=1, p95=1, p99=101, p999=1, max=1)},
        "window delay p99 101 ms, limit 100 ms",
    ),
    ({"gates": [Gate("a gate", False, "so")]}, "a gate (so)"),
]


def test_a_violation_names_value_and_limit() -> None:
    found = [(changes, violations(replace(GOOD, **changes), BOUNDS)) for changes, _ in VIOLATIONS]
    assert found == [(changes, [violation]) for changes, violation in VIOLATIONS]


@pytest.mark.parametrize("ended", ["", "it was interrupted by Ctrl-C"])
def test_the_report_of_a_search_counts_the_points_that_ran(tmp_path: Path, ended: str) -> None:
    begun = Run(name="x", description="", began="", machine={}, points=0, ended="it did not finish")
    save(begun, tmp_path / RUN)
    (tmp_path / "points" / "1000-r1").mkdir(parents=True)
    save(GOOD, tmp_path / "points" / "1000-r1" / RESULT)
    with suppress(KeyboardInterrupt), run.finishing(begun, tmp_path) as finish:
        if ended:
            raise KeyboardInterrupt
        finish(replace(begun, capacity={"": 1000.0}))
    saved = load(tmp_path).run
    assert (saved.points, saved.ended) == (1, ended)
    assert saved.capacity == ({} if ended else {"": 1000.0})
    assert "1 of 1 points" in (tmp_path / PAGE).read_text(encoding="utf-8")


CAPACITY_PLAN = """
jobs: [overheating]
capacity: {low: 1000, high: 64000, p99_ms: 100}
"""


@pytest.fixture
def overloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Run no programs: above 5,200 records/s the jobs fail. Return the rates of the points."""
    rates: list[float] = []

    @contextmanager
    def context(folder: Path, show_status: ShowStatus) -> Iterator[RunContext]:
        yield RunContext(RunningBroker(1, 1, folder / "kafka"), folder, show_status)

    def run_point(self: PointRun) -> PointResult:
        point = self._point
        rates.append(point.rate)
        self._folder.mkdir(parents=True)
        if point.rate > 5200:
            raise ProgramFailedError(f"the jobs ended: no memory (log: {self._folder}/jobs.log)")
        result = replace(GOOD, label=point.label, rate=point.rate, lag_slope=0.0)
        save(result, self._folder / RESULT)
        return result

    monkeypatch.setattr(run, "run_context", context)
    monkeypatch.setattr(run, "shortage", lambda *_: None)
    monkeypatch.setattr(machine, "describe", dict)
    monkeypatch.setattr(machine, "busy_percent", lambda: 0.0)
    monkeypatch.setattr(topics, "remove", lambda *_: None)
    monkeypatch.setattr(PointRun, "run", run_point)
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    (tmp_path / "plan.yaml").write_text(CAPACITY_PLAN, encoding="utf-8")
    return rates


def test_a_rate_at_which_the_jobs_fail_is_not_sustained(
    tmp_path: Path, overloaded: list[float]
) -> None:
    path, folder = tmp_path / "plan.yaml", tmp_path / "run"
    for resume in (False, True):
        assert run.find_capacity(load_plan(path), path, folder, resume=resume) == {"": 5200}
    assert overloaded == [1000, 2000, 4000, 8000, 5650, 4750, 5200]  # once each
    failed = [point for point in load(folder).points if not point.valid]
    assert [(point.rate, point.reasons) for point in failed] == [
        (rate, [f"a program failed (the jobs ended: no memory (log: points/{rate}-r1/jobs.log))"])
        for rate in (8000, 5650)
    ]


@pytest.mark.usefixtures("overloaded")
def test_a_run_at_a_rate_at_which_the_jobs_fail_fails(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("jobs: [overheating]\nrate: 8000\n", encoding="utf-8")
    with pytest.raises(UserFacingError, match="the jobs ended: no memory"):
        run.run_plan(load_plan(path), path, tmp_path / "run")
    assert load(tmp_path / "run").points == []
