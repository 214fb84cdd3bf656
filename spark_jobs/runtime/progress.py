"""Read the progress of each batch: rates, lag behind the topics, late records."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from py4j.java_gateway import JavaObject, java_import
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from spark_jobs.runtime.late_records import late_records
from spark_jobs.runtime.left_out_records import records_left_out

BEGINNING = "1970-01-01T00:00:00.000Z"
"""The watermark before the first batch: no record is later than it."""
BatchHandler = Callable[[dict[str, Any]], None]
"""Takes the progress of a batch; must not block, as it holds up Spark's other listeners."""


class BatchListener:
    """A listener that hands the `StreamingQueryProgress` of every batch to some functions.

    Three fields are added: `records_behind` is the lag (Spark commits no offsets to Kafka, so no
    Kafka tool shows it), `late_records` is the number of records that arrived too late to count,
    and `records_left_out` is the number of records that the job left out as unreadable or, by event
    time, as too far in the future. Each is null where it is unknown.

    It is no `StreamingQueryListener` of PySpark, which fetches each field of the progress from the
    JVM in calls of its own. That takes a fifth of the driver's CPU when batches are short.
    """

    class Java:
        """By this class py4j knows which Java interface the object implements."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def __init__(self, handlers: Sequence[BatchHandler]) -> None:
        self._handlers = handlers
        self._lock = Lock()
        self._watermarks: dict[str, str] = {}

    def add_to(self, spark: SparkSession) -> None:
        """Listen to all queries of the session."""
        gateway = SparkContext._gateway
        if gateway is None:
            raise AssertionError("the session runs")
        java_import(gateway.jvm, "org.apache.spark.sql.streaming.*")
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        spark.streams._jsqm.addListener(gateway.jvm.PythonStreamingQueryListenerWrapper(self))

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802 - Spark's names
        """Do nothing yet."""

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802
        """Hand over the batch's progress."""
        progress = json.loads(event.progress().json())
        run, watermark = (
            progress["runId"],
            progress.get("eventTime", {}).get("watermark", BEGINNING),
        )
        with self._lock:
            before = self._watermarks.get(run, None if progress["batchId"] else BEGINNING)
            progress["late_records"] = late_records(progress, before)
            progress["records_behind"] = records_behind(progress)
            progress["records_left_out"] = records_left_out(progress)
            self._watermarks[run] = watermark
            for handle in self._handlers:
                handle(progress)

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802
        """Do nothing: an idle query has no batch."""

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802
        """Forget the query's run; the runner says why it ended."""
        with self._lock:
            self._watermarks.pop(event.runId().toString(), None)


def records_behind(progress: Mapping[str, Any]) -> int | None:
    """Return how many records of the topics a batch did not reach, or None where it is unknown."""
    behind: int = 0
    for source in progress["sources"]:
        reached, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(reached, dict) or not isinstance(latest, dict):
            return None
        behind += sum(
            int(offset) - int(reached.get(topic, {}).get(partition, 0))
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    return behind


class ProgressFile:
    """Appends the progress of each batch to a file, as one JSON line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def append(self, progress: dict[str, Any]) -> None:
        """Write a line at once: readers follow the file."""
        self._file.write(json.dumps(progress) + "\n")
        self._file.flush()
