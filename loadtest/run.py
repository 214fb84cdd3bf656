"""Run a plan: its points in order, each saved when done, so that any end can be resumed."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from broker import server
from demo.processes import end_all, mark_children
from events.cli import UserFacingError, unwind_at_end
from events.files import exclusive_lock, make_folder
from events.times import now_ms, to_text
from loadtest import capacity, engines, machine
from loadtest.measure.result import RUN, PointResult, Run, SavedRun, load, save
from loadtest.measure.sampler import OTHERS
from loadtest.plan import Gates, Plan, Point, PointSettings, plan_argument, points, variants
from loadtest.point import PointRun, RunContext, ShowStatus
from loadtest.producer_benchmark import ProducerBenchmark
from loadtest.programs import ProgramFailedError
from loadtest.reports.report import write_report
from loadtest.resources import estimate, shortage
from loadtest.run_status import RunStatus

PLAN = "plan.yaml"
BUSY_PERCENT = 15.0
"""Above this CPU use by other programs, of all processors or of one, results are unreliable."""
KAFKA = "kafka"
"""The folder of the broker in the run's folder."""
PointKey = tuple[str, float, int]
"""Variant, rate and repeat, which tell a point from the others of its plan."""


def run_plan(plan: Plan, path: Path, folder: Path, *, resume: bool = False) -> bool:
    """Run all points of a plan in an empty folder, and write the report.

    Returns whether all points are valid and keep their limits. After Ctrl-C or a failure the
    report has the finished points and says why the run ended; with `resume` only the others run.
    """
    if plan.capacity:
        raise UserFacingError(
            f"the plan {path} searches a capacity and has no rate: "
            f"run python -m loadtest capacity {plan_argument(path)}."
        )
    planned = list(points(plan))
    passed = True
    with (
        prepared(plan, planned, path, folder, resume=resume) as (run, finished),
        RunStatus(len(planned)) as status,
        finishing(run, folder) as finish,
    ):
        with run_context(folder, status.show) as context:
            for point in planned:
                result = _run_point(context, point, plan.gates, finished)
                passed = passed and result.valid and not result.violated_limits
                status.print(summary_line(result))
        finish(run)
    return passed


def find_capacity(
    plan: Plan, path: Path, folder: Path, *, resume: bool = False
) -> dict[str, float | None]:
    """Find the highest sustained rate of each variant, write a report, and return the rates.

    With `resume` an interrupted search continues: its finished points do not run again.
    """
    bounds = plan.capacity
    if bounds is None or plan.count:
        raise UserFacingError(
            f"the plan {path} has no capacity to search: add capacity with low, high and p99_ms."
        )
    highest = msgspec.structs.replace(plan, rate=bounds.high)
    planned = list(points(highest))
    found: dict[str, float | None] = {}
    with (
        prepared(plan, planned, path, folder, resume=resume) as (run, finished),
        RunStatus(0) as status,
        finishing(run, folder) as finish,
    ):
        with run_context(folder, status.show) as context:
            for name, settings in variants(plan):

                def sustains(
                    rate: float, name: str = name, settings: PointSettings = settings
                ) -> bool:
                    def outcomes() -> Iterator[list[str]]:
                        for repeat in range(plan.repeats):
                            point = Point(name, rate, repeat, settings)
                            result = _run_point(
                                context, point, plan.gates, finished, searching=True
                            )
                            violated = capacity.violations(result, bounds)
                            reasons = (
                                f"; {'; '.join(violated)}" if result.valid and violated else ""
                            )
                            status.print(summary_line(result) + reasons)
                            yield violated

                    return capacity.majority_sustains(outcomes(), plan.repeats)

                found[name] = capacity.search(sustains, bounds).sustained
        finish(msgspec.structs.replace(run, capacity=found))
    return found


