"""Write a run's report: the page, the plots and the tables, beside its raw data."""

from pathlib import Path

from loadtest.measure.result import load
from loadtest.reports import growth, plots, rows
from loadtest.reports.page import page

PAGE = "report.html"


def write_report(folder: Path) -> Path:
    """Write the report, plots and tables of a run, complete or not; return the page's path."""
    saved = load(folder)
    rows.write_csv(rows.load_table(saved.points), folder / "points.csv")
    for which in ("from_schedule", "from_append", "window_delay"):
        rows.write_csv(
            rows.latency_table(saved.points, which),
            folder / f"latency-{which.replace('_', '-')}.csv",
        )
    if len(grown := growth.growth_table(saved.points)) > 1:
        rows.write_csv(grown, folder / "growth.csv")
    rows.write_csv(rows.gate_table(saved.points), folder / "gates.csv")
    path = folder / PAGE
    path.write_text(page(saved, plots.draw(saved)), encoding="utf-8")
    return path
