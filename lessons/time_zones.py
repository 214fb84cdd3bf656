"""Windows are aligned to UTC, whatever the session's time zone; `startTime` shifts them.

A timestamp is an instant. The session's time zone decides how text without a zone is parsed and how
timestamps are displayed. It does not move windows, which are aligned to 1970-01-01 00:00 UTC.
`startTime` shifts all windows by the same amount.

Notice: A day in Berlin begins at 23:00 UTC in winter and at 22:00 UTC in summer. A daily window
with an offset of 23 hours is right on the 25th and wrong after the clocks changed on the 26th:
22:30 UTC is then the 27th in Berlin. Only grouping by the date in that zone is right on both days.
In production: All times are UTC, in the events (with `Z`), in the session and in the results of
`rack_temperature`. Readers convert for display.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def run(context: LessonContext) -> Iterator[str]:
    """Count events per day in four ways."""
    events = context.stream("ts timestamp", "events.json")
    local = F.to_date(F.from_utc_timestamp("ts", "Europe/Berlin"))
    for name, day in {
        "day in UTC": F.window("ts", "1 day")["start"],
        "day with an offset of 23 hours": F.window("ts", "1 day", startTime="23 hours")["start"],
        "date in Berlin": local,
    }.items():
        yield name
        yield from context.run_batches(events.groupBy(day.alias("day")).count(), "update", name)
    context.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield "day in UTC, shown by a session in Berlin"
    yield from context.run_batches(
        events.groupBy(F.window("ts", "1 day")["start"].alias("day")).count(), "update", "zone"
    )
