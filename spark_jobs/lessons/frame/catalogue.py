"""The lessons in their order, and what the docstring of each says."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from events.cli import PersonError
from spark_jobs.lessons.frame.lab import Lab

LESSONS = Path(__file__).parent.parent
PACKAGE = "spark_jobs.lessons"

CHAPTERS: dict[str, tuple[str, ...]] = {
    "Sources": (
        "file_source",
        "file_formats",
        "schema_inference",
        "partition_discovery",
        "file_order",
        "file_cleanup",
        "socket_words",
        "rate_source",
        "kafka_source",
    ),
}
"""The names of the lessons by chapter. Each is a module of the package, with `data/NAME/` and `expected/NAME.txt`."""

NAMES = tuple(name for names in CHAPTERS.values() for name in names)

PARTS = ("Data", "Notice", "In production")
"""What a lesson's docstring has after its explanation; `Data` only where a lesson has no files of data."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson: its program, and its docstring in parts."""

    name: str
    chapter: str
    title: str
    explanation: str
    parts: dict[str, str]
    source: str
    run: Callable[[Lab], Iterator[str]]

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return LESSONS / "data" / self.name

    @property
    def expected(self) -> Path:
        """The file of its expected output."""
        return LESSONS / "expected" / f"{self.name}.txt"


def load(name: str) -> Lesson:
    """Return a lesson; raise `PersonError` when there is none of this name."""
    if name not in NAMES:
        raise PersonError(f"there is no lesson {name!r}: `list` shows them.")
    return load_module(name)


def load_module(name: str) -> Lesson:
    module = importlib.import_module(f"{PACKAGE}.{name}")
    doc = inspect.cleandoc(module.__doc__ or "")
    title, _, rest = doc.partition("\n\n")
    pieces = re.split(rf"^({'|'.join(PARTS)}): ", rest, flags=re.MULTILINE)
    parts = {pieces[at]: pieces[at + 1].strip() for at in range(1, len(pieces), 2)}
    chapter = next((chapter for chapter, names in CHAPTERS.items() if name in names), "")
    return Lesson(
        name, chapter, title.rstrip("."), pieces[0].strip(), parts, inspect.getsource(module), module.run
    )
