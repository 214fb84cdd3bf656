"""Judge the goals of the plans by the rows of docs/performance.md."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from loadtest.plan import Goal, Plan
from loadtest.reports.compare import Interval, ratio

VIOLATED = "LIMIT VIOLATED in"
"""How a row says in how many repeats a limit was violated."""
ERROR = "ERROR at"
"""How a capacity's row says at which rate output was wrong or lost."""
HEAD = ("| question | plan | goal | limit | reached |", "|---|---|---|---|---|")


class NotMeasuredError(Exception):
    """The rows lack what a goal is about, as after a run that was interrupted."""


class Row(NamedTuple):
    """A row of the page's results."""

    run: str
    point: str
    measured: str
    repeats: str
    """`2 of 3`: the valid ones of those planned; empty for a capacity."""
    day: str

    def figure(self, metric: str) -> str:
        """Return the text of a figure; raise `NotMeasuredError` when the row has none."""
        found = re.search(rf"(?:^|; ){re.escape(metric)}: ([^;]+)", self.measured)
        if not found:
            raise NotMeasuredError(f"the row {self.point} has no {metric}")
        return found[1]

    @property
    def valid(self) -> bool:
        """Whether any repeat is valid."""
        return not self.repeats.startswith("0 ")

    @property
    def all_valid(self) -> bool:
        """Whether every planned repeat is valid; a capacity has no repeats."""
        valid, _, planned = self.repeats.partition(" of ")
        return valid == planned

    @property
    def limits_kept(self) -> str:
        """In which repeats the limits were kept: `yes`, `no`, or their number."""
        valid, total = (int(count) for count in self.repeats.split(" of "))
        violated = re.search(rf"{VIOLATED} (\d+)", self.measured)
        kept = valid - int(violated[1]) if violated else valid
        return "yes" if kept == total else f"in {kept} of {total} repeats" if kept else "no"


def goals_table(lines: Sequence[str], plans: Mapping[str, Plan]) -> list[str]:
    """Return the table of all goals, from the lines of the rows and the plans by name."""
    rows = [Row(*(cell.strip() for cell in line.split("|")[1:-1])) for line in lines]
    table = list(HEAD)
    for name, plan in sorted(plans.items(), key=lambda item: (item[1].jobs, item[0])):
        own = [row for row in rows if row.run == name]
        for goal in plan.goals:
            reached = _reached(goal, own)
            limits = plan.limits_of(goal).text
            line = f"| {goal.question} | `{name}` | {goal.text} | {limits} | {reached} |"
            table.append(" ".join(line.split()))
    return table


def _reached(goal: Goal, rows: Sequence[Row]) -> str:
    """Return whether the goal is reached, with its figure; unless it is, also why."""
    try:
        verdict, figure = _judge(goal, rows) if rows else ("no full run yet", "")
    except NotMeasuredError as error:
        verdict, figure = "not measured", str(error)
    why = "" if verdict == "yes" else goal.why_missed
    return "; ".join(filter(None, [f"{verdict}: {figure}".removesuffix(": "), why]))


def _judge(goal: Goal, rows: Sequence[Row]) -> tuple[str, str]:
    """Return the verdict and the figure that it is about.

    The mean decides. A ratio is decided only where its whole interval is on one side of the bound.
    A bound is reached only if all repeats are valid: the mean of the others would hide the failure.
    """
    row = _find(rows, goal.point)
    other = _find(rows, goal.relative_to) if goal.relative_to else row
    if not (row.valid and other.valid):
        return "no valid repeat", ""
    figure = row.figure(goal.metric) if goal.metric else ""
    if goal.bound is None:
        return row.limits_kept, figure
    value = Interval.parse(figure)
    if goal.relative_to:
        value = ratio(value, Interval.parse(other.figure(goal.metric)))
        figure = str(value)
        if value.low <= goal.bound <= value.high:
            return "not decided", figure
    reached = value.mean >= goal.bound if goal.at_most is None else value.mean <= goal.bound
    if not reached:
        return "no", figure
    if ERROR in row.measured:
        return "not decided", f"{figure}, output was wrong or lost at a rate"
    for each in (row, other):
        if not each.all_valid:
            return "not decided", f"{figure}, {each.repeats} repeats are valid"
    return "yes", figure


def _find(rows: Sequence[Row], point: str) -> Row:
    found = [row for row in rows if f"{row.point} ".startswith(f"{point} ".lstrip())]
    if len(found) != 1:
        raise NotMeasuredError(f"there are {len(found)} rows {point!r}")
    return found[0]
