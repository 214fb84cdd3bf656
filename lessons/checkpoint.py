"""What a checkpoint contains, and what happens without it or without the output.

`offsets` says what each batch will read, and is written before the batch. `commits` says that the
batch is done, and is written after it. `state` holds the state of stateful operators, `sources` the
files seen, `metadata` the query's id. The checkpoint does not include the output.

Notice: With a new checkpoint, all input is read again, and existing output gets every row twice.
With the old checkpoint and a deleted output, nothing is written: the query considers these batches
done.
In production: Checkpoints are stored below `--checkpoint-root`, by job, plan, state version and
prefix.
"""

from collections.abc import Iterator

from lessons.harness.context import LessonContext, await_end


def run(context: LessonContext) -> Iterator[str]:
    """Run with a checkpoint, again, with a new one, and with the old one but no output."""
    users = context.stream("user string", "1.json", "2.json").dropDuplicates()

    def run_with(checkpoint: str) -> str:
        writer = users.writeStream.format("csv").option("path", context.path("out"))
        await_end(
            writer.option("checkpointLocation", context.path(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        files = list((context.folder / "out").glob("*.csv"))
        rows = [row for file in files for row in file.read_text(encoding="utf-8").splitlines()]
        return f"rows in the output: {len(rows)}"

    yield f"first start: {run_with('checkpoint')}"
    for folder in sorted((context.folder / "checkpoint").iterdir()):
        if not folder.name.startswith("."):
            contents = (
                sorted(path.name for path in folder.iterdir() if path.name[0] != ".")
                if folder.is_dir()
                else "a file"
            )
            yield f"  {folder.name}: {contents}"
    yield f"again: {run_with('checkpoint')}"
    context.remove("out/_spark_metadata")
    yield f"with a new checkpoint: {run_with('another')}"
    context.remove("out")
    (context.folder / "out").mkdir()
    yield f"with the old checkpoint and no output: {run_with('checkpoint')}"
