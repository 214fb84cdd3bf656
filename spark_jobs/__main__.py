"""`python -m spark_jobs list|run|compact`: the jobs on the command line."""

import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from events import cli, settings
from events.inventory import read_inventory
from events.rules import Rules, read_rules
from spark_jobs import compact as compaction
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
        typer.echo(f"{job.name}  {job.flow}  [{', '.join(job.plans)}]  {question}")


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
    window: Annotated[
        str, typer.Option(help="rack_temperature, action_counts: length of a window.")
    ] = "10 minutes",
    slide: Annotated[
        str | None,
        typer.Option(
            help="A window begins this often; by default 5 minutes (rack_temperature), or when the last one ends."
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            help="YAML file of what the alerts' rules ask for, by rack or device type; needs --inventory."
        ),
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option(
            help="How late an event may be and still count (not ad_attribution): by default 10 minutes, "
            "of lost_signal 30 seconds."
        ),
    ] = None,
    output_mode: Annotated[
        str,
        typer.Option(
            help="Windows. update: as they fill; append (micro-batch): once, when they are closed; "
            "complete (action_counts): all, in every batch."
        ),
    ] = "update",
    by: Annotated[
        Literal["action", "user_id"], typer.Option(help="action_counts: what is counted by.")
    ] = "action",
    join: Annotated[
        Literal["inner", "left", "right", "full", "semi"],
        typer.Option(
            help="ad_attribution: which rows come out beside pairs: none, impressions without click, "
            "clicks without impression, both; or semi, the impressions that were clicked."
        ),
    ] = "left",
    first_only: Annotated[
        bool,
        typer.Option(
            "--first-only", help="ad_attribution: only the earliest click, once no earlier can come."
        ),
    ] = False,
    impressions_watermark: Annotated[
        str, typer.Option(help="ad_attribution: how late an impression may be.")
    ] = "2 hours",
    clicks_watermark: Annotated[
        str, typer.Option(help="ad_attribution: how late a click may be.")
    ] = "3 hours",
    watermark_policy: Annotated[
        Literal["min", "max"],
        typer.Option(help="Where two streams meet, time is that of the one further behind (min) or ahead."),
    ] = "min",
    gap: Annotated[
        str, typer.Option(help="user_sessions: a session ends so long after its last action.")
    ] = "30 minutes",
    device_gap: Annotated[
        list[str] | None,
        typer.Option(
            help="user_sessions: another gap for a device, such as phone=10 minutes; may be repeated."
        ),
    ] = None,
    keep: Annotated[
        Literal["for-ever", "expiring"] | None,
        typer.Option(
            help="How long state is kept: for-ever (the default of user_totals), or expiring (of deduplicate)."
        ),
    ] = None,
    topic: Annotated[str, typer.Option(help="deduplicate: the topic to read.")] = "user-actions",
    archive: Annotated[
        str, typer.Option(help="archive: folder or URL below which each topic has a folder.")
    ] = ".rackstream/archive",
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
    if output_mode not in ("update", "append", "complete"):
        raise cli.PersonError(f"--output-mode {output_mode!r} is none of update, append and complete.")
    racks = tuple(read_inventory(inventory)) if inventory else ()
    if rules and not inventory:
        raise cli.PersonError("--rules names racks and device types: name their --inventory too.")
    from_file = read_rules(rules, racks) if rules else Rules()
    options = running.RunOptions(
        trigger=trigger,
        checkpoint_root=checkpoint_root,
        state_partitions=state_partitions,
        batch=None if batch_seconds is None else timedelta(seconds=batch_seconds),
        read=ReadOptions(starting_offsets, records_per_batch),
        conf=_pairs("--conf", conf),
        progress=progress,
    )
    job_options = JobOptions(
        window=window,
        slide=slide,
        watermark=watermark,
        output_mode=output_mode,
        inventory=racks,
        rules=from_file,
        by=by,
        join=join,
        first_only=first_only,
        impressions_watermark=impressions_watermark,
        clicks_watermark=clicks_watermark,
        watermark_policy=watermark_policy,
        gap=gap,
        device_gaps=_pairs("--device-gap", device_gap),
        keep=keep,
        topic=topic,
        archive=archive,
    )
    status = running.run(
        [JOBS[name].under(from_file) for name in names],
        settings.load(),
        options,
        job_options,
        partial(typer.echo, err=True),
    )
    raise typer.Exit(status)


@app.command()
def compact(
    archive: Annotated[Path, typer.Option(help="The folder that the job archive writes to.")] = Path(
        ".rackstream/archive"
    ),
) -> None:
    """Make one file an hour of the archive's small files, below `compacted`; the job may run meanwhile."""
    for done in compaction.compact(archive):
        if done.small_files:
            typer.echo(f"{done.topic}: {done.small_files} files into {done.hours}, {done.records} records")


def _pairs(option: str, settings: list[str] | None) -> tuple[tuple[str, str], ...]:
    for setting in settings or []:
        if "=" not in setting:
            raise cli.PersonError(f"{option} {setting!r} is not of the form key=value.")
    return tuple((key, value) for key, _, value in (setting.partition("=") for setting in settings or []))


def _module(job: str) -> str:
    return f"spark_jobs.{job}"


if __name__ == "__main__":
    cli.run(app, "spark_jobs")
