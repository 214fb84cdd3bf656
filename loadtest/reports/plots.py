"""Draw the plots of a run as PNG files; plots that explain invalid points include those too."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator, NullFormatter

from loadtest.measure.result import PointResult, Process, SavedRun
from loadtest.measure.series_files import BATCHES, LAG, LATENCIES, SAMPLES
from loadtest.reports import growth

WIDTH, HEIGHT, DPI = 8.0, 4.2, 110
PLAIN_NUMBER = "{x:,.10g}"
"""The format of axis numbers: no powers of ten, and unrounded so that all ticks differ."""
LINE_STYLES = ("-", "--", ":", "-.")
MAX_ECDF_STEPS = 2000
"""An ECDF has at most this many steps, plus all steps of its tail."""


def draw(saved: SavedRun) -> dict[str, Path]:
    """Draw the plots that have data into the run's folder; return the files by title."""
    measured = [point for point in saved.points if point.valid]
    wanted: list[tuple[str, str, Callable[[Axes], bool]]] = [
        ("Latency over rate", "latency-over-rate", lambda ax: _over_rate(ax, measured)),
        ("Throughput", "throughput", lambda ax: _throughput(ax, measured)),
        ("Growth of costs", "growth", lambda ax: _growth(ax, measured)),
        ("Latency (ECDF)", "ecdf", lambda ax: _ecdf(ax, saved, measured)),
        (
            "Latency over time, warm-up included",
            "latency-over-time",
            lambda ax: _over_time(ax, saved, measured),
        ),
        ("Lag over time", "lag", lambda ax: _lag(ax, saved)),
        ("Batch duration", "batches", lambda ax: _batches(ax, saved)),
        ("State size", "state", lambda ax: _state(ax, saved)),
        ("CPU", "cpu", lambda ax: _shares(ax, saved, _cpu, "percent of one processor")),
        (
            "Memory",
            "memory",
            lambda ax: _shares(ax, saved, _rss, "highest resident MiB"),
        ),
        (
            "CPU over time, last point",
            "cpu-over-time",
            lambda ax: _programs(ax, saved, "cpu_percent", "percent of one processor"),
        ),
        (
            "Memory over time, last point",
            "memory-over-time",
            lambda ax: _programs(ax, saved, "rss_mib", "resident MiB"),
        ),
    ]
    files = {}
    for title, name, plot in wanted:
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        path = saved.folder / f"{name}.png"
        path.unlink(missing_ok=True)
        if plot(axes):
            axes.set_title(title)
            axes.grid(visible=True, alpha=0.3)
            figure.legend(fontsize=7, loc="outside right upper")
            figure.savefig(path)
            files[title] = path
    return files


def _over_rate(ax: Axes, points: Sequence[PointResult]) -> bool:
    curves: dict[tuple[str, str], dict[float, list[float]]] = {}
    for point in points:
        for kind, latency in point.latencies.items():
            for name, value in (("p50", latency.p50), ("p99", latency.p99)):
                curve = curves.setdefault((f"{point.variant} {kind}", name), {})
                curve.setdefault(point.rate, []).append(value)
    for (prefix, name), curve in curves.items():
        rates = sorted(curve)
        middles = [float(np.median(curve[rate])) for rate in rates]
        below = [m - min(curve[r]) for m, r in zip(middles, rates, strict=True)]
        above = [max(curve[r]) - m for m, r in zip(middles, rates, strict=True)]
        ax.errorbar(
            rates, middles, yerr=[below, above], marker="o", capsize=3,
            label=f"{prefix}{name}".strip(),
            linestyle="-" if name == "p50" else "--",
        )  # fmt: skip
    ax.set(xlabel="events/s", ylabel="ms from scheduled time or deadline")
    ax.set(yscale="log", xscale="log")
    rates = sorted({rate for curve in curves.values() for rate in curve})
    ax.set_xticks(rates, [PLAIN_NUMBER.format(x=rate) for rate in rates])
    ax.xaxis.set_minor_formatter(NullFormatter())
    _plain_numbers(ax.yaxis)
    return bool(curves)


