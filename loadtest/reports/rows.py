"""Format points as rows of text for the page and the CSV files; invalid points have no numbers."""

import csv
from collections.abc import Sequence
from pathlib import Path

from loadtest.measure.latency import Percentiles
from loadtest.measure.result import PointResult
from loadtest.reports.compare import MACHINE_SPEED, jobs_cpu, number

LATENCY = ("p50", "p95", "p99", "p99.9", "max")
INVALID = "INVALID"


def latency_cells(latency: Percentiles | None) -> list[str]:
    """Return p50, p95, p99, p99.9 and max in milliseconds."""
    if latency is None:
        return [""] * len(LATENCY)
    return [
        number(value)
        for value in (latency.p50, latency.p95, latency.p99, latency.p999, latency.max)
    ]


def latency_table(points: Sequence[PointResult], which: str) -> list[list[str]]:
    """Return a row per point with a latency: `from_schedule`, `from_append` or `window_delay`."""
    rows = [["point", "repeat", *(f"{name} ms" for name in LATENCY), "outputs"]]
    for point in points:
        latency: Percentiles | None = getattr(point, which)
        if point.valid and latency is not None:
            rows.append([*_name(point), *latency_cells(latency), f"{latency.count:,}"])
    return rows


def load_table(points: Sequence[PointResult]) -> list[list[str]]:
    """Return a row per point with throughput, lag and resources; the reason for invalid ones."""
    rows = [[
        "point", "repeat", "in/s", "out/s", "catch-up/s", "warm catch-up/s", "max lag",
        "lag growth/s", "late/s", "schedule lag p99 ms", "batches", "batch p50 ms", "batch max ms",
        "state rows", "state MiB", "jobs CPU %",
        "jobs MiB", "checkpoint MiB", MACHINE_SPEED, "violated limits",
    ]]  # fmt: skip
    for point in points:
        if point.valid:
            rows.append([*_name(point), *_load_cells(point)])
        else:
            rows.append([*_name(point), f"{INVALID}: {'; '.join(point.reasons)}"])
    return rows


def process_table(points: Sequence[PointResult]) -> list[list[str]]:
    """Return a row per program of each valid point."""
    rows = [["point", "repeat", "program", "CPU % of one processor", "max MiB"]]
    for point in points:
        if point.valid:
            rows += [
                [*_name(point), program, number(used.cpu_percent), number(used.rss_mib)]
                for program, used in point.processes.items()
            ]
    return rows


def gate_table(points: Sequence[PointResult]) -> list[list[str]]:
    """Return a row per gate of each point."""
    words = {True: "passed", False: "FAILED", None: "not checked"}
    return [
        ["point", "repeat", "gate", "", "detail"],
        *(
            [*_name(point), gate.name, words[gate.passed], gate.detail]
            for point in points
            for gate in point.gates
        ),
    ]


def write_csv(table: Sequence[Sequence[str]], path: Path) -> None:
    """Write a table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table)


def _name(point: PointResult) -> list[str]:
    return [point.label, str(point.repeat + 1)]


def _load_cells(point: PointResult) -> list[str]:
    batches = point.batches
    return [
        number(point.in_per_s),
        number(point.out_per_s),
        number(point.throughput_per_s),
        number(point.warm_throughput_per_s),
        number(point.lag_max),
        number(point.lag_slope),
        number(point.late_per_s),
        number(point.schedule_lag.p99 if point.schedule_lag else None),
        *(
            [""] * 5
            if batches is None
            else [
                str(batches.count),
                number(batches.p50_ms),
                number(batches.max_ms),
                f"{batches.state_rows:,}" if batches.state_rows else "",  # 0: not reported
                number(batches.state_mib),
            ]
        ),
        number(jobs_cpu(point)) if point.processes else "",
        number(point.jobs_mib),
        number(point.checkpoint_mib),
        number(point.machine_speed),
        "; ".join(point.violated_limits),
    ]
