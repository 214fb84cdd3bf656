"""`python -m loadtest speed` and `join`: the project's promises, held against this machine in one command each."""

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import numpy as np
import typer

from broker import server
from events import cli, settings
from loadtest.promises import clicks, join, speed
from loadtest.promises.silence import silence_delays

PARTS = ("latency", "catch-up", "attribution", "counts", "silence")


def speed_command(
    only: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; may be repeated; all by default.")
    ] = None,
    count: Annotated[int, typer.Option(min=10_000, help="Records of a catch-up.")] = 2_000_000,
    rate: Annotated[int, typer.Option(min=1, help="Readings a second while latency is measured.")] = 2000,
    click_rate: Annotated[
        int, typer.Option(min=1, help="Impressions and clicks a second while attribution is measured.")
    ] = 20_000,
    seconds: Annotated[int, typer.Option(min=1, help="How long latency is measured.")] = 60,
    warm_up: Annotated[
        int, typer.Option(min=0, help="Seconds after the first alert that are not measured.")
    ] = 30,
) -> None:
    """Measure the real-time latency of alerts, catch-ups in micro-batches, attribution and silences.

    Bounds: alerts at p50 15 ms and p99 60 ms; catch-up of 80,000 readings/s; attribution that keeps up with 20,000
    events/s; counts of 150,000 actions/s in catch-up; silences in 2 s.
    The exit status is 1 when one is missed: look at what else the machine does before you believe it.
    """
    parts = only or list(PARTS)
    for part in parts:
        if part not in PARTS:
            raise cli.PersonError(f"there is no part {part!r}: choose from {', '.join(PARTS)}.")
    met = []
    with _bench("speed") as bench:
        if "latency" in parts:
            p50, p99 = np.percentile(speed.real_time_latency(bench, rate, seconds, warm_up), [50, 99])
            met.append(p50 <= 15 and p99 <= 60)
        if "catch-up" in parts:
            whole, warm = speed.micro_batch_catch_up(bench, count)
            typer.echo(
                f"overheating, micro-batch: {whole:,.0f} readings/s from start, {warm:,.0f} after the first batch"
            )
            met.append(warm >= 80_000)
        if "attribution" in parts:
            latencies, _ = clicks.attribution_latency(bench, click_rate, seconds, warm_up)
            # What falls behind is late by seconds more with every second.
            halves = np.array_split(np.asarray(latencies), 2)
            met.append(float(np.median(halves[1]) - np.median(halves[0])) < 1000)
        if "counts" in parts:
            whole, warm = clicks.counts_catch_up(bench, count)
            typer.echo(f"action_counts: {whole:,.0f} actions/s from start, {warm:,.0f} after the first batch")
            met.append(warm >= 150_000)
        if "silence" in parts:
            met.append(max(silence_delays(bench)) <= 2000)
    raise typer.Exit(0 if all(met) else 1)


def join_command(
    count: Annotated[int, typer.Option(min=1000, help="Impressions and clicks together.")] = 220_000,
    rate: Annotated[
        int, typer.Option(min=1, help="How many a second are sent while the join is live.")
    ] = 700,
    live: Annotated[bool, typer.Option(help="Also join while they are sent, through two kills.")] = True,
) -> None:
    """Join impressions with clicks, late, twice and out of order, and compare all rows with the truth.

    Exit status 1 when a row is missing or wrong. Some eight minutes with the usual count.
    """
    load, holds = join.Load(count, rate), True
    with _bench("join") as bench:
        for name, play in (("at once", join.at_once), ("live", join.through_kills)):
            if name == "live" and not live:
                continue
            typer.echo(f"{name}:")
            for rows, compared in play(bench, load).items():
                typer.echo(
                    f"  {rows}: {compared.expected:,} expected, {compared.seen:,} seen, "
                    f"{len(compared.missing):,} missing, {len(compared.wrong):,} wrong, "
                    f"{compared.either:,} not compared (too late)"
                )
                for complaint in [*compared.missing[:5], *compared.wrong[:5]]:
                    typer.echo(f"    {complaint}")
                holds = holds and compared.holds and compared.expected > 0
    raise typer.Exit(0 if holds else 1)


@contextmanager
def _bench(name: str) -> Iterator[speed.Bench]:
    """Yield an empty folder with a broker of its own, and end that at the end."""
    config = settings.load()
    folder = config.rackstream_home / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as with Ctrl-C, what was started is ended first
    broker = server.start(server.free_port(), folder / "kafka", fresh=True)
    try:
        yield speed.Bench(broker, config, folder, typer.echo)
    finally:
        broker.stop()
        shutil.rmtree(folder / "kafka", ignore_errors=True)