@contextmanager
def prepared(
    plan: Plan, planned: list[Point], path: Path, folder: Path, *, resume: bool
) -> Iterator[tuple[Run, dict[PointKey, PointResult]]]:
    """Yield the run's record and its finished points; the folder is this run's until the end."""
    with exclusive(folder):
        yield prepare(plan, planned, path, folder, resume=resume)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other runs out of the folder; raise `UserFacingError` when one has it.

    The programs that are started from now on can be found by the folder, as those of the demo.
    """
    make_folder(folder.parent, "the folder of the runs")
    with exclusive_lock(
        folder.with_name(f"{folder.name}.lock"),
        f"another run uses {folder}: wait for its end, or choose another --name.",
    ):
        mark_children(folder)
        yield


def prepare(
    plan: Plan, planned: list[Point], path: Path, folder: Path, *, resume: bool
) -> tuple[Run, dict[PointKey, PointResult]]:
    """Save and return the run's record, and return the finished points that it keeps.

    Without such points the folder is emptied, and holds the record and a copy of the plan. The
    broker and the programs that a killed run in the folder has left are ended.
    Raises `UserFacingError` when an engine is not installed, disk or memory is too small, or the
    run to resume is of another plan, machine or version.
    """
    if absent := engines.missing(point.settings.engine for point in planned):
        raise UserFacingError(
            f"the plan {path} needs {', '.join(absent)}, which is not installed: "
            f"run python -m loadtest engines {plan_argument(path)} --install."
        )
    make_folder(folder, "the run's folder")
    others = [entry.name for entry in folder.iterdir()]
    if others and RUN not in others:
        raise UserFacingError(f"{folder} holds other files than a load run: choose another --name.")
    server.stop(folder / KAFKA)
    end_all(folder)
    free = psutil.disk_usage(str(folder)).free
    lack = shortage(estimate(planned), free, psutil.virtual_memory().available)
    if lack:
        raise UserFacingError(lack)
    text = path.read_bytes()
    saved = _same_plan(plan, text, folder) if resume and PLAN in others else None
    run = new_run(plan, folder.name, 0 if plan.capacity else len(planned))
    if saved:
        run = _continued(saved, run)
    save(run, folder / RUN)  # before all else is removed: a folder without it is refused
    if not saved:
        _remove_all_but_record(folder)
        (folder / PLAN).write_bytes(text)
    return run, {_key(point): point for point in saved.points} if saved else {}


def _remove_all_but_record(folder: Path) -> None:
    (folder / PLAN).unlink(missing_ok=True)  # first: without it no later run resumes this one
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != RUN:
            entry.unlink()


def _same_plan(plan: Plan, text: bytes, folder: Path) -> SavedRun:
    """Return the run to resume; raise `UserFacingError` when it is of another plan."""
    saved = load(folder)
    # A short form has the same file, and another summary.
    if (folder / PLAN).read_bytes() != text or saved.run.description != plan.summary:
        raise UserFacingError(f"the run in {folder} is of another plan: leave --resume out.")
    return saved


def _continued(saved: SavedRun, run: Run) -> Run:
    """Return the record with the begin and the machine of the saved run.

    Raises `UserFacingError` when the machine or a version has changed: points of both would be in
    one mean.
    """
    before = saved.run.machine
    changed = [
        f"{name} {before.get(name)}, now {value}"
        for name, value in run.machine.items()
        if name != OTHERS and value != before.get(name)
    ]
    if changed:
        raise UserFacingError(
            f"the run in {saved.folder} was measured with {'; '.join(changed)}: leave --resume out."
        )
    return msgspec.structs.replace(run, began=saved.run.began, machine=before)


def _key(point: Point | PointResult) -> PointKey:
    return point.variant, point.rate, point.repeat


def new_run(plan: Plan, name: str, count: int) -> Run:
    """Return the record of a run that begins now."""
    about = machine.describe()
    busy = machine.busy_percent()
    about[OTHERS] = f"{busy:.0f} % CPU before the run"
    if busy > BUSY_PERCENT:
        sys.stderr.write(
            f"loadtest: other programs use {busy:.0f} % CPU; the results will be noisy.\n"
        )
    return Run(
        name=name,
        description=plan.summary,
        began=to_text(now_ms()),
        machine=about,
        points=count,
        ended="it did not finish",
    )


@contextmanager
def finishing(run: Run, folder: Path) -> Iterator[Callable[[Run], None]]:
    """Yield what takes the finished run; save how the run ended, and write its report.

    The points of a capacity search are counted at its end.
    """
    ended = run

    def finish(finished: Run) -> None:
        nonlocal ended
        ended = msgspec.structs.replace(finished, ended="")

    try:
        yield finish
    except KeyboardInterrupt:
        ended = msgspec.structs.replace(run, ended="it was interrupted by Ctrl-C")
        raise
    except UserFacingError as error:
        ended = msgspec.structs.replace(run, ended=f"it failed: {error}")
        raise
    finally:
        count = ended.points or len(load(folder).points)
        save(msgspec.structs.replace(ended, points=count), folder / RUN)
        sys.stderr.write(f"loadtest: report: {write_report(folder)}\n")


@contextmanager
def run_context(folder: Path, show_status: ShowStatus) -> Iterator[RunContext]:
    """Yield a context with a broker of its own, and stop the broker at the end."""
    unwind_at_end()
    show_status("starting a broker")
    broker = server.start(server.free_port(), folder / KAFKA, fresh=True)
    try:
        yield RunContext(broker, folder, show_status)
    finally:
        broker.stop()
        shutil.rmtree(folder / KAFKA, ignore_errors=True)


def _run_point(
    context: RunContext,
    point: Point,
    limits: Gates,
    finished: Mapping[PointKey, PointResult],
    *,
    searching: bool = False,
) -> PointResult:
    """Run a point, unless an earlier run has finished it.

    In a search for the capacity, a point whose program fails under the load is invalid.
    """
    if result := finished.get(_key(point)):
        return result
    if not point.settings.jobs:
        return ProducerBenchmark(context, point, limits).run()
    running = PointRun(context, point, limits)
    try:
        return running.run()
    except ProgramFailedError as error:
        if not searching:
            raise
        return running.failed(error)


def summary_line(result: PointResult) -> str:
    """Return a point's result in one line: its numbers, or why it is invalid.

    It also says when other programs have used much of a processor.
    """
    point = f"  {result.label}, repeat {result.repeat + 1}: "
    others = result.processes.get(OTHERS)
    busy = (
        f"; other programs used {others.cpu_percent:.0f} % of a processor"
        if others and others.cpu_percent > BUSY_PERCENT
        else ""
    )
    if not result.valid:
        return f"{point}INVALID: {'; '.join(result.reasons)}{busy}"
    violated = "".join(f"; LIMIT VIOLATED: {limit}" for limit in result.violated_limits)
    return point + _numbers(result) + violated + busy


def _numbers(result: PointResult) -> str:
    if result.warm_throughput_per_s is not None:
        return (
            f"{result.throughput_per_s or 0:,.0f} records/s, "
            f"{result.warm_throughput_per_s:,.0f} warm"
        )
    if result.throughput_per_s is not None:
        return f"{result.throughput_per_s:,.0f} records/s"
    if not result.latencies:
        return f"valid; {result.outputs:,} outputs"
    return "; ".join(
        f"{kind}p50 {latency.p50:,.1f} ms, p99 {latency.p99:,.1f} ms of {latency.count:,} outputs"
        for kind, latency in result.latencies.items()
    )