def _throughput(ax: Axes, points: Sequence[PointResult]) -> bool:
    """Draw each label's mean as a bar and its repeats as strokes; warm if all points have it."""
    ended = [point for point in points if point.throughput_per_s]
    warm = all(point.warm_throughput_per_s for point in ended)
    by_label: dict[str, list[float]] = {}
    for point in ended:
        per_s = (point.warm_throughput_per_s if warm else point.throughput_per_s) or 0.0
        by_label.setdefault(point.label, []).append(per_s)
    for label, values in by_label.items():
        ax.barh(label, float(np.mean(values)), alpha=0.4, color="C0")
        ax.plot(values, [label] * len(values), linestyle="", marker="|", markersize=14, color="C0")
    ax.plot([], [], linestyle="", marker="|", color="C0", label="a repeat")
    _lay_out_bars(ax, len(by_label))
    ax.xaxis.set_major_formatter(PLAIN_NUMBER)
    ax.set(xlabel="warm records/s" if warm else "records/s from the start")
    return bool(by_label)


def _growth(ax: Axes, points: Sequence[PointResult]) -> bool:
    """Draw each cost as a multiple of its first; proportional growth is a diagonal."""
    found = growth.growths(points)
    for number, each in enumerate(found):
        for cost, curve in each.curves.items():
            amounts, values = zip(*curve, strict=True)
            ax.plot(
                amounts,
                np.divide(values, values[0]),
                marker="o",
                color=f"C{growth.COSTS.index(cost)}",
                linestyle=LINE_STYLES[number % len(LINE_STYLES)],
                label=f"{each.label} {cost}, slope {growth.slope(curve):.2f}".strip(),
            )
    work = ", ".join(dict.fromkeys(each.work for each in found))
    ax.set(xlabel=work, ylabel="multiple of the first point", xscale="log", yscale="log")
    return bool(found)


