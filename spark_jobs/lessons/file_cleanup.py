"""What becomes of files that were read: nothing, or `cleanSource` deletes or archives them.

The source lists its whole folder before every batch, so a folder that only grows makes every batch slower. With
`cleanSource` the files of a batch are removed when it is committed and the next begins, by a thread of their own.

Notice: The files of the last batch stay: they are cleaned up when a batch follows. Archiving keeps the whole path
below the archive. Clean up only what no other query reads.
In production: Kafka does this by retention: a topic forgets by age or size, whoever has read it.
"""

from collections.abc import Iterator
from pathlib import Path

from spark_jobs.lessons.frame.lab import Lab, finish, wait_until


def run(lab: Lab) -> Iterator[str]:
    """Read three files, one a batch, with each kind of cleaning up."""

    def files_in(folder: str) -> list[str]:
        return sorted(path.name for path in (lab.folder / folder).rglob("*.json"))

    for cleaning, left in (("off", 3), ("delete", 1), ("archive", 1)):
        folder = lab.arrive("1.json", "2.json", "3.json", into=f"input-{cleaning}")
        options: dict[str, int | str] = {"maxFilesPerTrigger": 1, "cleanSource": cleaning}
        if cleaning == "archive":
            options["sourceArchiveDir"] = lab.path("archived")
        files = lab.spark.readStream.schema("file int").options(**options).json(folder)
        noop = files.writeStream.format("noop").option(
            "checkpointLocation", lab.path(f"checkpoint-{cleaning}")
        )
        finish(noop.trigger(availableNow=True).start())
        wait_until(lambda name, number: len(files_in(name)) <= number, Path(folder).name, left)
        yield f"{cleaning}: left {', '.join(files_in(Path(folder).name))}"
    yield f"archived: {', '.join(files_in('archived'))}"
