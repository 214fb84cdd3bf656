"""A running count per user, in complete and in update mode.

Each file is a batch. The state holds one count per user and continues from batch to batch. Append
mode is refused, because a count without event time is never final (lesson output_modes).

Notice: Complete mode repeats user2 although no row came for that user; update mode does not.
In production: `user_totals` is a running sum per user.
"""

from collections.abc import Iterator

from lessons.harness.context import LessonContext


def run(context: LessonContext) -> Iterator[str]:
    """Count the rows per user of two files."""
    events = context.stream("user string, ts timestamp", "1.json", "2.json")
    for mode in ("complete", "update"):
        yield mode
        yield from context.run_batches(events.groupBy("user").count(), mode, mode)
