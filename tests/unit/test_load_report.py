"""A run's report shows valid points in numbers and invalid ones with their reason."""

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from broker.server import RunningBroker
from events.cli import UserFacingError
from loadtest import run as running
from loadtest.__main__ import capacity_command, run_command
from loadtest.measure.gates import Gate
from loadtest.measure.latency import Percentiles
from loadtest.measure.result import RESULT, RUN, PointResult, Process, Run, load, save
from loadtest.plan import Point, load_plan
from loadtest.point import RunContext
from loadtest.reports import plots
from loadtest.reports.performance import rows, update
from loadtest.reports.report import write_report
from loadtest.resources import Resources
from loadtest.short import shortened

GOOD, BAD = Gate("a gate", True, "all of it"), Gate("the counts are right", False, "7 missing")
WRONG = Gate("output", False, "1 wrong", "output differs from the truth", is_error=True)
PLAN = "description: A plan.\njobs: [overheating]\nrate: [100, 200]\nrepeats: 2\n"


def result(
    rate: float, gate: Gate = GOOD, repeat: int = 0, p99: float = 12.5, variant: str = ""
) -> PointResult:
    return PointResult(
        label=f"{variant} {rate:g}/s".strip(), variant=variant, rate=rate, repeat=repeat,
        jobs=("overheating",), trigger="real-time", began="2026-11-21T06:26:00.000Z", gates=[gate],
        from_schedule=Percentiles(count=500, p50=6.25, p95=9, p99=p99, p999=13, max=77.75),
        in_per_s=99.5, lag_max=3.25, lag_slope=0.125,
        processes={"jobs (JVM)": Process(cpu_percent=87.5, rss_mib=640.5)},
        folder=f"{variant}{rate:g}-r{repeat + 1}",
    )  # fmt: skip


def write_run(folder: Path, *points: PointResult, ended: str = "") -> Path:
    """Write the folder of a run with these points."""
    folder.mkdir(exist_ok=True)
    save(
        Run(
            name="x<y", description="Made by hand.", began="2026-11-21T06:26:00.000Z",
            machine={"processors": "2 (of a kind)"}, points=4, ended=ended, capacity={"": 28_500.0},
        ),
        folder / RUN,
    )  # fmt: skip
    for point in points:
        own = folder / "points" / point.folder
        own.mkdir(parents=True)
        save(point, own / RESULT)
        write_series(own)
    return folder


def write_series(own: Path) -> None:
    times = {
        "topic": ["alerts"] * 3,
        "scheduled_ms": [0, 500, 1500],
        "append_ms": [1, 501, 1501],
        "seen_ms": [9, 520, 1533],
    }
    pq.write_table(pa.table(times), own / "latencies.parquet")
    (own / "lag.csv").write_text("epoch_s,records_behind\n1.5,10\n2.5,12\n", encoding="utf-8")
    (own / "batches.csv").write_text(
        "query,batch,end_ms,took_ms,records,late_records,state_rows,state_bytes\n"
        "overheating,0,1000,900,5,0,7,800\nother,0,1000,900,5,0,7,800\n",
        encoding="utf-8",
    )
    (own / "samples.csv").write_text(
        "epoch_s,program,cpu_percent,rss_mib\n1.0,broker,5,300\n1.5,broker,6,301\n",
        encoding="utf-8",
    )