def _ecdf(ax: Axes, saved: SavedRun, points: Sequence[PointResult]) -> bool:
    """Draw a line for each point; the repeats of a label have its colour, and one legend entry."""
    colors: dict[str, str] = {}
    for point in points:
        scheduled_ms, latencies = _latencies(saved, point)
        begin_ms, end_ms = point.measured_ms
        latencies = np.sort(latencies[(scheduled_ms >= begin_ms) & (scheduled_ms < end_ms)])
        if len(latencies):
            share = np.arange(1, len(latencies) + 1) / len(latencies)
            at = np.unique(
                np.append(
                    np.arange(0, len(latencies), max(1, len(latencies) // MAX_ECDF_STEPS)),
                    len(latencies) - 1,
                )
            )
            label = _label(point)
            is_first = label not in colors
            color = colors.setdefault(label, f"C{len(colors)}")
            ax.step(
                np.maximum(latencies[at], 1),
                share[at],
                where="post",
                color=color,
                label=label if is_first else None,
            )
    ax.set(xlabel="ms from scheduled time", ylabel="share of outputs", xscale="log", ylim=(0, 1.01))
    _plain_numbers(ax.xaxis)
    return bool(colors)


def _over_time(ax: Axes, saved: SavedRun, points: Sequence[PointResult]) -> bool:
    drawn = False
    for point in points:
        scheduled_ms, latencies = _latencies(saved, point)
        if len(latencies):
            seconds = ((scheduled_ms - scheduled_ms.min()) / 1000).astype(int)
            each = np.unique(seconds)
            ax.plot(
                each,
                [np.percentile(latencies[seconds == s], 99) for s in each],
                label=f"{_name(point)} p99",
            )
            drawn = True
    ax.set(xlabel="s after the first record", ylabel="p99 of each second, ms", yscale="log")
    _plain_numbers(ax.yaxis)
    return drawn


def _lag(ax: Axes, saved: SavedRun) -> bool:
    return _lines(ax, saved, LAG, "epoch_s", "records_behind", 1.0, "lag in records")


def _batches(ax: Axes, saved: SavedRun) -> bool:
    return _lines(ax, saved, BATCHES, "end_ms", "took_ms", 1000.0, "ms per batch")


def _state(ax: Axes, saved: SavedRun) -> bool:
    return _lines(
        ax, saved, BATCHES, "end_ms", "state_bytes", 1000.0, "bytes of state, as reported by Spark"
    )


def _lines(
    ax: Axes, saved: SavedRun, file: str, when: str, what: str, per_second: float, label: str
) -> bool:
    drawn = False
    for point in saved.points:
        rows = _csv(saved, point, file)
        if "query" in (rows[0] if rows else {}):
            # A job with a query for each topic names them after itself and the topic.
            rows = [row for row in rows if row["query"].partition("-")[0] in point.jobs]
        if rows:
            moments = np.array([float(row[when]) / per_second for row in rows])
            ax.plot(
                moments - moments.min(),
                [float(row[what]) for row in rows],
                marker=".",
                label=_name(point),
            )
            drawn = True
    ax.set(xlabel="s after the first", ylabel=label, ylim=(0, None))
    ax.yaxis.set_major_formatter(PLAIN_NUMBER)
    return drawn


def _shares(ax: Axes, saved: SavedRun, usage: Callable[[Process], float], label: str) -> bool:
    """Draw for each label what each program used, as stacked bars of the mean over repeats."""
    by_label: dict[str, list[Mapping[str, Process]]] = {}
    for point in saved.points:
        if point.processes:
            by_label.setdefault(_label(point), []).append(point.processes)
    programs = dict.fromkeys(name for own in by_label.values() for each in own for name in each)
    stacked = np.zeros(len(by_label))
    for program in programs:
        means = np.array([
            np.mean([usage(each[program]) if program in each else 0.0 for each in own])
            for own in by_label.values()
        ])  # fmt: skip
        ax.barh(list(by_label), means, left=stacked, label=program)
        stacked += means
    _lay_out_bars(ax, len(by_label))
    ax.set(xlabel=label)
    return bool(by_label)


def _lay_out_bars(ax: Axes, bars: int) -> None:
    """Put the first bar on top, no bar thicker than a third of the plot, with few ticks."""
    middle, half = (bars - 1) / 2, max(bars, 3) / 2
    ax.set_ylim(middle + half, middle - half)
    ax.xaxis.set_major_locator(MaxNLocator(7))


def _plain_numbers(axis: Axis) -> None:
    """Write milliseconds on a logarithmic axis as numbers, not as powers of ten."""
    axis.set_major_formatter(_Plain())
    axis.set_minor_formatter(_Plain(minor_thresholds=(2, 0.5)))


class _Plain(LogFormatter):
    """Writes the numbers of a logarithmic axis in full."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return PLAIN_NUMBER.format(x=x) if super().__call__(x, pos) else ""


def _cpu(used: Process) -> float:
    return used.cpu_percent


def _rss(used: Process) -> float:
    return used.rss_mib


def _programs(ax: Axes, saved: SavedRun, column: str, label: str) -> bool:
    """Draw the last point's programs over time; several points would be unreadable."""
    if not saved.points:
        return False
    point = saved.points[-1]
    rows = _csv(saved, point, SAMPLES)
    begin = min((float(row["epoch_s"]) for row in rows), default=0.0)
    for program in dict.fromkeys(row["program"] for row in rows):
        own = [row for row in rows if row["program"] == program]
        ax.plot(
            [float(row["epoch_s"]) - begin for row in own],
            [float(row[column]) for row in own],
            label=program,
        )
    ax.set(xlabel=f"s after the start of {_name(point)}", ylabel=label, ylim=(0, None))
    return bool(rows)


def _latencies(saved: SavedRun, point: PointResult) -> tuple["np.ndarray", "np.ndarray"]:
    """Return the outputs' scheduled times (epoch ms) and latencies (ms), warm-up included."""
    path = saved.folder / "points" / point.folder / LATENCIES
    if not path.exists():
        return np.array([]), np.array([])
    table = pq.read_table(path, columns=["scheduled_ms", "seen_ms"])
    due, seen = (
        table.column(name).to_numpy().astype(float) for name in ("scheduled_ms", "seen_ms")
    )
    return due, seen - due


def _csv(saved: SavedRun, point: PointResult, name: str) -> list[dict[str, str]]:
    path = saved.folder / "points" / point.folder / name
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _name(point: PointResult) -> str:
    return f"{_label(point)} #{point.repeat + 1}"


def _label(point: PointResult) -> str:
    return point.label + ("" if point.valid else " (INVALID)")
