"""Files stay after they are read, unless `cleanSource` deletes or archives them.

The source lists the whole folder before every batch, so a growing folder makes every batch slower.
With `cleanSource`, a background thread removes the files of a committed batch when the next batch
begins.

Notice: The files of the last batch remain until another batch follows. Archiving keeps the complete
source path below the archive folder. Clean up only files that no other query reads.
In production: Kafka does this by retention: a topic deletes records by age or size, whether or not
they were read. What has to stay, `archive` copies to files.
"""

from collections.abc import Iterator
from pathlib import Path

from lessons.harness.context import LessonContext, await_end, wait_until


def run(context: LessonContext) -> Iterator[str]:
    """Read three files, one per batch, with each kind of cleanup."""

    def files_in(folder: str) -> list[str]:
        return sorted(path.name for path in (context.folder / folder).rglob("*.json"))

    for cleanup, remaining in (("off", 3), ("delete", 1), ("archive", 1)):
        folder = context.add_files("1.json", "2.json", "3.json", into=f"input-{cleanup}")
        options: dict[str, int | str] = {"maxFilesPerTrigger": 1, "cleanSource": cleanup}
        if cleanup == "archive":
            options["sourceArchiveDir"] = context.path("archived")
        files = context.spark.readStream.schema("file int").options(**options).json(folder)
        noop = files.writeStream.format("noop").option(
            "checkpointLocation", context.path(f"checkpoint-{cleanup}")
        )
        await_end(noop.trigger(availableNow=True).start())
        wait_until(lambda name, number: len(files_in(name)) <= number, Path(folder).name, remaining)
        yield f"{cleanup}: remaining {', '.join(files_in(Path(folder).name))}"
    yield f"archived: {', '.join(files_in('archived'))}"
