"""The rows of the page on performance: written by what was measured, never by hand."""

from collections.abc import Sequence
from pathlib import Path

from events.cli import PersonError
from loadtest.measure.result import Saved
from loadtest.reports.compare import figures, interval, number
from loadtest.reports.growth import curves, slope

BEGIN, END = "<!-- rows: written by python -m loadtest performance -->", "<!-- end of rows -->"
_SHOWN = ("p50 ms", "p99 ms", "past window p99 ms", "records/s, from start", "records/s, warm", "recovery s")


def update(page: Path, runs: Sequence[Saved]) -> None:
    """Put the rows of the runs into the page, in place of those that it has of runs with their names."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise PersonError(f"the page {page} cannot be read ({error.strerror}): check --page.") from None
    for run in runs:
        text = with_rows(text, run.run.name, rows(run))
    page.write_text(text, encoding="utf-8")


def with_rows(text: str, name: str, new: Sequence[str]) -> str:
    """Return the page with a run's rows replaced; they stand between two marks, sorted by name."""
    before, begin, rest = text.partition(BEGIN)
    between, end, after = rest.partition(END)
    if not begin or not end:
        raise PersonError(f"the page has no place for rows: put the lines {BEGIN} and {END} around a table.")
    lines = [line for line in between.strip().splitlines() if line]
    head, old = lines[:2], [line for line in lines[2:] if not line.startswith(f"| {name} |")]
    return before + "\n".join([begin, *head, *sorted([*old, *new]), end]) + after


def rows(saved: Saved) -> list[str]:
    """Return a row for each label of the run: its figures over the valid repeats, or that there is none."""
    day = saved.run.began[:10]
    found = []
    for variant, rate in saved.run.capacity.items():
        what = _capacity(saved, variant, rate) if rate else "not even the lowest rate held"
        found.append(f"| {saved.run.name} | {f'capacity {variant}'.strip()} | {what} | | {day} |")
    values = figures(saved.points)
    work, grown = curves(saved.points)
    names = dict.fromkeys([*_SHOWN, *grown])
    for label in dict.fromkeys(point.label for point in saved.points):
        own = [point for point in saved.points if point.label == label]
        shown = [
            f"{name}: {interval(values[label][name])}" for name in names if name in values.get(label, {})
        ]
        valid = f"{sum(point.valid for point in own)} of {len(own)}"
        measured = "; ".join(shown) or f"invalid: {'; '.join(own[0].reasons)}"
        found.append(f"| {saved.run.name} | {label} | {measured} | {valid} | {day} |")
    if grown:
        slopes = "; ".join(f"{cost}: {slope(curve):.2f}" for cost, curve in grown.items())
        found.append(f"| {saved.run.name} | slopes over {work} | {slopes} | | {day} |")
    return found


def _capacity(saved: Saved, variant: str, held: float) -> str:
    """Return the rate that held and, as the capacity lies between the two, the lowest that did not."""
    broke = [point.rate for point in saved.points if point.variant == variant and point.rate > held]
    return f"{number(held)} events/s" + (f"; {number(min(broke))} did not hold" if broke else "")
