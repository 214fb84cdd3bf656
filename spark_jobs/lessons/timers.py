"""Timers: a processor that is called when the watermark has passed a moment that it chose.

A timer is set for a key and a moment; a key may have several. When the watermark passes it, `handleExpiredTimer` is
called. Here every reading moves its rack's timer to ten minutes later, and a rack whose timer expires is silent.

Notice: rack2's first timer was deleted when its next reading came, otherwise it would have expired, too. Event-time
timers go by the watermark: were all racks silent, none would be found out.
In production: `silent_sensor` uses timers by the clock for that reason.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_jobs.lessons.frame.lab import Lab

SILENCE_MS = 600_000


class Silence(StatefulProcessor):
    """Tells when a rack had no reading for ten minutes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep the handle: timers belong to it."""
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Move the rack's timer to ten minutes after its newest reading."""
        newest = max(row.ms for row in rows)
        for timer in self.handle.listTimers():
            newest = max(newest, timer - SILENCE_MS)
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(newest + SILENCE_MS)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Say that the rack is silent, and since when."""
        yield Row(rack=key[0], silent_since_ms=expiredTimerInfo.getExpiryTimeInMs() - SILENCE_MS)


def silences(readings: DataFrame) -> DataFrame:
    """Return `rack` and `since` of racks that fell silent; in: `rack`, `ts`."""
    late = readings.withWatermark("ts", "1 minute").withColumn("ms", F.unix_millis("ts"))
    found = late.groupBy("rack").transformWithState(
        Silence(), "rack string, silent_since_ms long", "update", "EventTime"
    )
    return found.select("rack", F.timestamp_millis("silent_since_ms").alias("since"))


def run(lab: Lab) -> Iterator[str]:
    """Let rack1 fall silent, while rack2 goes on."""
    readings = lab.stream("rack string, ts timestamp", "1.json", "2.json", "3.json")
    yield from lab.batches(silences(readings), "update", progress=True)
