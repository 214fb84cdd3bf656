"""A run of a plan: its points one after the other, each saved when done, so that an end at any time leaves a result."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec
import psutil

from broker import server
from events.cli import PersonError
from events.times import now_ms, to_text
from loadtest import capacity, machine, peers
from loadtest.measure.result import RUN, PointResult, Run, save
from loadtest.needs import needs, shortage
from loadtest.plan import Gates, Plan, Point, Settings, points, to_type, variants
from loadtest.point import Bench, OnePoint
from loadtest.reports.report import write_report
from loadtest.sending import Sending
from loadtest.telling import Telling

PLAN = "plan.yaml"
BUSY_PERCENT = 15.0
"""With more than this taken by others, figures say little."""


def run_plan(plan: Plan, path: Path, folder: Path) -> bool:
    """Run all points of a plan in an empty folder, write its report, and return whether all of them are valid.

    On Ctrl-C and on a failure of a point what was done is kept and reported, and why it ended is said in the report.
    """
    if plan.capacity:
        raise PersonError(
            f"the plan {path} has no rate of its own, but bounds: run python -m loadtest capacity {to_type(path)}."
        )
    planned = list(points(plan))
    prepare(planned, path, folder)
    run = new_run(plan, folder, len(planned))
    valid = True
    with Telling(len(planned)) as telling, finishing(run, folder) as done:
        with bench(folder, telling.show) as running:
            for point in planned:
                result = _run(running, point, plan.gates)
                valid = valid and result.valid
                telling.finished(line(result))
        done(run)
    return valid


def find_capacity(plan: Plan, path: Path, folder: Path) -> dict[str, float | None]:
    """Search the highest rate that each variant sustains, write a report of all points, and return the rates."""
    bounds = plan.capacity
    if bounds is None or plan.count:
        raise PersonError(
            f"the plan {path} has no capacity to look for: give it capacity, with low, high and p99_ms."
        )
    highest = msgspec.structs.replace(plan, rate=bounds.high)
    prepare(list(points(highest)), path, folder)
    run, found = new_run(plan, folder, 0), dict[str, float | None]()
    with Telling(0) as telling, finishing(run, folder) as done:
        with bench(folder, telling.show) as running:
            for name, settings in variants(plan):

                def holds(rate: float, name: str = name, settings: Settings = settings) -> bool:
                    def outcomes() -> Iterator[list[str]]:
                        for repeat in range(plan.repeats):
                            result = _run(running, Point(name, rate, repeat, settings), plan.gates)
                            against = capacity.complaints(result, bounds)
                            telling.finished(line(result) + (f" — {'; '.join(against)}" if against else ""))
                            yield against

                    return capacity.most(outcomes(), plan.repeats)

                found[name] = capacity.search(holds, bounds).held
        done(msgspec.structs.replace(run, capacity=found))
    return found


def prepare(planned: list[Point], path: Path, folder: Path) -> None:
    """Make the folder anew, with a copy of the plan.

    Raises `PersonError` when an engine is not installed, or disk or memory is too little.
    """
    if absent := peers.missing(point.settings.engine for point in planned):
        raise PersonError(
            f"the plan {path} lacks {', '.join(absent)}: python -m loadtest peers {to_type(path)} --install fetches "
            "and runs them."
        )
    folder.mkdir(parents=True, exist_ok=True)
    free = psutil.disk_usage(str(folder)).free
    lack = shortage(needs(planned), free, psutil.virtual_memory().available)
    if lack:
        raise PersonError(lack)
    others = [entry.name for entry in folder.iterdir()]
    if others and RUN not in others:
        raise PersonError(f"{folder} holds something else than a load run: choose another --name.")
    plan = path.read_bytes()
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / PLAN).write_bytes(plan)


def new_run(plan: Plan, folder: Path, count: int) -> Run:
    """Return the run's record as it is at the beginning, and save it."""
    about = machine.describe()
    busy = machine.busy_percent()
    about["before the run"] = f"{busy:.0f} % of the processors taken by other programs"
    if busy > BUSY_PERCENT:
        sys.stderr.write(
            f"loadtest: other programs take {busy:.0f} % of the processors, which the figures will show.\n"
        )
    run = Run(
        name=folder.name,
        description=plan.description,
        began=to_text(now_ms()),
        machine=about,
        points=count,
        ended="it has not come to its end",
    )
    save(run, folder / RUN)
    return run


@contextmanager
def finishing(run: Run, folder: Path) -> Iterator[Callable[[Run], None]]:
    """Yield what is called with the run at its end; an early end is noted with its reason, and raised again."""

    def done(finished: Run) -> None:
        save(msgspec.structs.replace(finished, ended=""), folder / RUN)

    try:
        yield done
    except KeyboardInterrupt:
        save(msgspec.structs.replace(run, ended="it was ended by Ctrl-C"), folder / RUN)
        raise
    except PersonError as error:
        save(msgspec.structs.replace(run, ended=f"it failed: {error}"), folder / RUN)
        raise
    finally:
        sys.stderr.write(f"loadtest: report: {write_report(folder)}\n")


@contextmanager
def bench(folder: Path, tell: Callable[[str], None]) -> Iterator[Bench]:
    """Yield a bench with a broker of its own, and end that at the end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    tell("starting a broker")
    broker = server.start(server.free_port(), folder / "kafka", fresh=True)
    try:
        yield Bench(broker, folder, tell)
    finally:
        broker.stop()
        shutil.rmtree(folder / "kafka", ignore_errors=True)


def _run(running: Bench, point: Point, bounds: Gates) -> PointResult:
    return (OnePoint if point.settings.jobs else Sending)(running, point, bounds).run()


def _end(number: int, _frame: FrameType | None) -> None:
    """End the run on the first signal; a second one shall not cut short the ending of what was started."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(143)


def line(result: PointResult) -> str:
    """Return what a point came to in one line: its numbers, or why it has none."""
    what = f"  {result.label}, repeat {result.repeat + 1}: "
    if not result.valid:
        return what + "invalid: " + "; ".join(result.reasons)
    if result.warm_per_s is not None:
        return what + f"{result.whole_per_s or 0:,.0f} records/s, {result.warm_per_s:,.0f} when warm"
    if result.whole_per_s is not None:
        return what + f"{result.whole_per_s:,.0f} records/s"
    latency = result.from_schedule or result.past_window
    if latency is None:
        return what + f"valid; {result.outputs:,} outputs"
    return what + f"p50 {latency.p50:,.1f} ms, p99 {latency.p99:,.1f} ms of {latency.count:,} outputs"
