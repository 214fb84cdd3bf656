"""`python -m loadtest run|capacity|peers|report|compare|performance|speed|join`: load experiments on this machine."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from events import cli, settings
from loadtest.measure.result import RUN, Saved, load
from loadtest.peers import PEERS, missing
from loadtest.plan import PLANS, Plan, load_plan, variants, without_engines
from loadtest.promises import commands as promises
from loadtest.reports import performance
from loadtest.reports.compare import compare, only
from loadtest.reports.report import write_report
from loadtest.run import find_capacity, run_plan

app = cli.new_app(
    "Load experiments. Everything runs on a broker of their own on this machine, and ends by itself."
)

PlanFile = Annotated[str, typer.Argument(help="A plan: a YAML file, or the name of one in loadtest/plans.")]
Name = Annotated[
    str | None, typer.Option(help="What the run is called; by default as its plan. One of that name goes.")
]
RunFolder = Annotated[str, typer.Argument(help="The name of a run, or its folder.")]
Compared = Annotated[
    str, typer.Argument(help="The name of a run, or its folder; with :NAME one of its variants.")
]


@app.command("run")
def run_command(plan: PlanFile, name: Name = None) -> None:
    """Run a plan's points, and write their report. Exit 1 when a point is not valid; Ctrl-C leaves a report (130)."""
    path = _plan(plan)
    _run_points(load_plan(path), path, name)


@app.command("capacity")
def capacity_command(plan: PlanFile, name: Name = None) -> None:
    """Search the highest rate that the jobs sustain, within the plan's bounds, and write a report."""
    path = _plan(plan)
    _search(load_plan(path), path, name)


@app.command("peers")
def peers_command(
    plan: Annotated[
        str, typer.Argument(help="A plan whose variants name engines, or the name of one in loadtest/plans.")
    ] = "peers-catch-up",
    name: Name = None,
    install: Annotated[
        bool, typer.Option("--install", help="First fetch and build the engines that are missing.")
    ] = False,
) -> None:
    """Run the overheating rule in this project and in other engines, on the same load, checked by the same truth.

    The engines are optional: those that are not installed are named and left out.
    """
    path = _plan(plan)
    wanted = load_plan(path)
    engines = {own.engine for _, own in variants(wanted)}
    for engine in missing(engines) if install else ():
        typer.echo(f"loadtest: installing {engine}", err=True)
        PEERS[engine].install()
    present, absent = without_engines(wanted, missing(engines))
    for variant in absent:
        typer.echo(f"loadtest: {variant} is left out: its engine is not installed (--install).", err=True)
    if present.capacity:
        _search(present, path, name)
    else:
        _run_points(present, path, name)


@app.command("report")
def report_command(run: RunFolder) -> None:
    """Write a run's report again: the page, the plots and the tables."""
    typer.echo(write_report(_run(run)))


@app.command("compare")
def compare_command(a: Compared, b: Compared) -> None:
    """Compare the points of the same label of two runs, or variants, with 95 % intervals over their repeats."""
    table = Table("point", "figure", f"A: {a}", f"B: {b}", "")
    found = list(compare(_part(a), _part(b)))
    if not found:
        raise cli.PersonError(
            f"{a} and {b} have no valid point of the same label: there is nothing to compare."
        )
    for each in found:
        table.add_row(each.label, each.metric, str(each.a), str(each.b), each.verdict)
    Console(soft_wrap=True).print(table)


@app.command("performance")
def performance_command(
    runs: Annotated[list[str], typer.Argument(help="The names of runs, or their folders.")],
    page: Annotated[Path, typer.Option(help="The page whose rows are written.")] = Path(
        "docs/performance.md"
    ),
) -> None:
    """Write the rows of these runs into the page of performance, in place of what it has of them."""
    performance.update(page, [load(_run(run)) for run in runs])


app.command("speed")(promises.speed_command)
app.command("join")(promises.join_command)


def _search(plan: Plan, path: Path, name: str | None) -> None:
    for variant, rate in find_capacity(plan, path, _folder(name or path.stem)).items():
        typer.echo(
            f"{variant or path.stem}: {f'{rate:,.0f} events/s' if rate else 'not even the lowest rate held'}"
        )


def _run_points(plan: Plan, path: Path, name: str | None) -> None:
    if not run_plan(plan, path, _folder(name or path.stem)):
        raise cli.PersonError("not every point is valid: the report says which and why.")


def _plan(text: str) -> Path:
    path = Path(text)
    own = PLANS / f"{text}.yaml"
    return own if own.exists() and not path.is_file() else path


def _folder(name: str) -> Path:
    return settings.load().rackstream_home / "load" / name


def _part(text: str) -> Saved:
    name, _, variant = text.partition(":")
    saved = load(_run(name))
    return only(saved, variant) if variant else saved


def _run(text: str) -> Path:
    return Path(text) if (Path(text) / RUN).exists() else _folder(text)


if __name__ == "__main__":
    cli.run(app, "loadtest")
