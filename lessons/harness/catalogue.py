"""List the lessons in their order, each loaded from its module with its docstring in parts."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from events.cli import UserFacingError
from lessons.harness.context import LessonContext

LESSONS = Path(__file__).parent.parent
PACKAGE = "lessons"

CHAPTERS: dict[str, tuple[str, ...]] = {
    "The model": (
        "first_stream",
        "loop",
    ),
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
    "Sinks and output modes": (
        "output_modes",
        "console_sink",
        "memory_sink",
        "parquet_sink",
        "kafka_sink",
        "foreach_sink",
        "foreach_batch",
        "idempotent_upsert",
        "table_api",
    ),
    "Triggers": (
        "triggers",
        "slow_batches",
    ),
    "Stateless operations": (
        "stateless",
        "typed_rows",
    ),
    "Aggregations without time": (
        "counts_per_type",
        "running_count",
        "user_totals",
    ),
    "Event-time windows": (
        "window_sums",
        "rack_averages",
        "user_minutes",
        "actions_per_hour",
        "session_windows",
        "monitoring_windows",
        "everyday_windows",
        "time_zones",
    ),
    "Watermarks": (
        "late_rows",
        "watermark_order",
        "state_cleanup",
        "watermark_placement",
        "late_rows_counted",
        "watermark_policies",
    ),
    "Joins": (
        "static_join",
        "stream_join",
        "join_requirements",
    ),
    "Duplicates": ("duplicates",),
    "Custom state": (
        "own_totals",
        "rack_warning",
        "totals_timeout",
        "processing_time_timeout",
        "state_variables",
        "timers",
        "state_ttl",
        "initial_state",
        "processor_test",
        "group_order",
    ),
    "State storage": (
        "state_plan",
        "state_stores",
    ),
    "Unsupported operations": ("unsupported_operations",),
    "Running queries": (
        "watching_a_query",
        "listener",
        "several_queries",
    ),
    "Recovery": (
        "checkpoint",
        "kill_and_restart",
        "changes_between_runs",
        "changes_of_state",
    ),
    "Example: a sensor ETL": (
        "bad_records",
        "sensor_etl",
        "sensor_sql",
        "sensor_counts",
        "sensor_alerts",
        "weak_signal",
    ),
    "Example: a streaming sum": ("steps",),
    "Low-latency triggers": (
        "continuous",
        "continuous_limits",
        "real_time",
        "low_latency_restart",
        "latency",
    ),
}
"""Names of the lessons by chapter: each is a module, with `data/NAME/` and `expected/NAME.txt`."""

INTRODUCTIONS: dict[str, str] = {
    "The model": "What a streaming query is, and what Spark does while it runs.",
    "Sources": "Where rows come from, and what a source must remember to read each of them once.",
    "Sinks and output modes": (
        "What a batch writes, and to where. With a source and a sink, a query is complete."
    ),
    "Triggers": "When the next batch starts.",
    "Stateless operations": "Queries in which each row is treated by itself, whatever came before.",
    "Aggregations without time": (
        "From here on a result depends on earlier batches: the query has state. "
        "Without event time nothing ever leaves it."
    ),
    "Event-time windows": (
        "Grouping by the time at which something happened, instead of when it arrived."
    ),
    "Watermarks": "How long a query waits for late rows, and when it may forget a window.",
    "Joins": "Rows of two sources, where one of them may be a table.",
    "Duplicates": "Sources and sinks may repeat rows; a query can remove the copies.",
    "Custom state": (
        "A function of your own keeps state for each key, and may set timers. "
        "Use it where no built-in operator fits."
    ),
    "State storage": "Where the state of all these operators lies, and what it costs.",
    "Unsupported operations": "What a stream refuses, and what to write instead.",
    "Running queries": "Looking after queries: what they do now, and why one stopped.",
    "Recovery": "What survives a restart, and which changes a restarted query accepts.",
    "Example: a sensor ETL": (
        "First, how bad records are parsed. Then one chain, each lesson over the same files: "
        "JSON to Parquet, live SQL, counts per device, and an alert. Read it in order."
    ),
    "Example: a streaming sum": "One query over many files, and what their order changes.",
    "Low-latency triggers": (
        "A micro-batch takes a hundred milliseconds or more. Two triggers pass each record on "
        "without waiting for the end of a batch, typically within tens of milliseconds. "
        "The jobs' latencies are in [performance.md](performance.md#results)."
    ),
}
"""What each chapter is about, for the index of the lessons' pages."""

NAMES = tuple(name for names in CHAPTERS.values() for name in names)

PARTS = ("Data", "Notice", "In production")
"""Parts of a lesson's docstring after the explanation; `Data` only where it has no data files."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson: its program and the parts of its docstring."""

    name: str
    chapter: str
    title: str
    explanation: str
    parts: dict[str, str]
    source: str
    run: Callable[[LessonContext], Iterator[str]]

    @property
    def data(self) -> Path:
        """The folder with its data files."""
        return LESSONS / "data" / self.name

    @property
    def expected(self) -> Path:
        """The file with its expected output."""
        return LESSONS / "expected" / f"{self.name}.txt"


def load(name: str) -> Lesson:
    """Return a lesson by name; raise `UserFacingError` if no chapter lists it."""
    if name not in NAMES:
        raise UserFacingError(f"there is no lesson {name!r}: `list` shows the names.")
    module = importlib.import_module(f"{PACKAGE}.{name}")
    doc = inspect.cleandoc(module.__doc__ or "")
    title, _, rest = doc.partition("\n\n")
    pieces = re.split(rf"^({'|'.join(PARTS)}): ", rest, flags=re.MULTILINE)
    parts = {pieces[i]: pieces[i + 1].strip() for i in range(1, len(pieces), 2)}
    chapter = next(chapter for chapter, names in CHAPTERS.items() if name in names)
    return Lesson(
        name,
        chapter,
        title.rstrip("."),
        pieces[0].strip(),
        parts,
        inspect.getsource(module),
        module.run,
    )
