"""Goals of plans are judged by the rows of the page, which shows the figures of these rows."""

from pathlib import Path

import pytest

from events.cli import UserFacingError
from loadtest.plan import Goal, Limits, Plan, Variant, load_plan, load_plans
from loadtest.reports.compare import METRICS, Interval, interval
from loadtest.reports.goals import goals_table
from loadtest.reports.performance import BEGIN, CAPACITY, END, with_goals
from loadtest.short import shortened
from tests.support import ROOT

ROWS = (
    "| latency | 100/s | p50 ms: 7 (one repeat); p99 ms: 20.5 (15 to 26, 3 repeats) "
    "| 3 of 3 | 2026-11-21 |",
    "| latency | a 100/s | p99 ms: 30 (29 to 31, 3 repeats) | 3 of 3 | 2026-11-21 |",
    "| latency | b 100/s | p99 ms: 20 (19 to 21, 3 repeats) | 3 of 3 | 2026-11-21 |",
    "| latency | b 200/s | INVALID: the counts differ | 0 of 3 | 2026-11-21 |",
    "| latency | c 100/s | p99 ms: 20 (one repeat); LIMIT VIOLATED in 1 of 2 repeats: p99 9 ms, "
    "limit 8 ms | 2 of 3 | 2026-11-21 |",
    "| latency | d 100/s | p99 ms: 20 (one repeat); LIMIT VIOLATED in 3 of 3 repeats: p99 9 ms, "
    "limit 8 ms | 3 of 3 | 2026-11-21 |",
    "| latency | e 100/s | p99 ms: 30 (29 to 31, 2 repeats) | 2 of 3 | 2026-11-21 |",
    "| latency | capacity b | sustained events/s: 9; ERROR at b 10/s: lost (it) | | 2026-11-21 |",
    "| latency | capacity a | sustained events/s: 21,000; not sustained: 30,000 | | 2026-11-21 |",
)


def reached(name: str = "latency", **goal: object) -> str:
    """Return the last cell of a goal's row."""
    plan = Plan(jobs=("overheating",), goals=(Goal(question="q", **goal),))  # type: ignore[arg-type]
    *_, line = goals_table(ROWS, {name: plan})
    return line.split("|")[-2].strip()


def test_the_page_shows_the_goals_as_its_rows_reach_them() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert with_goals(page, load_plans()) == page, "run python -m loadtest performance"
    assert "| not measured: " not in page


def test_every_row_is_of_a_plan_in_its_full_form() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    lines = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    assert len(lines) > 50
    assert {line.split("|")[1].strip() for line in lines} <= {*load_plans()}


def test_every_goal_has_a_figure_that_rows_can_have_and_a_bound() -> None:
    goals = [(plan, goal) for plan in load_plans().values() for goal in plan.goals]
    assert len(goals) > 20
    for plan, goal in goals:
        assert goal.metric in {"", CAPACITY, *METRICS}, goal
        assert goal.text or plan.limits_of(goal).text, goal


def test_the_mean_decides_whether_a_bound_is_reached() -> None:
    p99 = {"point": "100/s", "metric": "p99 ms", "why_missed": "so"}
    assert reached(**p99, at_most=20) == "no: 20.5 (15 to 26, 3 repeats); so"
    assert reached(**p99, at_most=20.5) == "yes: 20.5 (15 to 26, 3 repeats)"
    assert reached(**p99, at_least=21) == "no: 20.5 (15 to 26, 3 repeats); so"
    assert reached(point="100/s", metric="p50 ms", at_most=7) == "yes: 7 (one repeat)"
    assert reached(point="capacity a", metric=CAPACITY, at_least=21_000) == "yes: 21,000"


def test_a_ratio_is_decided_only_where_its_interval_excludes_the_bound() -> None:
    ratio = {"point": "a", "metric": "p99 ms", "relative_to": "b 100/s"}
    assert reached(**ratio, at_most=1.4) == "no: 1.5 (1.41 to 1.59, 3 repeats)"
    assert reached(**ratio, at_most=1.5) == "not decided: 1.5 (1.41 to 1.59, 3 repeats)"
    assert reached(**ratio, at_least=1.4) == "yes: 1.5 (1.41 to 1.59, 3 repeats)"
    assert reached(**{**ratio, "relative_to": "c"}, at_most=9) == "not decided: 1.5 (one repeat)"


