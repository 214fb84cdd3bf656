"""`python -m spark_jobs list|run`: the jobs on the command line."""

import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from events import cli, settings
from events.inventory import read_inventory
from spark_jobs import running
from spark_jobs.job import JobOptions
from spark_jobs.kafka import ReadOptions
from spark_jobs.registry import JOBS
from spark_jobs.triggers import Trigger

app = cli.new_app("Structured Streaming jobs: one question each, from a Kafka topic to a Kafka topic.")


@app.command("list")
def list_jobs() -> None:
    """List the jobs: name, topics, triggers (the default first), and the question."""
    for job in JOBS.values():
        question = (sys.modules[_module(job.name)].__doc__ or "").split(" Topics:")[0]
        typer.echo(f"{job.name}  {job.source.name} -> {job.sink.name}  [{', '.join(job.plans)}]  {question}")


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="The jobs to run in one session; `list` shows them.")],
    trigger: Annotated[
        Trigger | None,
        typer.Option(help="How to run them; by default as each job does best. available-now ends."),
    ] = None,
    checkpoint_root: Annotated[
        str, typer.Option(help="Folder or URL below which each query keeps its state.")
    ] = ".rackstream/checkpoints",
    starting_offsets: Annotated[
        str,
        typer.Option(
            help="Where to begin without a checkpoint: earliest, latest, or Spark's JSON of offsets."
        ),
    ] = "earliest",
    inventory: Annotated[
        Path | None, typer.Option(help="The racks' thresholds, JSON lines; without it 100 °C for all.")
    ] = None,
    window: Annotated[str, typer.Option(help="rack_temperature: length of a window.")] = "10 minutes",
    slide: Annotated[str, typer.Option(help="rack_temperature: a window begins this often.")] = "5 minutes",
    watermark: Annotated[str, typer.Option(help="How late a reading may be and still count.")] = "10 minutes",
    output_mode: Annotated[
        str,
        typer.Option(help="update: windows as they fill; append (micro-batch): once, when they are closed."),
    ] = "update",
    state_partitions: Annotated[
        int,
        typer.Option(min=1, help="Over how many tasks state is spread; fixed at a checkpoint's first start."),
    ] = 4,
    batch_seconds: Annotated[
        float | None,
        typer.Option(
            min=0, help="Length of a real-time batch (default 300) or time between micro-batches (default 0)."
        ),
    ] = None,
    records_per_batch: Annotated[
        int, typer.Option(min=1, help="At most this many records in one micro-batch.")
    ] = 1_000_000,
    progress: Annotated[
        Path | None,
        typer.Option(help="Append each batch's progress to this file: rate, lag, late rows, as JSON lines."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A Spark setting, key=value; may be repeated.")
    ] = None,
) -> None:
    """Run jobs until they end (available-now), Ctrl-C, or a query dies (exit status 1)."""
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        raise cli.PersonError(f"there is no job {unknown[0]!r}: choose from {', '.join(JOBS)}.")
    if output_mode not in ("update", "append"):
        raise cli.PersonError(f"--output-mode {output_mode!r} is neither update nor append.")
    for setting in conf or []:
        if "=" not in setting:
            raise cli.PersonError(f"--conf {setting!r} is not of the form key=value.")
    racks = tuple(read_inventory(inventory)) if inventory else ()
    options = running.RunOptions(
        trigger=trigger,
        checkpoint_root=checkpoint_root,
        state_partitions=state_partitions,
        batch=None if batch_seconds is None else timedelta(seconds=batch_seconds),
        read=ReadOptions(starting_offsets, records_per_batch),
        conf=tuple((key, value) for key, _, value in (setting.partition("=") for setting in conf or [])),
        progress=progress,
    )
    job_options = JobOptions(window, slide, watermark, output_mode, racks)
    status = running.run(
        [JOBS[name] for name in names], settings.load(), options, job_options, partial(typer.echo, err=True)
    )
    raise typer.Exit(status)


def _module(job: str) -> str:
    return f"spark_jobs.{job}"


if __name__ == "__main__":
    cli.run(app, "spark_jobs")
