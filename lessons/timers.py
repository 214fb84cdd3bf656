"""Event-time timers: the processor is called when the watermark reaches a chosen time.

A timer belongs to a key and a time; a key may have several. When the watermark reaches the time,
Spark calls `handleExpiredTimer`, and deletes the timer afterwards. Here every reading moves its
rack's timer to ten minutes later, and a rack whose timer expires is silent.

Notice: The first timer of rack2 was deleted when its next reading came; otherwise it would have
expired too. Event-time timers follow the watermark: if all racks were silent, none would be
detected.
In production: `silent_sensor` uses processing-time timers for that reason.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lessons.harness.context import LessonContext

SILENCE_MS = 600_000


class Silence(StatefulProcessor):
    """Detects racks without a reading for ten minutes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep the handle, which registers timers."""
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Move the rack's timer to ten minutes after its newest reading."""
        newest = max(row.ms for row in rows)
        for timer in self.handle.listTimers():
            newest = max(newest, timer - SILENCE_MS)
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(newest + SILENCE_MS)
        return iter(())

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803, ARG002
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Yield the silent rack and the time of its last reading."""
        yield Row(rack=key[0], silent_since_ms=expiredTimerInfo.getExpiryTimeInMs() - SILENCE_MS)


def silences(readings: DataFrame) -> DataFrame:
    """Return `rack` and `since` of silent racks, from `rack` and `ts`."""
    watermarked = readings.withWatermark("ts", "1 minute").withColumn("ms", F.unix_millis("ts"))
    found = watermarked.groupBy("rack").transformWithState(
        Silence(), "rack string, silent_since_ms long", "update", "EventTime"
    )
    return found.select("rack", F.timestamp_millis("silent_since_ms").alias("since"))


def run(context: LessonContext) -> Iterator[str]:
    """Send readings until rack1 is silent while rack2 continues."""
    readings = context.stream("rack string, ts timestamp", "1.json", "2.json", "3.json")
    yield from context.run_batches(silences(readings), "update", progress=True)
