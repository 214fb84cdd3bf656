"""Provide the commands that load Spark: `list` and `run`."""

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from events import cli, settings
from events.inventory import read_inventory
from events.metrics import MetricsPort
from events.rules import Rules, read_rules
from events.triggers import Trigger
from spark_jobs.dead_letter_reporting import with_dead_letters
from spark_jobs.registry import JOBS, QUESTIONS
from spark_jobs.run_options import (
    ALL_FLAGS,
    RunCommand,
    configure,
    given_common_options,
    listed,
    named_jobs,
    pairs,
    refuse_empty,
    refuse_unused,
    seconds,
)
from spark_jobs.runtime import cds_archive, runner
from spark_jobs.runtime.job import Job
from spark_jobs.runtime.kafka_io import ReadOptions
from spark_jobs.runtime.restarts import DEFAULT_RESTARTS
from spark_jobs.storage import dead_letters

MICRO_BATCH_DELAY_S = (1, 4)
"""How long an alert takes if batches follow each other at once; an interval comes on top.

By the rows `quick` of `docs/performance.md`.
"""

app = typer.Typer()


def _defaults(option: str, trigger: Trigger, default: Callable[[Job], float]) -> str:
    """Return an option's default of most jobs that use it, and of the others: `4; 1 for NAME`."""
    names: dict[float, list[str]] = defaultdict(list)
    for job in JOBS.values():
        if trigger in job.triggers_with(option):
            names[default(job)].append(job.name)
    usual = max(names, key=lambda value: len(names[value]))
    others = [f"{value:g} for {listed(names[value])}" for value in sorted(names) if value != usual]
    return "; ".join(filter(None, [f"{usual:g}", ", ".join(others)]))


STATE_PARTITIONS = _defaults(
    "state_partitions", Trigger.AVAILABLE_NOW, lambda job: job.state_partitions
)
MICRO_BATCH_SECONDS = _defaults(
    "batch_seconds", Trigger.MICRO_BATCH, lambda job: job.micro_batch_interval.total_seconds()
)
READING_ALL = listed(
    job.name for job in JOBS.values() if any(plan.reads_all for plan in job.plans.values())
)
OWN_INTERVALS = listed(job.name for job in JOBS.values() if job.interval_option)


