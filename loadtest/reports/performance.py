"""The generated rows of docs/performance.md."""

from collections.abc import Sequence
from pathlib import Path

from events.cli import UserFacingError
from loadtest.measure.result import SavedRun
from loadtest.reports.compare import figures, interval, number
from loadtest.reports.growth import growths, slope
from loadtest.short import DESCRIPTION as SHORT_FORM

BEGIN, END = "<!-- rows: written by python -m loadtest performance -->", "<!-- end of rows -->"
_SHOWN = (
    "p50 ms",
    "p99 ms",
    "window delay p50 ms",
    "window delay p99 ms",
    "window delay max ms",
    "records/s",
    "warm records/s",
    "recovery s",
)


def update(page: Path, runs: Sequence[SavedRun]) -> None:
    """Write the rows of the runs into the page, replacing rows of runs with the same name.

    Raises `UserFacingError` for a short form, and for a page that cannot be read or has no marks.
    """
    for run in runs:
        if run.run.description.startswith(SHORT_FORM):
            raise UserFacingError(
                f"{run.run.name} is a short form, which measures nothing: run the plan in full."
            )
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UserFacingError(
            f"the page {page} cannot be read ({error.strerror}): check --page."
        ) from None
    for run in runs:
        text = with_rows(text, run.run.name, rows(run))
    page.write_text(text, encoding="utf-8")


def with_rows(text: str, name: str, new: Sequence[str]) -> str:
    """Return the page with a run's rows replaced, between two marks and sorted by name."""
    before, begin, rest = text.partition(BEGIN)
    between, end, after = rest.partition(END)
    if not begin or not end:
        raise UserFacingError(
            f"the page has no marks for rows: put the lines {BEGIN} and {END} around a table."
        )
    lines = [line for line in between.strip().splitlines() if line]
    head, old = lines[:2], [line for line in lines[2:] if not line.startswith(f"| {name} |")]
    return before + "\n".join([begin, *head, *sorted([*old, *new]), end]) + after


def rows(saved: SavedRun) -> list[str]:
    """Return a row per label of the run: its figures over the valid repeats, or why it has none."""
    day = saved.run.began[:10]
    found = []
    for variant, rate in saved.run.capacity.items():
        what = _capacity(saved, variant, rate) if rate else "the lowest rate was not sustained"
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
            shown.append(f"LIMIT VIOLATED in {count}: {sentences}")
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
    """Return the sustained rate, and the lowest failed rate: the capacity is between them."""
    failed = [
        point.rate for point in saved.points if point.variant == variant and point.rate > sustained
    ]
    return f"{number(sustained)} events/s" + (
        f"; {number(min(failed))} not sustained" if failed else ""
    )
