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


class ProgressLog(StreamingQueryListener):
    """Append Spark's own `StreamingQueryProgress` of every query to a file, one JSON object a batch.

    Lag is in `sources[].metrics` (`*OffsetsBehindLatest`): Spark commits no offsets to Kafka, so no tool of Kafka's
    shows it. `numRowsDroppedByWatermark` counts after partial aggregation: a lower bound of what came too late.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        self._lock = Lock()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Write nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Write the batch's progress."""
        line = json.dumps(json.loads(event.progress.json))
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Write nothing: an idle query has no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Write nothing: the run says why a query ended."""
