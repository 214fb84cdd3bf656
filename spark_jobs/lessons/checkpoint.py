"""The checkpoint: what is in it, and what a query does with it, without it, and without its output.

`offsets` says what each batch was to read, written before it; `commits` that it is done, written after it; `state` is
what stateful operators know; `sources` what files were seen; `metadata` the query's id. Together they are the query's
memory; the output is none of its business.

Notice: With a new checkpoint all is read again, and doubled in an output that is still there. With the old one and
the output deleted nothing is written: the query knows that it is done, and does not look.
In production: Checkpoints lie below `--checkpoint-root`, by job, plan, rules version and prefix.
"""

from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Lab, finish


def run(lab: Lab) -> Iterator[str]:
    """Run with a checkpoint, again, with a new one, and with the old one after the output is gone."""
    users = lab.stream("user string", "1.json", "2.json").dropDuplicates()

    def started_with(checkpoint: str) -> str:
        writer = users.writeStream.format("csv").option("path", lab.path("out"))
        finish(writer.option("checkpointLocation", lab.path(checkpoint)).trigger(availableNow=True).start())
        files = list((lab.folder / "out").glob("*.csv"))
        return (
            f"rows in the output: {sum(len(file.read_text(encoding='utf-8').splitlines()) for file in files)}"
        )

    yield f"first start: {started_with('checkpoint')}"
    for folder in sorted((lab.folder / "checkpoint").iterdir()):
        if not folder.name.startswith("."):
            inside = (
                sorted(path.name for path in folder.iterdir() if path.name[0] != ".")
                if folder.is_dir()
                else "a file"
            )
            yield f"  {folder.name}: {inside}"
    yield f"again: {started_with('checkpoint')}"
    lab.remove("out/_spark_metadata")
    yield f"with a new checkpoint: {started_with('another')}"
    lab.remove("out")
    (lab.folder / "out").mkdir()
    yield f"with the old one, the output deleted: {started_with('checkpoint')}"
