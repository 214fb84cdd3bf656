"""Read the stored output of a lesson: sections with their tables, batches and outcomes.

It shares no code with the lessons, so that a mistake in how they print is not repeated here.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, takewhile

import pytest

from tests.support import ROOT

EXPECTED = ROOT / "lessons" / "expected"

Cell = str | int | float | None
Rows = list[tuple[Cell, ...]]

PROGRESS = ("batch", "rows in", "watermark", "dropped", "state rows")
"""Names of the columns of a table of progress, which follows the last batch of a query."""

OUTCOME = re.compile(
    r"(?:(?P<name>.*?)(?:: | {2,}))?(?P<word>allowed|refused)(?:[,;] (?P<details>.*))?"
)


@dataclass
class Section:
    """A line that is not indented, and what is printed below it."""

    heading: str
    lines: list[str] = field(default_factory=list)
    batch_lines: dict[int, list[str]] = field(default_factory=dict)

    @property
    def value(self) -> str:
        """What follows the first colon in the heading."""
        return self.heading.partition(": ")[2]

    @property
    def rows(self) -> Rows:
        """The rows of the table directly below the heading, without the names of its columns."""
        return _rows(_table(self.lines))[1:]

    @property
    def columns(self) -> tuple[Cell, ...]:
        """The names of the columns of the table directly below the heading."""
        return _rows(_table(self.lines))[0]

    @property
    def batches(self) -> dict[int, Rows]:
        """The rows of each batch by its number; no progress table and no names of columns."""
        return {number: _rows(_table(lines))[1:] for number, lines in self.batch_lines.items()}

    @property
    def progress(self) -> Rows:
        """The rows of the progress table: batch, rows in, watermark, dropped, state rows."""
        names = [_cells(line) for line in self._all_lines].index(PROGRESS)
        return _rows(self._all_lines[names + 1 :])

    @property
    def outcomes(self) -> dict[str, str]:
        """Each thing tried, with `allowed` or `refused`."""
        return {name: word for name, (word, _) in self._tried().items()}

    @property
    def details(self) -> dict[str, str]:
        """What is printed after `allowed` or `refused`: of a refusal, Spark's error."""
        return {name: details for name, (_, details) in self._tried().items() if details}

    @property
    def facts(self) -> dict[str, str]:
        """The lines of the form `name: value` below the heading."""
        pairs = (line.strip().partition(": ") for line in self._all_lines if ": " in line)
        return {name: value for name, _, value in pairs}

    @property
    def _all_lines(self) -> list[str]:
        return [*self.lines, *chain.from_iterable(self.batch_lines.values())]

    def _tried(self) -> dict[str, tuple[str, str]]:
        found = (OUTCOME.fullmatch(line.strip()) for line in self._all_lines)
        return {o["name"] or "": (o["word"], o["details"] or "") for o in found if o}


@dataclass
class Output:
    """A lesson's stored output."""

    text: str

    @cached_property
    def sections(self) -> list[Section]:
        """All sections in order; what precedes the first heading is in one without a heading."""
        sections = [Section("")]
        lines = sections[-1].lines
        for line in self.text.splitlines():
            batch = re.fullmatch(r"(?:(.*): )?batch (\d+)", line)
            if line.startswith("  "):
                lines.append(line)
            elif batch:
                number = int(batch[2])
                if batch[1] or number <= max(sections[-1].batch_lines, default=-1):
                    sections.append(Section(batch[1] or ""))
                lines = sections[-1].batch_lines[number] = []
            elif line != "no batch":
                sections.append(Section(line))
                lines = sections[-1].lines
        return [s for s in sections if s.heading or s.lines or s.batch_lines]

    @property
    def headings(self) -> list[str]:
        """The lines that are not indented and do not say the number of a batch."""
        return [section.heading for section in self.sections]

    def __getitem__(self, name: str) -> Section:
        """Return the section with this heading or name, or the only one that begins so."""
        found = [s for s in self.sections if name in (s.heading, s.heading.partition(": ")[0])]
        found = found or [s for s in self.sections if s.heading.startswith(name)]
        assert len(found) == 1, f"{len(found)} sections begin with {name!r}: {self.headings}"
        return found[0]

    @property
    def outcomes(self) -> dict[str, str]:
        """Each thing tried in a heading `name: allowed` or `name: refused`, with that word."""
        return Section("", self.headings).outcomes

    @property
    def details(self) -> dict[str, str]:
        """What those headings say after that word: of a refusal, Spark's error."""
        return Section("", self.headings).details


def modes(append: str, update: str, complete: str) -> dict[str, str]:
    """Return the outcomes of the three output modes."""
    return {"append": append, "update": update, "complete": complete}


Check = Callable[[Output], None]

CHECKS: dict[str, list[Check]] = defaultdict(list)
"""The tests of each lesson's figures."""


def printed(lesson: str) -> Output:
    """Return the stored output of a lesson."""
    return Output((EXPECTED / f"{lesson}.txt").read_text(encoding="utf-8"))


def golden(lesson: str) -> Callable[[Check], Check]:
    """Run a test with the stored output of a lesson, and count the lesson as tested."""

    def register(check: Check) -> Check:
        CHECKS[lesson].append(check)
        parameters = [pytest.param(printed(lesson), id=lesson)]
        marked: Check = pytest.mark.parametrize("output", parameters)(check)
        return marked

    return register


def _table(lines: list[str]) -> list[str]:
    """Return the lines without outcomes and without the table of progress."""
    before_progress = takewhile(lambda line: _cells(line) != PROGRESS, lines)
    return [line for line in before_progress if not OUTCOME.fullmatch(line.strip())]


def _rows(lines: list[str]) -> Rows:
    return [tuple(map(_typed, _cells(line))) for line in lines if line.strip() != "(no rows)"]


def _cells(line: str) -> tuple[str, ...]:
    return tuple(re.split(r" {2,}", line.strip()))


def _typed(cell: str) -> Cell:
    if cell == "null":
        return None
    if re.fullmatch(r"-?\d+", cell):
        return int(cell)
    return float(cell) if re.fullmatch(r"-?\d+\.\d+", cell) else cell
