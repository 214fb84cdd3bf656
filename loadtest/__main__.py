"""Provide `python -m loadtest`: run load plans, find capacities, compare engines, write reports."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from events import cli, settings
from loadtest.engines import ENGINES, missing
from loadtest.measure.result import RUN, SavedRun, load
from loadtest.plan import PLANS, Plan, load_plan, variants, without_engines
from loadtest.reports import performance
from loadtest.reports.compare import compare, select_variant
from loadtest.reports.report import write_report
from loadtest.run import find_capacity, run_plan
from loadtest.short import shortened

app = cli.new_app(
    "Load experiments. Each run starts and stops a broker of its own on this machine."
)

PlanFile = Annotated[
    str, typer.Argument(help="A plan: a YAML file, or the name of one in loadtest/plans.")
]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the run; by default the plan's. It replaces a run of that name."),
]
Short = Annotated[
    bool,
    typer.Option(
        "--short", help="Run a small load, to see that the plan runs. It measures nothing."
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Keep the finished points of an earlier run, and run the others."
    ),
]
RunFolder = Annotated[str, typer.Argument(help="The name of a run, or its folder.")]
RunOrVariant = Annotated[
    str, typer.Argument(help="The name of a run, or its folder; RUN:VARIANT for one variant.")
]


@app.command("run")
def run_command(
    plans: Annotated[
        list[str], typer.Argument(help="Plans: YAML files, or names of those in loadtest/plans.")
    ],
    name: Name = None,
    short: Short = False,
    resume: Resume = False,
) -> None:
    """Run the points of plans, and write a report for each.

    Exit status 1 when a point is invalid or violates a limit. Ctrl-C leaves a report (status 130).
    """
    if name and len(plans) > 1:
        raise cli.UserFacingError("--name names the run of one plan, but several are given.")
    loaded = [(_load(path, short), path) for path in map(_plan_path, plans)]
    failed = [
        path.stem
        for plan, path in loaded
        if not run_plan(plan, path, _new_run_folder(path, name, short), resume=resume)
    ]
    if failed:
        raise cli.UserFacingError(
            f"{', '.join(failed)}: a point is invalid or violated a limit; the report says why."
        )


@app.command("capacity")
def capacity_command(
    plan: PlanFile, name: Name = None, short: Short = False, resume: Resume = False
) -> None:
    """Find the highest rate that the jobs sustain within the plan's bounds; write a report.

    Exit status 1 when no rate was sustained, or output was wrong or lost.
    """
    path = _plan_path(plan)
    _find_capacity(_load(path, short), path, _new_run_folder(path, name, short), resume)


@app.command("engines")
def engines_command(
    plan: Annotated[
        str,
        typer.Argument(
            help="A plan whose variants name engines, or the name of one in loadtest/plans."
        ),
    ] = "engines-catch-up",
    name: Name = None,
    install: Annotated[
        bool, typer.Option("--install", help="First fetch and build the missing engines.")
    ] = False,
    short: Short = False,
    resume: Resume = False,
) -> None:
    """Compare a job of this project with other engines on the same load and truth.

    The engines are optional: missing engines are listed and skipped.
    """
    path = _plan_path(plan)
    wanted = _load(path, short)
    folder = _new_run_folder(path, name, short)
    names = {own.engine for _, own in variants(wanted)}
    for engine in missing(names) if install else ():
        typer.echo(f"loadtest: installing {engine}", err=True)
        ENGINES[engine].install()
    present, absent = without_engines(wanted, missing(names))
    for variant in absent:
        typer.echo(
            f"loadtest: skipping {variant}: its engine is not installed (--install).", err=True
        )
    if present.capacity:
        _find_capacity(present, path, folder, resume)
    elif not run_plan(present, path, folder, resume=resume):
        raise cli.UserFacingError("a point is invalid or violated a limit; the report says why.")


@app.command("report")
def report_command(run: RunFolder) -> None:
    """Write a run's report again: the page, the plots and the tables."""
    typer.echo(write_report(_existing_run(run)))


@app.command("compare")
def compare_command(a: RunOrVariant, b: RunOrVariant) -> None:
    """Compare points with the same label of two runs or variants, with 95 % intervals."""
    table = Table("point", "metric", f"A: {a}", f"B: {b}", "")
    differences = list(compare(_run_or_variant(a), _run_or_variant(b)))
    if not differences:
        raise cli.UserFacingError(f"{a} and {b} have no valid point with the same label.")
    for each in differences:
        table.add_row(each.label, each.metric, str(each.a), str(each.b), each.verdict)
    Console(soft_wrap=True).print(table)


@app.command("performance")
def performance_command(
    runs: Annotated[
        list[str] | None, typer.Argument(help="The names of runs, or their folders.")
    ] = None,
    page: Annotated[Path, typer.Option(help="The page to update.")] = Path("docs/performance.md"),
) -> None:
    """Write the rows of these runs into docs/performance.md, replacing rows of the same name.

    The table of goals follows from the plans and all rows; without a run, only it is written.
    """
    performance.update(page, [load(_existing_run(run)) for run in runs or ()])


def _load(path: Path, short: bool) -> Plan:
    plan = load_plan(path)
    return shortened(plan) if short else plan


def _new_run_folder(path: Path, name: str | None, short: bool) -> Path:
    return _run_folder(name or (f"{path.stem}-short" if short else path.stem))


def _find_capacity(plan: Plan, path: Path, folder: Path, resume: bool) -> None:
    rates = find_capacity(plan, path, folder, resume=resume)
    saved, problems = load(folder), []
    for variant, rate in rates.items():
        name = variant or path.stem
        if rate:
            typer.echo(f"{name}: {rate:,.0f} events/s")
        else:
            problems.append(f"{name}: the lowest rate was not sustained")
        problems += saved.errors(variant)
    if problems:
        raise cli.UserFacingError(f"{'; '.join(problems)}; see the report.")


def _plan_path(text: str) -> Path:
    path = Path(text)
    named = PLANS / f"{text}.yaml"
    if named.exists() and not path.is_file():
        return named
    if not path.exists():
        names = ", ".join(sorted(plan.stem for plan in PLANS.glob("*.yaml")))
        raise cli.UserFacingError(f"there is no plan {text!r}: name a file, or one of {names}.")
    return path


def _run_folder(name: str) -> Path:
    # Resolved, as jobs in a container know the folder by the same path.
    return (settings.load().rackstream_home / "load" / name).resolve()


def _run_or_variant(text: str) -> SavedRun:
    name, _, variant = text.partition(":")
    saved = load(_existing_run(name))
    return select_variant(saved, variant) if variant else saved


def _existing_run(text: str) -> Path:
    return Path(text) if (Path(text) / RUN).exists() else _run_folder(text)


if __name__ == "__main__":
    cli.run(app, "loadtest")
