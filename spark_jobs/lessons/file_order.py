"""Which file comes first: the oldest, or with `latestFirst` the newest; and how many in a batch.

Files are taken by their time of change. `maxFilesPerTrigger` bounds a batch; without it the first batch is all there
is. Inside a batch there is no order: its files are read side by side.

Notice: With `latestFirst` the newest file is there after one batch, and the past follows. With a watermark that is
fatal: the first batch makes all later ones late.
In production: The jobs bound a micro-batch by records (`--records-per-batch`), so that a backlog is many batches.
"""

from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Read three files of different age in three ways."""
    folder = lab.arrive("1.json", "2.json", "3.json")
    for at, options in enumerate(
        ({}, {"maxFilesPerTrigger": 1}, {"maxFilesPerTrigger": 1, "latestFirst": True})
    ):
        files = lab.spark.readStream.schema("file int").options(**options).json(folder)
        yield f"options {options}"
        yield from lab.batches(files, checkpoint=f"checkpoint-{at}")
