"""Days and zones: windows are cut in UTC, whatever zone the session shows them in; an offset moves them.

A timestamp is a moment. The session's zone decides how text without a zone is read and how moments are shown, not
where windows begin: those count from 1970-01-01 00:00 UTC. `startTime` moves all of them by the same amount.

Notice: Berlin's day begins at 23:00 UTC in winter and at 22:00 in summer. A window of a day with an offset of 23
hours is right on the 25th and wrong after the clocks changed on the 26th: 22:30 UTC is then the 27th in Berlin, and
only a group by date in that zone knows.
In production: All times are UTC, in the events (with `Z`) and in the session; the one who looks converts.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Count events by day in four ways."""
    events = lab.stream("ts timestamp", "events.json")
    local = F.to_date(F.from_utc_timestamp("ts", "Europe/Berlin"))
    for name, day in {
        "day in UTC": F.window("ts", "1 day")["start"],
        "day with an offset of 23 hours": F.window("ts", "1 day", startTime="23 hours")["start"],
        "date in Berlin": local,
    }.items():
        yield name
        yield from lab.batches(events.groupBy(day.alias("day")).count(), "update", name)
    lab.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield "day in UTC, shown by a session in Berlin"
    yield from lab.batches(
        events.groupBy(F.window("ts", "1 day")["start"].alias("day")).count(), "update", "zone"
    )
