"""The file source reads the oldest file first, or with `latestFirst` the newest.

Files are ordered by modification time. `maxFilesPerTrigger` limits a batch; without it the first
batch contains every file. Within a batch there is no order, because files are read in parallel.

Notice: With `latestFirst` the newest file is available after one batch, and older files follow. Do
not combine it with a watermark: the first batch would make all later ones late.
In production: Most jobs limit a micro-batch by records (`--records-per-batch`), so a backlog
becomes many batches. `overheating` needs the topic's order, and restores it within a batch.
"""

from collections.abc import Iterator

from lessons.harness.context import LessonContext


def run(context: LessonContext) -> Iterator[str]:
    """Read three files of different ages with three sets of options."""
    folder = context.add_files("1.json", "2.json", "3.json")
    for number, options in enumerate(
        ({}, {"maxFilesPerTrigger": 1}, {"maxFilesPerTrigger": 1, "latestFirst": True})
    ):
        files = context.spark.readStream.schema("file int").options(**options).json(folder)
        yield f"options {options}"
        yield from context.run_batches(files, checkpoint=f"checkpoint-{number}")
