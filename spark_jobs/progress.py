"""What the queries say about themselves after each batch, as JSON lines: rates, lag behind the topic, late rows."""

import json
from pathlib import Path
from threading import Lock

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_jobs.late import late_records, records_behind

_BEGINNING = "1970-01-01T00:00:00.000Z"
"""The watermark before there is one: nothing is late by it."""


class ProgressLog(StreamingQueryListener):
    """Append Spark's own `StreamingQueryProgress` of every query to a file, one JSON object a batch.

    Added are `records_behind`, the lag (Spark commits no offsets to Kafka, so no tool of Kafka's shows it), and
    `late_records`, what came too late to count; each null where it cannot be told.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        self._lock = Lock()
        self._watermarks: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Write nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Write the batch's progress."""
        progress = json.loads(event.progress.json)
        run, watermark = progress["runId"], progress.get("eventTime", {}).get("watermark", _BEGINNING)
        with self._lock:
            before = self._watermarks.get(run, None if progress["batchId"] else _BEGINNING)
            progress["late_records"] = late_records(progress, before)
            progress["records_behind"] = records_behind(progress)
            self._watermarks[run] = watermark
            self._file.write(json.dumps(progress) + "\n")
            self._file.flush()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Write nothing: an idle query has no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Write nothing: the run says why a query ended."""
