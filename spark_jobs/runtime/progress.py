"""Read the progress of each batch: rates, lag behind the topics, late records."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_jobs.runtime.late_records import late_records, records_behind
from spark_jobs.runtime.left_out_records import records_left_out

BEGINNING = "1970-01-01T00:00:00.000Z"
"""The watermark before the first batch: no record is later than it."""
BatchHandler = Callable[[dict[str, Any]], None]
"""Takes the progress of a batch; must not block, as it holds up Spark's other listeners."""


class BatchListener(StreamingQueryListener):
    """A listener that hands the `StreamingQueryProgress` of every batch to some functions.

    Three fields are added: `records_behind` is the lag (Spark commits no offsets to Kafka, so no
    Kafka tool shows it), `late_records` is the number of records that arrived too late to count,
    and `records_left_out` is the number of records that the job left out as unreadable or, by event
    time, as too far in the future. Each is null where it is unknown.
    """

    def __init__(self, handlers: Sequence[BatchHandler]) -> None:
        self._handlers = handlers
        self._lock = Lock()
        self._watermarks: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Do nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Hand over the batch's progress."""
        progress = json.loads(event.progress.json)
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

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: an idle query has no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the query's run; the runner says why it ended."""
        with self._lock:
            self._watermarks.pop(str(event.runId), None)


class ProgressFile:
    """Appends the progress of each batch to a file, as one JSON line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def append(self, progress: dict[str, Any]) -> None:
        """Write a line at once: readers follow the file."""
        self._file.write(json.dumps(progress) + "\n")
        self._file.flush()