def test_limits_are_judged_in_each_repeat() -> None:
    assert reached(point="a", metric="p99 ms") == "yes: 30 (29 to 31, 3 repeats)"
    assert reached(point="c", why_missed="so") == "in 1 of 3 repeats; so"
    assert reached(point="d") == "no"


def test_what_was_not_measured_is_not_judged() -> None:
    assert reached("other", metric="p99 ms", at_most=1, why_missed="so") == "no full run yet; so"
    assert reached(point="b 200/s", metric="p99 ms", at_most=1) == "no valid repeat"
    other = reached(point="a", metric="p99 ms", at_most=1, relative_to="b 200/s")
    assert other == "no valid repeat"


def test_a_goal_is_reached_only_if_all_planned_repeats_are_valid() -> None:
    goal = {"point": "c 100/s", "metric": "p99 ms", "why_missed": "so"}
    some = "not decided: 20 (one repeat), 2 of 3 repeats are valid; so"
    assert reached(**goal, at_most=21) == some
    assert reached(**goal, at_most=19) == "no: 20 (one repeat); so"
    error = reached(point="capacity b", metric=CAPACITY, at_least=1)
    assert error == "not decided: 9, output was wrong or lost at a rate"
    for one, other in (("a", "e"), ("e", "a")):
        points = {"point": f"{one} 100/s", "relative_to": f"{other} 100/s"}
        verdict = reached(**points, metric="p99 ms", at_most=9)
        assert verdict.startswith("not decided: "), verdict
        assert verdict.endswith(", 2 of 3 repeats are valid"), verdict


def test_a_goal_whose_row_or_figure_is_lacking_is_not_measured() -> None:
    assert reached(point="b") == "not measured: there are 2 rows 'b'"
    no_figure = reached(point="100/s", metric="p98 ms", at_most=1)
    assert no_figure == "not measured: the row 100/s has no p98 ms"


def test_a_row_shows_the_goal_and_the_limits_of_its_point() -> None:
    limits = Limits(p50_ms=15, warm_records_per_s=1e6, lag_growth=0.03)
    variants = Variant(name="a", limits=limits), Variant(name="b", limits=Limits(p99_ms=60))
    ratio = Goal(question="q", point="a", metric="p99 ms", at_most=1.5, relative_to="b 100/s")
    goals = (ratio, Goal(question="r", point="b 100/s", metric="p99 ms"))
    plan = Plan(jobs=(), description="D.", variants=variants, goals=goals)
    _, _, first, second = goals_table(ROWS, {"latency": plan})
    assert first == (
        "| q | `latency` | p99 ms at most 1.5 times that of `b 100/s` "
        "| p50 ms at most 15, warm records/s at least 1,000,000, "
        "lag growth at most 3 % of the rate | not decided: 1.5 (1.41 to 1.59, 3 repeats) |"
    )
    assert second == "| r | `latency` | | p99 ms at most 60 | yes: 20 (19 to 21, 3 repeats) |"
    assert plan.summary == (
        "D. Goals: a p99 ms at most 1.5 times that of `b 100/s`; b 100/s p99 ms at most 60."
    )
    assert shortened(plan).summary == "Short form, which measures nothing. D."


@pytest.mark.parametrize("values", [[5], [1234.5, 1300, 1250], [0.5, -0.25], [1e6, 1.2e6]])
def test_a_figure_is_read_as_it_is_shown(values: list[float]) -> None:
    text = str(interval(values))
    assert str(Interval.parse(text)) == text


def test_a_goal_with_two_bounds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("jobs: [overheating]\ngoals:\n- {question: q, at_most: 1, at_least: 2}\n")
    problem = r"line 3 .*\(goals\[0\]\): a goal has at_most or at_least, not both\."
    with pytest.raises(UserFacingError, match=problem):
        load_plan(path)
