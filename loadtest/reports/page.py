"""Write the report's page: one self-contained HTML file."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from loadtest.measure.result import SavedRun
from loadtest.reports import growth, rows
from loadtest.reports.compare import number

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; display: block;
  overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: .25rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.INVALID td, .FAILED td { background: #fdd; text-align: left; }
img { max-width: 100%; }
.early { background: #fdd; padding: .5rem 1rem; }
"""
_NOTES = (
    "Latency is measured from the triggering record's scheduled time, or from its append time, to "
    "the moment a consumer has the output. Producer, broker, jobs and consumer share one machine, "
    "its clock and its processors, so absolute figures apply to this machine. Percentiles cover "
    "outputs whose record was scheduled after the warm-up; HdrHistogram keeps three digits. "
    "Invalid points have no numbers."
)


def page(saved: SavedRun, plots: Mapping[str, Path]) -> str:
    """Return the page as HTML."""
    run, points = saved.run, saved.points
    early = (
        f'<p class="early">This run is incomplete: {escape(run.ended)}.</p>' if run.ended else ""
    )
    capacity = [
        ["variant", "highest sustained rate, events/s", "wrong or lost output"],
        *(
            [name or "the plan", number(rate) or "none", "; ".join(saved.errors(name))]
            for name, rate in run.capacity.items()
        ),
    ]
    sections = [
        ("Machine and versions", [["", ""], *([key, value] for key, value in run.machine.items())]),
        ("Capacity", capacity),
        ("Latency from the scheduled time", rows.latency_table(points, "from_schedule")),
        ("Latency from the append time", rows.latency_table(points, "from_append")),
        (
            "Delay after the deadline (window's end plus watermark, or silence)",
            rows.latency_table(points, "window_delay"),
        ),
        ("Growth of costs", growth.growth_table(points)),
        ("Throughput, lag and batches", rows.load_table(points)),
        ("Programs", rows.process_table(points)),
        ("Gates", rows.gate_table(points)),
    ]
    tables = {title: _table(content) for title, content in sections if len(content) > 1}
    order = [
        *_part("Capacity", tables),
        *_part("Latency from the scheduled time", tables),
        *(f"<h2>{escape(title)}</h2>{_image(path)}" for title, path in plots.items()),
        *(text for title in tables for text in _part(title, tables) if title not in _FIRST),
    ]
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        f"<title>Load run {escape(run.name)}</title>"
        f"<style>{_STYLE}</style>\n<h1>Load run {escape(run.name)}</h1>"
        f"<p>{escape(run.description)}</p>{early}"
        f"<p>Began {escape(run.began)}; {len(points)} of {run.points} points, "
        f"{sum(point.valid for point in points)} of them valid.</p><p>{escape(_NOTES)}</p>\n"
        + "\n".join(order)
        + "\n</html>\n"
    )


_FIRST = ("Capacity", "Latency from the scheduled time")


def _part(title: str, tables: Mapping[str, str]) -> list[str]:
    return [f"<h2>{escape(title)}</h2>{tables[title]}"] if title in tables else []


def _table(content: Sequence[Sequence[str]]) -> str:
    head, *body = content
    width = len(head)
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for row in body:
        marked = next(
            (
                mark
                for mark in (rows.INVALID, "FAILED")
                if any(cell.startswith(mark) for cell in row)
            ),
            "",
        )
        cells = [f"<td>{escape(cell)}</td>" for cell in row]
        if len(row) < width:
            cells[-1] = f'<td colspan="{width - len(row) + 1}">{escape(row[-1])}</td>'
        lines.append(f'<tr class="{marked}">' + "".join(cells) + "</tr>")
    return "<table>" + "\n".join(lines) + "</table>"


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(path.stem)}" src="data:image/png;base64,{data}">'