def test_the_page_is_self_contained_and_has_all_plots(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", result(100), result(200))
    page = write_report(folder).read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 10
    assert {file.stem for file in folder.glob("*.png")} == {
        "latency-over-rate", "ecdf", "latency-over-time", "lag", "batches", "state", "cpu",
        "memory", "cpu-over-time", "memory-over-time",
    }  # fmt: skip
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
    assert "Load run x&lt;y" in page
    assert "2 of 4 points, 2 of them valid" in page
    assert "<td>6.25</td>" in page
    assert "<td>28,500</td>" in page
    assert "2 (of a kind)" in page


def test_growing_costs_have_slopes(tmp_path: Path) -> None:
    points = [
        msgspec.structs.replace(
            result(100, repeat=repeat, variant=f"{racks}"), racks=racks, checkpoint_mib=racks / 20,
            from_schedule=None, recovery_s=10 + repeat * 4,
            jobs_mib=600 + repeat,
        )
        for racks in (100, 1000, 10_000) for repeat in (0, 1)
    ]  # fmt: skip
    folder = write_run(tmp_path / "run", *points, result(200, BAD, variant="7"))
    write_report(folder)
    with (folder / "growth.csv").open(encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["racks", "recovery s", "jobs MiB", "checkpoint MiB"],
            ["100", "12", "600", "5"],
            ["1,000", "12", "600", "50"],
            ["10,000", "12", "600", "500"],
            ["slope", "0.00", "0.00", "1.00"],
        ]
    assert (folder / "growth.png").exists()
    first, *_, last = rows(load(folder))[1:]
    assert (
        "| 100 100/s | recovery s: 12 (-13.4 to 37.4, 2 repeats); "
        "CPU µs per record: 8,794 (8,794 to 8,794, 2 repeats); "
        "jobs MiB: 600 (594 to 607, 2 repeats); checkpoint" in first
    )
    assert last.endswith("recovery s: 0.00; jobs MiB: 0.00; checkpoint MiB: 1.00 | | 2026-11-21 |")


def test_costs_of_each_job_and_engine_have_curves_of_their_own(tmp_path: Path) -> None:
    points = [
        msgspec.structs.replace(
            result(1, variant=f"{job}-{engine}-{racks}"),
            jobs=(job,), engine=engine, racks=racks, from_schedule=None, jobs_mib=mib,
        )
        for job, engine, mibs in (
            ("a", "spark", (100, 100)), ("b", "spark", (300, 3000)), ("b", "flink", (200, 20_000)),
        )
        for racks, mib in zip((10, 100), mibs, strict=True)
    ]  # fmt: skip
    other = msgspec.structs.replace(points[0], variant="c", label="c", jobs=("c",), folder="c")
    folder = write_run(tmp_path / "run", *points, other)
    write_report(folder)
    with (folder / "growth.csv").open(encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["racks", "jobs MiB"],
            ["a spark 10", "100"], ["a spark 100", "100"], ["a spark slope", "0.00"],
            ["b spark 10", "300"], ["b spark 100", "3,000"], ["b spark slope", "1.00"],
            ["b flink 10", "200"], ["b flink 100", "20,000"], ["b flink slope", "2.00"],
        ]  # fmt: skip
    slopes = [row for row in rows(load(folder)) if "slopes" in row]
    assert slopes == [
        f"| x<y | {label} slopes over racks | jobs MiB: {slope} | | 2026-11-21 |"
        for label, slope in (("a spark", "0.00"), ("b spark", "1.00"), ("b flink", "2.00"))
    ]
    axes = Figure().add_subplot()
    assert plots._growth(axes, points)
    assert [line.get_label() for line in axes.lines] == [
        "a spark jobs MiB, slope 0.00", "b spark jobs MiB, slope 1.00",
        "b flink jobs MiB, slope 2.00",
    ]  # fmt: skip


def bars(plot: Callable[[Axes], bool]) -> list[tuple[str, float, float]]:
    """Draw, and return each bar's label, start and length."""
    axes = Figure().add_subplot()
    assert plot(axes)
    labels = {
        round(at): label.get_text()
        for at, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    }
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [
        (labels[round(bar.get_y() + bar.get_height() / 2)], bar.get_x(), bar.get_width())
        for bar in found
    ]


def test_latencies_and_window_delays_have_curves_of_their_own() -> None:
    points = [
        msgspec.structs.replace(
            result(rate, variant="a"),
            window_delay=Percentiles(count=9, p50=20, p95=20, p99=30, p999=30, max=30),
        )
        for rate in (100, 200)
    ]
    axes = Figure().add_subplot()
    assert plots._over_rate(axes, points)
    _, labels = axes.get_legend_handles_labels()
    assert labels == ["a p50", "a p99", "a window delay p50", "a window delay p99"]


def test_the_repeats_of_a_point_have_one_colour_and_one_entry_in_the_legend(tmp_path: Path) -> None:
    points = [result(rate, repeat=repeat) for repeat in (0, 1) for rate in (100, 200)]
    axes = Figure().add_subplot()
    assert plots._ecdf(axes, load(write_run(tmp_path / "run", *points)), points)
    assert [line.get_color() for line in axes.lines] == ["C0", "C1", "C0", "C1"]
    assert axes.get_legend_handles_labels()[1] == ["100/s", "200/s"]


def test_catch_ups_are_drawn_as_throughput(tmp_path: Path) -> None:
    points = [
        msgspec.structs.replace(
            result(1, repeat=repeat, variant=variant),
            from_schedule=None, throughput_per_s=per_s / 2, warm_throughput_per_s=per_s,
        )
        for variant, rates in (("one", (100, 110)), ("two", (180, 190)))
        for repeat, per_s in enumerate(rates)
    ]  # fmt: skip
    folder = write_run(tmp_path / "run", *points)
    assert "<h2>Throughput</h2>" in write_report(folder).read_text(encoding="utf-8")
    assert bars(lambda axes: plots._throughput(axes, points)) == [
        ("one 1/s", 0, 105),
        ("two 1/s", 0, 185),
    ]
    cold = [
        *points,
        msgspec.structs.replace(points[0], label="three 1/s", warm_throughput_per_s=None),
    ]
    assert bars(lambda axes: plots._throughput(axes, cold))[2:] == [("three 1/s", 0, 50)]
    assert bars(lambda axes: plots._throughput(axes, cold))[0] == ("one 1/s", 0, 52.5)


def test_programs_are_stacked_bars_of_each_label(tmp_path: Path) -> None:
    def point(repeat: int, cpu: float, gate: Gate = GOOD) -> PointResult:
        processes = {
            "broker": Process(cpu_percent=cpu, rss_mib=1),
            "jobs": Process(cpu_percent=100, rss_mib=2),
        }
        return msgspec.structs.replace(result(5, gate, repeat), processes=processes)

    saved = load(write_run(tmp_path / "run", point(0, 40), point(1, 60), point(2, 90, BAD)))
    assert bars(lambda axes: plots._shares(axes, saved, plots._cpu, "%")) == [
        ("5/s", 0, 50), ("5/s (INVALID)", 0, 90), ("5/s", 50, 100), ("5/s (INVALID)", 90, 100),
    ]  # fmt: skip


def test_an_invalid_point_shows_its_reason_instead_of_numbers(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", result(100), result(200, BAD, p99=4444))
    page = write_report(folder).read_text(encoding="utf-8")
    assert "INVALID: the counts are right (7 missing)" in page
    assert "4,444" not in page
    with (folder / "points.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows[1:]] == ["100/s", "200/s"]
    assert rows[2][2:] == ["INVALID: the counts are right (7 missing)"]
    with (folder / "latency-from-schedule.csv").open(encoding="utf-8") as file:
        assert [row[:2] for row in csv.reader(file)][1:] == [["100/s", "1"]]


def test_jobs_in_a_container_know_a_runs_folder_by_the_same_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def run_plan(_plan: object, _path: Path, folder: Path, *, resume: bool) -> bool:
        folders.append(folder)
        return not resume

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RACKSTREAM_HOME", "relative")
    monkeypatch.setattr("loadtest.__main__.run_plan", run_plan)
    run_command(["quick"])
    assert folders == [tmp_path / "relative" / "load" / "quick"]


def test_an_incomplete_run_says_so_and_shows_its_points(tmp_path: Path) -> None:
    page = write_report(
        write_run(tmp_path / "run", ended="it was interrupted by Ctrl-C")
    ).read_text(encoding="utf-8")
    assert "This run is incomplete: it was interrupted by Ctrl-C." in page
    assert "0 of 4 points" in page
    assert "base64" not in page


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError, match="holds no load run: create one with"):
        write_report(tmp_path)
    for damaged in (b"{", b'{"name": "\xff"}'):
        (tmp_path / RUN).write_bytes(damaged)
        with pytest.raises(UserFacingError, match="cannot be read"):
            write_report(tmp_path)


class FakeMachine:
    """A fake that records the points, and returns results or raises as configured."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.invalid: set[float] = set()
        self.wrong: set[float] = set()
        self.breaks_at: int | None = None
        self.breaks_with: BaseException = KeyboardInterrupt()

    def outcome(self, point: Point) -> PointResult:
        """Return a point's result, or raise."""
        self.points.append(point)
        if len(self.points) == self.breaks_at:
            raise self.breaks_with
        return result(
            point.rate,
            BAD if point.rate in self.invalid else WRONG if point.rate in self.wrong else GOOD,
            point.repeat,
            variant=point.variant,
        )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """Replace the running of points by a fake."""
    fake = FakeMachine()

    class PointRun:
        def __init__(self, context: RunContext, point: Point, _: object) -> None:
            self._folder, self._point = context.folder, point

        def run(self) -> PointResult:
            done = fake.outcome(self._point)
            own = self._folder / "points" / done.folder
            own.mkdir(parents=True)
            save(done, own / RESULT)
            return done

    @contextmanager
    def run_context(folder: Path, show_status: Callable[[str], None]) -> Iterator[RunContext]:
        show_status("no broker")
        yield RunContext(RunningBroker(0, 0, folder), folder, show_status)

    monkeypatch.setattr(running, "PointRun", PointRun)
    monkeypatch.setattr(running, "run_context", run_context)
    monkeypatch.setattr("loadtest.machine.busy_percent", lambda: 0.0)
    monkeypatch.setattr(running, "estimate", lambda _: Resources(disk=0, memory=0))
    return fake


def plan_file(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_saves_its_points_its_plan_and_a_report(tmp_path: Path, machine: FakeMachine) -> None:
    path = plan_file(tmp_path)
    assert running.run_plan(load_plan(path), path, tmp_path / "run")
    saved = load(tmp_path / "run")
    assert [(p.rate, p.repeat) for p in saved.points] == [(100, 0), (200, 0), (100, 1), (200, 1)]
    assert (saved.run.points, saved.run.ended) == (4, "")
    assert (tmp_path / "run" / "plan.yaml").read_text(encoding="utf-8") == PLAN
    assert "4 of 4 points, 4 of them valid" in (tmp_path / "run" / "report.html").read_text(
        encoding="utf-8"
    )
    assert len(machine.points) == 4


def test_an_invalid_point_is_printed_and_the_run_continues(
    tmp_path: Path, machine: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.invalid, path = {100}, plan_file(tmp_path)
    assert not running.run_plan(load_plan(path), path, tmp_path / "run")
    assert "100/s, repeat 2: INVALID: the counts are right (7 missing)" in capsys.readouterr().err
    assert [p.valid for p in load(tmp_path / "run").points] == [False, True, False, True]


@pytest.mark.parametrize(
    ("broken", "ended"),
    [
        (KeyboardInterrupt(), "it was interrupted by Ctrl-C"),
        (
            UserFacingError("the jobs ended with 1: out of luck."),
            "it failed: the jobs ended with 1: out of luck.",
        ),
        (SystemExit(143), "it did not finish"),
    ],
)
def test_an_early_end_leaves_a_report_of_the_finished_points(
    tmp_path: Path, machine: FakeMachine, broken: BaseException, ended: str
) -> None:
    machine.breaks_at, machine.breaks_with = 3, broken
    path = plan_file(tmp_path)
    with pytest.raises(type(broken)):
        running.run_plan(load_plan(path), path, tmp_path / "run")
    saved = load(tmp_path / "run")
    assert (len(saved.points), saved.run.ended) == (2, ended)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f"This run is incomplete: {ended}" in page
    assert "2 of 4 points, 2 of them valid" in page


def test_a_resumed_run_keeps_its_finished_points(tmp_path: Path, machine: FakeMachine) -> None:
    machine.breaks_at, machine.breaks_with = 3, KeyboardInterrupt()
    path, folder = plan_file(tmp_path), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        running.run_plan(load_plan(path), path, folder)
    machine.points.clear()
    machine.breaks_at = 0
    assert running.run_plan(load_plan(path), path, folder, resume=True)
    assert [(p.rate, p.repeat) for p in machine.points] == [(100, 1), (200, 1)]
    saved = load(folder)
    assert (len(saved.points), saved.run.ended) == (4, "")
    # Of a complete run nothing runs again, and a run that never began is a new one.
    machine.points.clear()
    for each in (folder, tmp_path / "new"):
        assert running.run_plan(load_plan(path), path, each, resume=True)
    assert len(machine.points) == 4


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("is_short", [False, True], ids=["other text", "short form"])
def test_a_run_of_another_plan_is_not_resumed(tmp_path: Path, is_short: bool) -> None:
    path, folder = plan_file(tmp_path), tmp_path / "run"
    assert running.run_plan(load_plan(path), path, folder)
    if not is_short:
        plan_file(tmp_path, PLAN.replace("200", "250"))
    plan = shortened(load_plan(path)) if is_short else load_plan(path)
    with pytest.raises(UserFacingError, match="is of another plan: leave --resume out"):
        running.run_plan(plan, path, folder, resume=True)
    assert len(load(folder).points) == 4


def test_too_little_disk_is_refused_before_the_old_run_is_removed(
    tmp_path: Path, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = plan_file(tmp_path), write_run(tmp_path / "run", result(100))
    monkeypatch.setattr(running, "estimate", lambda _: Resources(disk=2**62, memory=0))
    with pytest.raises(UserFacingError, match=r"this plan may need .* of disk, .* are free"):
        running.run_plan(load_plan(path), path, folder)
    assert len(load(folder).points) == 1
    assert not machine.points


def test_a_folder_with_other_files_is_refused(tmp_path: Path, machine: FakeMachine) -> None:
    path, folder = plan_file(tmp_path), tmp_path / "holiday"
    folder.mkdir()
    (folder / "picture.png").touch()
    with pytest.raises(
        UserFacingError, match="holds other files than a load run: choose another --name"
    ):
        running.run_plan(load_plan(path), path, folder)
    assert (folder / "picture.png").exists()
    assert not machine.points


def test_the_capacity_of_each_variant_is_searched_and_reported(
    tmp_path: Path, machine: FakeMachine
) -> None:
    bounds = "capacity: {low: 100, high: 800, p99_ms: 50, precision: 1}\n"
    text = PLAN.replace("repeats: 2", "repeats: 1\nvariants: [{name: a}, {name: b}]") + bounds
    machine.invalid, path = {400}, plan_file(tmp_path, text)
    found = running.find_capacity(load_plan(path), path, tmp_path / "run")
    assert found == {"a": 200, "b": 200}
    assert [(p.variant, p.rate) for p in machine.points] == [
        (v, r) for v in "ab" for r in (100, 200, 400)
    ]
    assert load(tmp_path / "run").run.capacity == found


def search(folder: Path, bounds: str) -> str:
    """Search a capacity; return the error's text, or nothing."""
    path = plan_file(folder, PLAN.replace("repeats: 2", "repeats: 1") + f"capacity: {bounds}\n")
    try:
        capacity_command(str(path), name=str(folder / "run"))
    except UserFacingError as error:
        return str(error)
    return ""


def test_a_search_fails_if_output_was_wrong_and_its_row_says_so(
    tmp_path: Path, machine: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = "{low: 100, high: 800, p99_ms: 50, precision: 0.3}"
    assert search(tmp_path, bounds) == ""
    machine.wrong = {400}
    problem = "400/s: output differs from the truth (1 wrong)"
    assert search(tmp_path, bounds) == f"{problem}; see the report."
    # The rate is not taken for one that the jobs do not sustain.
    saved = load(tmp_path / "run")
    measured = f"sustained events/s: 340; ERROR at {problem}"
    assert rows(saved)[0] == f"| run | capacity | {measured} | | {saved.run.began[:10]} |"
    assert f"<td>340</td><td>{problem}</td>" in (saved.folder / "report.html").read_text("utf-8")
    assert "plan: 340 events/s" in capsys.readouterr().out


def test_a_search_fails_if_no_rate_was_sustained(tmp_path: Path, machine: FakeMachine) -> None:
    machine.invalid = {100}
    found = search(tmp_path, "{low: 100, high: 800, p99_ms: 50}")
    assert found == "plan: the lowest rate was not sustained; see the report."


def test_an_interrupted_search_continues_where_it_was(tmp_path: Path, machine: FakeMachine) -> None:
    bounds = "capacity: {low: 100, high: 800, p99_ms: 50, precision: 0.3}\n"
    path, folder = plan_file(tmp_path, PLAN + bounds), tmp_path / "run"
    machine.invalid, machine.breaks_at, machine.breaks_with = {400}, 6, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        running.find_capacity(load_plan(path), path, folder)
    tried = [(p.rate, p.repeat) for p in machine.points]
    assert tried == [(100, 0), (100, 1), (200, 0), (200, 1), (400, 0), (285, 0)]
    machine.points.clear()
    machine.breaks_at = 0
    assert running.find_capacity(load_plan(path), path, folder, resume=True) == {"": 340}
    rest = [(p.rate, p.repeat) for p in machine.points]
    assert rest == [(285, 0), (285, 1), (340, 0), (340, 1)]
    assert load(folder).run.ended == ""


def test_a_plan_without_bounds_has_no_capacity_search(tmp_path: Path, machine: FakeMachine) -> None:
    path = plan_file(tmp_path)
    with pytest.raises(UserFacingError, match="has no capacity to search"):
        running.find_capacity(load_plan(path), path, tmp_path / "run")
    assert not machine.points


@pytest.mark.parametrize("ended", ["it was interrupted by Ctrl-C", ""])
def test_a_run_without_all_planned_points_gives_no_rows(tmp_path: Path, ended: str) -> None:
    saved = load(write_run(tmp_path / "run", result(100), ended=ended))
    problem = r"^x<y is incomplete, with 1 of 4 points: run its plan again, with --resume to keep"
    with pytest.raises(UserFacingError, match=problem):
        update(tmp_path / "page.md", [saved])


def test_a_short_form_gives_no_rows(tmp_path: Path) -> None:
    plan = tmp_path / "tiny.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    saved = load(write_run(tmp_path / "run", result(100)))
    short = msgspec.structs.replace(
        saved.run, name="tiny-short", description=shortened(load_plan(plan)).description
    )
    with pytest.raises(UserFacingError, match="tiny-short is a short form, which measures nothing"):
        update(tmp_path / "page.md", [msgspec.structs.replace(saved, run=short)])