@app.command("list")
def list_jobs() -> None:
    """List the jobs: name, question, triggers (the default first) and topics."""
    rows = [
        (job.name, QUESTIONS[job.name], f"[{', '.join(job.plans)}]", job.flow)
        for job in JOBS.values()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


@app.command(cls=RunCommand)
def run(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="The jobs to run in one Spark session; `list` shows them."
        ),
    ] = None,
    all_real_time: Annotated[
        bool,
        typer.Option(
            "--all-real-time",
            help="Run every job whose default trigger is real-time. With --trigger available-now "
            "give both flags: only one process can order jobs that read each other's outputs.",
        ),
    ] = False,
    all_micro_batch: Annotated[
        bool,
        typer.Option(
            "--all-micro-batch",
            help="Run every other job. With --trigger available-now give both flags, as above.",
        ),
    ] = False,
    trigger: Annotated[
        Trigger | None,
        typer.Option(
            help="When the jobs read, by default each job's own: see `list`. "
            "available-now reads everything and ends."
        ),
    ] = None,
    checkpoint_root: Annotated[
        str, typer.Option(help="Folder or URL below which each query keeps its state.")
    ] = ".rackstream/checkpoints",
    starting_offsets: Annotated[
        str,
        typer.Option(
            help="Where to start without a checkpoint: earliest, latest, or Spark's JSON of "
            "offsets."
        ),
    ] = "earliest",
    inventory: Annotated[
        Path | None,
        typer.Option(
            help="The racks with their thresholds, as JSON lines. Without it each threshold is "
            "100 °C, and site_outage does not start."
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            help="YAML file that changes the rules, for all racks, some, or a device type; "
            "needs --inventory. A job whose rules change starts with a new checkpoint."
        ),
    ] = None,
    state_partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Number of tasks over which state is spread (default {STATE_PARTITIONS}). "
            "Fixed at a checkpoint's first start.",
        ),
    ] = None,
    batch_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Length of a real-time batch (default 300, at least 5), or least time between the "
            f"starts of micro-batches (default {MICRO_BATCH_SECONDS}). "
            f"{OWN_INTERVALS} have options of their own.",
        ),
    ] = None,
    rules_batch_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Least time between the starts of a rule's micro-batches; by default that of "
            "--batch-seconds. People wait for alerts, so keep it short.",
        ),
    ] = None,
    records_per_batch: Annotated[
        int,
        typer.Option(
            min=1,
            help=f"The most records that one micro-batch reads of a topic. {READING_ALL} have no "
            "limit.",
        ),
    ] = 1_000_000,
    read_tasks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The most tasks that read a topic in one micro-batch (default: one per "
            "partition). Each task has a fixed cost, so small batches are cheaper with 1.",
        ),
    ] = None,
    no_dead_letters: Annotated[
        bool,
        typer.Option(
            "--no-dead-letters",
            help="Do not add the job dead_letters. In an object store no lock keeps two processes "
            "from reporting the same topic. There, give it to all but one, which must read every "
            "topic, as `run dead_letters` does.",
        ),
    ] = False,
    progress: Annotated[
        Path | None,
        typer.Option(
            help="Append each batch's progress to this file, as JSON lines: rates, lag, late "
            "records, records left out."
        ),
    ] = None,
    restarts: Annotated[
        int,
        typer.Option(
            min=0,
            help="The most restarts of a failed query within ten minutes; one more failure ends "
            "the process. With --trigger available-now the first one does.",
        ),
    ] = DEFAULT_RESTARTS,
    metrics_port: MetricsPort = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A Spark setting, key=value; may be repeated.")
    ] = None,
) -> None:
    """Run jobs until Ctrl-C, until a query fails for good (exit 1), or until available-now ends.

    A query that fails is started again from its checkpoint, while the others go on. The commands
    `status` and `health` show which queries run and what is wrong with the others.

    The job dead_letters is added for the topics that the jobs read, unless another process with the
    same checkpoint root reports these topics already.

    Each job has options of its own. Name the job to see them with their defaults:

        python -m spark_jobs run user_sessions --help

    An option that several of the named jobs have applies to each of them:

        python -m spark_jobs run user_sessions user_totals --watermark "1 hour"

    A backfill that reads all records and ends:

        python -m spark_jobs run user_totals --trigger available-now

    Two processes that run every job once, with the same inventory and rules:

        python -m spark_jobs run --all-real-time --inventory racks.jsonl

        python -m spark_jobs run --all-micro-batch --inventory racks.jsonl
    """
    flags = [
        flag
        for flag, given in zip(ALL_FLAGS, (all_real_time, all_micro_batch), strict=True)
        if given
    ]
    named = named_jobs(names or (), flags)
    if named:
        refuse_unused([*given_common_options(ctx), *ctx.obj], named, trigger)
    refuse_empty("--checkpoint-root", checkpoint_root)
    if checkpoint_root.startswith("file:"):  # elsewhere a URL means an object store, without locks
        raise cli.UserFacingError(
            f"--checkpoint-root {checkpoint_root}: name a local folder by its path, without file:."
        )
    racks = tuple(read_inventory(inventory)) if inventory else ()
    if rules and not inventory:
        raise cli.UserFacingError("--rules is checked against the inventory: add --inventory FILE.")
    rules_file = read_rules(rules, racks) if rules else Rules()
    # The rules decide a job's default trigger; the chosen jobs take them below.
    of_the_flags = [
        job
        for job in JOBS.values()
        if job is not dead_letters.JOB
        and (
            all_real_time
            if job.with_rules(rules_file).default_trigger is Trigger.REAL_TIME
            else all_micro_batch
        )
    ]
    # Rules first, as somebody waits for their alerts.
    chosen = named or sorted(of_the_flags, key=lambda job: job.rule is None)
    jobs = [job.with_rules(rules_file) for job in chosen]
    configured = configure(jobs, ctx.obj, flags, trigger, inventory=racks, rules=rules_file)
    if no_dead_letters and any(one.job is dead_letters.JOB for one in configured):
        raise cli.UserFacingError("leave out dead_letters, or --no-dead-letters.")
    config = settings.load().with_metrics_port(metrics_port)
    options = runner.RunOptions(
        checkpoint_root=checkpoint_root,
        state_partitions=state_partitions,
        batch=_interval("--batch-seconds", batch_seconds),
        rules_batch=_interval("--rules-batch-seconds", rules_batch_seconds),
        read=ReadOptions(starting_offsets, records_per_batch, read_tasks),
        conf=pairs("--conf", conf or ()),
        progress=progress,
        java_options=cds_archive.java_options(config),
        restarts=restarts,
    )
    log = partial(typer.echo, err=True)
    for one in configured:
        if one.job.not_real_time_because and trigger is None:
            least_s, most_s = MICRO_BATCH_DELAY_S
            longest_s = most_s + options.batch_for(one).total_seconds()
            log(
                f"{one.job.name} runs in micro-batches because of {one.job.not_real_time_because}: "
                f"expect its alerts after {least_s:g} to {longest_s:g} s instead of milliseconds."
            )
    # A job without a plan for its trigger is refused later.
    plans = {one.job.name: one.job.plans.get(one.trigger) for one in configured}
    unlimited = [name for name, plan in plans.items() if plan and plan.reads_all]
    if unlimited and "records_per_batch" in given_common_options(ctx):
        log(
            f"--records-per-batch does not limit {listed(unlimited)}: "
            "each of their batches reads all there is."
        )
    if no_dead_letters:
        raise typer.Exit(runner.run(configured, config, options, log))
    with with_dead_letters(configured, checkpoint_root, config.topic_prefix, log) as jobs_to_run:
        raise typer.Exit(runner.run(jobs_to_run, config, options, log))


def _interval(flag: str, given: float | None) -> timedelta | None:
    return None if given is None else timedelta(seconds=seconds(flag, given))
