"""When state is removed: rows of state after each batch, with and without a watermark.

There are five files, each an hour later than the previous one, with two windows in each. Without a
watermark every window stays in the state. With a watermark, update and append mode remove closed
windows. Complete mode keeps them all, because every batch writes the whole result.

Notice: Update mode writes a window when it changes and removes it when it closes. Append mode
writes it when it closes. Both hold the same state in the end. Complete mode keeps everything for
ever, with or without a watermark.
In production: `rack_temperature` keeps only windows within 10 minutes of lateness, so its state
does not grow with time.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end


def run(context: LessonContext) -> Iterator[str]:
    """Show the number of state rows after each batch."""
    readings = context.stream(
        "rack string, ts timestamp", *(f"{number}.json" for number in range(5))
    )
    watermarked = readings.withWatermark("ts", "10 minutes")
    for name, rows, mode in (
        ("no watermark, update", readings, "update"),
        ("watermark, complete", watermarked, "complete"),
        ("watermark, update", watermarked, "update"),
        ("watermark, append", watermarked, "append"),
    ):
        counts = rows.groupBy(F.window("ts", "10 minutes"), "rack").count()
        query = (
            counts.writeStream.outputMode(mode)
            .format("memory")
            .queryName(name.replace(", ", "_").replace(" ", "_"))
        )
        running = query.trigger(availableNow=True).start()
        await_end(running)
        state_rows = [batch.stateOperators[0].numRowsTotal for batch in running.recentProgress]
        yield f"{name:<20}  state rows after each batch: {state_rows}"
