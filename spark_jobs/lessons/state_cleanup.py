"""What state is kept: rows of state after each batch, without a watermark and with one in each mode.

Five files, each an hour after the one before, two windows in each. Without a watermark every window stays in the
state. With one, windows that are over are removed, in update and in append mode; in complete mode all must stay,
since the whole result is given each time.

Notice: Update gives a window when it changes and forgets it when it is over. Append keeps it until it is over and
gives it then. Both hold the same state in the end; complete holds everything for ever, with a watermark or without.
In production: `rack_temperature` keeps the windows of 10 minutes of lateness; its state does not grow with time.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish


def run(lab: Lab) -> Iterator[str]:
    """Show the number of rows of state after each batch."""
    readings = lab.stream("rack string, ts timestamp", *(f"{at}.json" for at in range(5)))
    late = readings.withWatermark("ts", "10 minutes")
    for name, rows, mode in (
        ("no watermark, update", readings, "update"),
        ("watermark, complete", late, "complete"),
        ("watermark, update", late, "update"),
        ("watermark, append", late, "append"),
    ):
        counts = rows.groupBy(F.window("ts", "10 minutes"), "rack").count()
        query = (
            counts.writeStream.outputMode(mode)
            .format("memory")
            .queryName(name.replace(", ", "_").replace(" ", "_"))
        )
        running = query.trigger(availableNow=True).start()
        finish(running)
        kept = [batch.stateOperators[0].numRowsTotal for batch in running.recentProgress]
        yield f"{name:<20}  state rows after each batch: {kept}"
