"""Run lessons in one session, each in a fresh folder that is empty again afterwards, and compare what they print."""

import difflib
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from events.settings import Settings
from jars.java import QUICK_JAVA
from spark_jobs import class_archive
from spark_jobs.lessons.frame.broker import LazyBroker, broker_when_needed
from spark_jobs.lessons.frame.catalogue import Lesson
from spark_jobs.lessons.frame.lab import Lab
from spark_jobs.session import new_session

SLOTS = 8
"""Continuous and real-time queries hold a slot for each partition; the other lessons need one or two."""

CONFIG = {
    # The lessons' tables have some ten rows: interpreting is done before compiling would have begun.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A laptop that slept for two minutes would find its only executor taken for dead.
    "spark.network.timeout": "1h",
    # A lesson looks at the progress of all its batches.
    "spark.sql.streaming.numRecentProgressUpdates": "100",
    # The jobs leave this out for speed; a lesson shows it.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "true",
}


def run_lessons(
    lessons: list[Lesson], settings: Settings, *, keep: bool, accept: bool, say: Callable[[str], None]
) -> list[str]:
    """Run lessons, say their output, and return the names of those whose output was not the expected.

    With `keep` the folders stay; with `accept` the output becomes what is expected from now on.
    """
    home = settings.rackstream_home / "lessons"
    home.mkdir(parents=True, exist_ok=True)
    different = []
    with _scratch(home) as scratch, broker_when_needed(scratch / "kafka") as broker:
        console = scratch / "console.txt"
        with _session(settings, scratch, console) as spark:
            for lesson in lessons:
                folder = home / lesson.name
                shutil.rmtree(folder, ignore_errors=True)
                say(f"== {lesson.name}: {lesson.title}")
                began = time.monotonic()
                printed: list[str] = []
                try:
                    with _lab(lesson, spark, folder, broker, console) as lab:
                        for text in lesson.run(lab):
                            say(text)
                            printed.append(text)
                except Exception:  # noqa: BLE001 - what one lesson dies of must not keep the others from running
                    say(traceback.format_exc())
                    different.append(lesson.name)
                    continue
                finally:
                    if not keep:
                        shutil.rmtree(folder, ignore_errors=True)
                output = "\n".join(printed) + "\n"
                if accept:
                    lesson.expected.write_text(output, encoding="utf-8")
                say(f"-- {time.monotonic() - began:.1f} s" + (f"; files are in {folder}" if keep else ""))
                if difference := difference_from_expected(lesson, output):
                    different.append(lesson.name)
                    say(difference)
                else:
                    say(f"Notice: {lesson.parts['Notice']}")
        if (
            not keep
        ):  # once more: Spark's upkeep of state goes on beside a query's end, and makes folders anew
            for lesson in lessons:
                shutil.rmtree(home / lesson.name, ignore_errors=True)
    return different


def difference_from_expected(lesson: Lesson, output: str) -> str:
    """Return how an output differs from the expected one, line by line; empty when it does not."""
    expected = lesson.expected.read_text(encoding="utf-8") if lesson.expected.exists() else ""
    lines = difflib.unified_diff(
        expected.splitlines(), output.splitlines(), f"expected/{lesson.name}.txt", "this run", lineterm=""
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
    own = Settings(rackstream_jars=settings.jars_dir.resolve(), rackstream_home=scratch)
    with _standard_output_to(console):
        spark = new_session(own, SLOTS, 1, CONFIG, f"{class_archive.java_options(own)} {QUICK_JAVA}")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _lab(
    lesson: Lesson, spark: SparkSession, folder: Path, broker: LazyBroker, console: Path
) -> Iterator[Lab]:
    folder.mkdir(parents=True)
    # A session of its own: settings and views of one lesson are not there in the next.
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.checkpointLocation", str((folder / "checkpoints").resolve()))
    lab = Lab(session, folder.resolve(), lesson.data, broker, console)
    lab.console()
    try:
        yield lab
    finally:
        for query in session.streams.active:
            query.stop()
        for table in session.sql("SHOW TABLES").where("NOT isTemporary").collect():
            session.sql(f"DROP TABLE {table.tableName}")


@contextmanager
def _standard_output_to(path: Path) -> Iterator[None]:
    """Let the JVM that is started meanwhile write its console to a file, where a lesson finds it."""
    sys.stdout.flush()
    ours = os.dup(1)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 1)
        yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)
