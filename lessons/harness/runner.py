"""Run lessons in one session, each in a new folder, and compare their output."""

import difflib
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from events.cli import unwind_at_end
from events.files import make_folder
from events.settings import Settings
from jars.java import QUICK_JAVA
from lessons.harness.broker import LazyBroker, lazy_broker
from lessons.harness.catalogue import Lesson
from lessons.harness.context import LessonContext
from spark_jobs.runtime import cds_archive
from spark_jobs.runtime.session import new_session, redirected
from spark_jobs.runtime.small_data import INTERPRETED

SLOTS = 8
"""Task slots: continuous and real-time queries hold one per partition, others need one or two."""

CONFIG = {
    **INTERPRETED,  # the lessons have some ten rows
    # Otherwise Spark drops its only executor when a laptop sleeps for two minutes.
    "spark.network.timeout": "1h",
    # Lessons show the progress of all their batches.
    "spark.sql.streaming.numRecentProgressUpdates": "100",
    # The jobs switch this off for speed; lessons show it.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "true",
}


def run_lessons(
    lessons: list[Lesson],
    settings: Settings,
    *,
    keep: bool,
    accept: bool,
    echo: Callable[[str], None],
) -> list[str]:
    """Run lessons, print their output, and return the names of those that differ or fail.

    With `keep` their folders stay. With `accept` the output is stored as the expected one.

    Signals that end the program unwind it from here on, as the broker would outlive it.
    """
    unwind_at_end()
    home = settings.rackstream_home / "lessons"
    make_folder(home, "the lessons' folder")
    different = []
    with _scratch(home) as scratch, lazy_broker(scratch / "kafka") as broker:
        console = scratch / "console.txt"
        with _session(settings, scratch, console) as spark:
            for lesson in lessons:
                folder = home / lesson.name
                shutil.rmtree(folder, ignore_errors=True)
                echo(f"== {lesson.name}: {lesson.title}")
                started = time.monotonic()
                printed: list[str] = []
                try:
                    with _lesson_context(lesson, spark, folder, broker, console) as context:
                        for text in lesson.run(context):
                            echo(text)
                            printed.append(text)
                except Exception:  # noqa: BLE001 - the other lessons still run
                    echo(traceback.format_exc())
                    different.append(lesson.name)
                    continue
                finally:
                    if not keep:
                        shutil.rmtree(folder, ignore_errors=True)
                output = "\n".join(printed) + "\n"
                if accept:
                    lesson.expected.write_text(output, encoding="utf-8")
                echo(
                    f"-- {time.monotonic() - started:.1f} s"
                    + (f"; files are in {folder}" if keep else "")
                )
                for text in context.measurements:
                    echo(f"measured: {text}")
                if difference := difference_from_expected(lesson, output):
                    different.append(lesson.name)
                    echo(difference)
                else:
                    echo(f"Notice: {lesson.parts['Notice']}")
        if not keep:  # again: maintenance of state outlives a query, and may recreate its folder
            for lesson in lessons:
                shutil.rmtree(home / lesson.name, ignore_errors=True)
    return different


def difference_from_expected(lesson: Lesson, output: str) -> str:
    """Return a diff from the expected output to this one; empty if they are equal."""
    expected = lesson.expected.read_text(encoding="utf-8") if lesson.expected.exists() else ""
    lines = difflib.unified_diff(
        expected.splitlines(),
        output.splitlines(),
        f"expected/{lesson.name}.txt",
        "this run",
        lineterm="",
    )
    return "\n".join(lines)


@contextmanager
def _scratch(home: Path) -> Iterator[Path]:
    scratch = Path(tempfile.mkdtemp(prefix=".run-", dir=home)).resolve()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _session(settings: Settings, scratch: Path, console: Path) -> Iterator[SparkSession]:
    own_settings = Settings(rackstream_jars=settings.jars_dir.resolve(), rackstream_home=scratch)
    with redirected(1, console):  # so that a lesson can read what the JVM prints
        spark = new_session(
            own_settings,
            SLOTS,
            1,
            CONFIG,
            f"{cds_archive.java_options(own_settings)} {QUICK_JAVA}",
        )
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _lesson_context(
    lesson: Lesson, spark: SparkSession, folder: Path, broker: LazyBroker, console: Path
) -> Iterator[LessonContext]:
    folder.mkdir(parents=True)
    # A new session: settings and views of one lesson do not exist in the next.
    session = spark.newSession()
    session.conf.set(
        "spark.sql.streaming.checkpointLocation", str((folder / "checkpoints").resolve())
    )
    context = LessonContext(session, folder.resolve(), lesson.data, broker, console)
    context.console_output()
    try:
        yield context
    finally:
        for query in session.streams.active:
            query.stop()
        for table in session.sql("SHOW TABLES").where("NOT isTemporary").collect():
            session.sql(f"DROP TABLE {table.tableName}")
