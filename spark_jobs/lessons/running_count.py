"""A running count per user over files, in complete and in update mode.

Each file is a batch. The state holds a count per user and goes on from batch to batch.

Notice: Complete says user2 again though nothing came for that user; update does not.
In production: `user_totals` is a running sum per user.
"""

from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Count the users of two files."""
    events = lab.stream("user string, ts timestamp", "1.json", "2.json")
    for mode in ("complete", "update"):
        yield mode
        yield from lab.batches(events.groupBy("user").count(), mode, mode)
