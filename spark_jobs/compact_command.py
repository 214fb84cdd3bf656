"""Provide `compact`, which merges the archive's small files, once or again and again."""

import time
from pathlib import Path
from typing import Annotated

import typer

from events.cli import UserFacingError
from events.durations import duration_option
from spark_jobs.storage import compaction

app = typer.Typer()


@app.command()
def compact(
    archive: Annotated[
        Path, typer.Option(help="The folder that the job archive writes to; not a URL.")
    ] = Path(".rackstream/archive"),
    every_ms: Annotated[
        int | None,
        typer.Option(
            "--every",
            parser=duration_option,
            metavar="DURATION",
            help="Compact again and again, with so long between two starts: 30m, 1h. "
            "By default once.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Merge the archive's small files into one per topic, kind and hour, below `compacted`.

    The job archive may run meanwhile. With --every, a compaction that cannot be made is reported,
    and the next one is made nonetheless.
    """
    if every_ms == 0:
        raise UserFacingError("--every is longer than 0, such as 1h.")
    if every_ms is None:
        _compact(archive)
    while every_ms is not None:
        started_s = time.monotonic()
        try:
            _compact(archive)
        except (UserFacingError, OSError) as error:
            typer.echo(f"compact: {error}", err=True)
        time.sleep(max(0.0, started_s + every_ms / 1000 - time.monotonic()))


def _compact(archive: Path) -> None:
    for done in compaction.compact(archive):
        if done.small_files:
            typer.echo(
                f"{done.topic}: {done.small_files} files into {done.hours}, {done.records} records"
            )
