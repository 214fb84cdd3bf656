"""Write the generated rows and goals of docs/performance.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from events.cli import UserFacingError
from loadtest.measure.result import SavedRun
from loadtest.plan import Plan, load_plans
from loadtest.reports.compare import CPU_PER_RECORD, MACHINE_SPEED, figures, interval, number
from loadtest.reports.goals import ERROR, VIOLATED, goals_table
from loadtest.reports.growth import growths, slope
from loadtest.short import DESCRIPTION as SHORT_FORM

BEGIN, END = "<!-- rows: written by python -m loadtest performance -->", "<!-- end of rows -->"
GOALS_BEGIN = "<!-- goals: written by python -m loadtest performance -->"
GOALS_END = "<!-- end of goals -->"
CAPACITY = "sustained events/s"
_SHOWN = (
    "p50 ms",
    "p99 ms",
    "max ms",
    "window delay p50 ms",
    "window delay p99 ms",
    "window delay max ms",
    "records/s",
    "warm records/s",
    "recovery s",
    CPU_PER_RECORD,
    MACHINE_SPEED,
)


def update(page: Path, runs: Sequence[SavedRun]) -> None:
    """Write the rows of the runs into the page, replacing rows of the same name; judge the goals.

    Raises `UserFacingError` for a short form, for a run that lacks planned points, and for a page
    that cannot be read or has no marks.
    """
    for run in runs:
        if run.run.description.startswith(SHORT_FORM):
            raise UserFacingError(
                f"{run.run.name} is a short form, which measures nothing: run the plan in full."
            )
        if run.run.ended or len(run.points) < run.run.points:
            raise UserFacingError(
                f"{run.run.name} is incomplete, with {len(run.points)} of {run.run.points} points: "
                "run its plan again, with --resume to keep these."
            )
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UserFacingError(
            f"the page {page} cannot be read ({error.strerror}): check --page."
        ) from None
    for run in runs:
        text = with_rows(text, run.run.name, rows(run))
    page.write_text(with_goals(text, load_plans()), encoding="utf-8")


def with_rows(text: str, name: str, new: Sequence[str]) -> str:
    """Return the page with a run's rows replaced, between two marks and sorted by name."""
    before, lines, after = _split(text, BEGIN, END)
    old = [line for line in lines[2:] if not line.startswith(f"| {name} |")]
    return before + "\n".join([*lines[:2], *sorted([*old, *new])]) + after


def with_goals(text: str, plans: Mapping[str, Plan]) -> str:
    """Return the page with the goals of the plans, by name, as its rows reach them."""
    _, lines, _ = _split(text, BEGIN, END)
    before, _, after = _split(text, GOALS_BEGIN, GOALS_END)
    return before + "\n".join(goals_table(lines[2:], plans)) + after


def rows(saved: SavedRun) -> list[str]:
    """Return a row per label of the run: its figures over the valid repeats, or why it has none."""
    day = saved.run.began[:10]
    found = []
    for variant, rate in saved.run.capacity.items():
        what = _capacity(saved, variant, rate or 0.0)
        found.append(f"| {saved.run.name} | {f'capacity {variant}'.strip()} | {what} | | {day} |")
    values = figures(saved.points)
    grown = growths(saved.points)
    names = dict.fromkeys([*_SHOWN, *(cost for each in grown for cost in each.curves)])
    for label in dict.fromkeys(point.label for point in saved.points):
        own = [point for point in saved.points if point.label == label]
        valid = [point for point in own if point.valid]
        shown = [
            f"{name}: {interval(values[label][name])}"
            for name in names
            if name in values.get(label, {})
        ]
        if violated := [point.violated_limits for point in valid if point.violated_limits]:
            sentences = "; ".join(sentence for each in violated for sentence in each)
            count = f"{len(violated)} of {len(valid)} repeats"
            shown.append(f"{VIOLATED} {count}: {sentences}")
        if not shown:
            shown = ["no figure" if valid else f"INVALID: {'; '.join(own[0].reasons)}"]
        repeats = f"{len(valid)} of {len(own)}"
        found.append(f"| {saved.run.name} | {label} | {'; '.join(shown)} | {repeats} | {day} |")
    for each in grown:
        what = f"{each.label} slopes over {each.work}".strip()
        slopes = "; ".join(f"{cost}: {slope(curve):.2f}" for cost, curve in each.curves.items())
        found.append(f"| {saved.run.name} | {what} | {slopes} | | {day} |")
    return found


def _capacity(saved: SavedRun, variant: str, sustained: float) -> str:
    """Return the sustained rate, the lowest failed one, and errors in the output of any rate.

    The capacity is between the two rates.
    """
    failed = [
        point.rate
        for point in saved.points
        if point.variant == variant and point.rate > sustained and not point.errors
    ]
    found = [f"{CAPACITY}: {number(sustained)}"]
    if failed:
        found.append(f"not sustained: {number(min(failed))}")
    return "; ".join([*found, *(f"{ERROR} {each}" for each in saved.errors(variant))])


def _split(text: str, begin: str, end: str) -> tuple[str, list[str], str]:
    """Return the page until after the first mark, the lines of the table, and the page after it."""
    before, found, rest = text.partition(begin)
    table, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise UserFacingError(
            f"the page lacks marks: put the lines {begin} and {end} around a table."
        )
    return f"{before}{begin}\n", table.strip().splitlines(), f"\n{end}{after}"
