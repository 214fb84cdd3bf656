"""A point's raw material, made by hand, gives the numbers that one would work out by hand."""

import shutil
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest

from demo.comparison import Comparison
from events.topics import ALERTS, DEAD_LETTERS
from loadtest.machine import describe
from loadtest.measure import collect
from loadtest.measure.analysis import Raw, analyse, decode
from loadtest.measure.collect import Output
from loadtest.measure.deciding import deciders
from loadtest.measure.inputs import Inputs
from loadtest.measure.latency import percentiles
from loadtest.measure.sampler import family, mean_and_most
from loadtest.needs import Needs, needs, shortage
from loadtest.plan import Gates, Point, Settings

T0_MS = 1_795_242_360_000


def output(number: int, due_ms: int, latency_ms: int) -> tuple[Output, dict[str, Any]]:
    row = {"alert_id": str(number), "subject": f"rack-{number}", "event_time": str(due_ms), "rule": "x"}
    value = msgspec.json.encode(row)
    return Output((due_ms + latency_ms) * 1_000_000, 0, 0, number, due_ms + latency_ms, value), row


def raw(
    outputs: Sequence[tuple[Output, dict[str, Any]]], due_ms: Sequence[int], append_after_ms: int = 2
) -> Raw:
    """Return the material of a run whose records were appended so long after their time."""
    appended = array("q", [moment + append_after_ms for moment in due_ms])
    inputs = Inputs(array("q", due_ms), appended, Counter({"t": len(due_ms)}))
    found = {}
    for _, row in outputs:
        (key,) = deciders(ALERTS.name, row)
        found[key] = (int(row["event_time"]), int(row["event_time"]) + append_after_ms)
    return Raw(
        began="2026-11-21T06:26:00.000Z",
        started_ms=T0_MS - 1000,
        sent={"sent": len(due_ms), "acknowledged": len(due_ms), "max_slip_ms": 3.5},
        sinks=[ALERTS, DEAD_LETTERS],
        outputs=[o for o, _ in outputs],
        rows=[row for _, row in outputs],
        inputs=inputs,
        found=found,
        compared={"alerts": Comparison(len(outputs), len(outputs), [], [])},
        batches={},
        held=[],
        samples=[(T0_MS / 1000 + 12, "jobs (JVM)", 150.0, 900.0), (T0_MS / 1000 + 13, "jobs (JVM)", 50.0, 1000.0),
                 (T0_MS / 1000 + 1, "jobs (JVM)", 999.0, 9999.0)],
    )  # fmt: skip


POINT = Point("", 100.0, 0, Settings(jobs=("overheating",), warm_up=10, duration=20))
STATE = [{"numRowsTotal": 40, "memoryUsedBytes": 2**20}, {"numRowsTotal": 2, "memoryUsedBytes": 2**21}]
EVERY_10_MS = [T0_MS + 10 * i for i in range(3000)]


def test_only_outputs_whose_record_was_due_after_the_warm_up_are_measured() -> None:
    outputs = [output(i, T0_MS + 100 * i, 900 if i < 100 else 10 + i % 2) for i in range(300)]
    done = analyse(POINT, raw(outputs, EVERY_10_MS), Gates())
    result = done.result
    assert result.valid, result.reasons
    assert result.from_schedule is not None
    assert (result.from_schedule.count, result.from_schedule.max) == (200, 11)
    assert result.from_schedule.p50 == pytest.approx(10, rel=0.001)
    assert result.from_append is not None
    assert result.from_append.p99 == pytest.approx(9, rel=0.001)
    assert result.in_per_s == pytest.approx(100)
    assert result.out_per_s == pytest.approx(10, abs=0.5)
    assert result.slip is not None
    assert result.slip.p99 == pytest.approx(2, rel=0.001)
    assert len(done.latencies) == 300
    # 10.5 ms at 100 records a second are one record behind, and no more with time.
    assert result.lag_max == pytest.approx(1.05, abs=0.06)
    assert result.lag_slope == pytest.approx(0, abs=0.01)
    assert result.processes["jobs (JVM)"].cpu_percent == 100
    assert result.processes["jobs (JVM)"].rss_mib == 1000


def test_latencies_that_grow_show_as_a_lag_that_grows() -> None:
    # Every second each output takes 100 ms longer: at 100 records/s, ten records more behind with each.
    outputs = [output(i, T0_MS + 100 * i, 10 * i) for i in range(300)]
    slope = analyse(POINT, raw(outputs, EVERY_10_MS), Gates()).result.lag_slope
    # Seen by when they come: a second of them, 1.1 s long, is 10 / 1.1 records.
    assert slope == pytest.approx(10 / 1.1, rel=0.05)


def test_a_second_copy_of_an_output_is_counted_and_not_measured() -> None:
    outputs = [output(i, T0_MS + 100 * i, 10) for i in range(300)]
    again, row = output(299, T0_MS + 100 * 299, 5000)
    result = analyse(POINT, raw([*outputs, (again, row)], EVERY_10_MS), Gates()).result
    assert result.again == 1
    assert result.from_schedule is not None
    assert result.from_schedule.max == 10


def test_records_that_came_late_into_the_topic_invalidate_the_point() -> None:
    outputs = [output(i, T0_MS + 100 * i, 700) for i in range(300)]
    result = analyse(POINT, raw(outputs, EVERY_10_MS, append_after_ms=600), Gates(slip_ms=500)).result
    assert not result.valid
    assert result.reasons == [
        "not so: the generator kept its schedule (99 of 100 records were in the topic 600.1 ms after their time, "
        "of at most 500)"
    ]


def test_a_catch_up_is_told_in_records_a_second_with_and_without_its_first_batch() -> None:
    point = Point("", 0.0, 0, Settings(jobs=("overheating",), trigger="micro-batch", count=3000))
    material = raw([output(1, T0_MS, 10)], [-1] * 3000)
    ends = [(1000, 10_000), (3000, 4000)]  # records reached, ms
    material.batches = {
        "overheating": [
            {
                "runId": "a", "timestamp": "2026-11-21T06:26:00.000Z", "batchDuration": took,
                "numInputRows": reached - before, "sources": [{"endOffset": {"t": {"0": reached}}}],
                "stateOperators": STATE, "late_records": None,
            }
            for (reached, took), before in zip(ends, (0, 1000), strict=True)
        ]
    }  # fmt: skip
    result = analyse(point, material, Gates()).result
    assert result.valid, result.reasons
    assert result.whole_per_s == pytest.approx(3000 / 14)
    assert result.warm_per_s == pytest.approx(500)
    assert result.batches is not None
    assert (result.batches.count, result.batches.p50_ms, result.batches.max_ms) == (2, 7000, 10_000)
    assert (result.batches.state_rows, result.batches.state_mib) == (42, 3)
    material.batches["overheating"].pop()  # type: ignore[attr-defined]
    assert "2,000 of 3,000 records were not read" in analyse(point, material, Gates()).result.reasons[0]


def test_after_a_kill_the_first_batch_of_the_second_start_is_cold_too_and_tells_the_recovery() -> None:
    killed = Settings(jobs=("overheating",), trigger="micro-batch", count=4000, kill_at=0.5)
    material = raw([output(1, T0_MS, 10)], [-1] * 4000)
    # The start, how far into the minute a batch began, and how long it took.
    taken = [("a", 10, 10_000), ("a", 20, 2000), ("b", 40, 9000), ("b", 49, 4000)]
    material.batches = {
        "overheating": [
            {
                "runId": run, "timestamp": f"2026-11-21T06:26:{second}.000Z", "batchDuration": took,
                "numInputRows": 1000, "sources": [{"endOffset": {"t": {"0": 1000 * number}}}], "stateOperators": STATE,
                "late_records": None,
            }
            for number, (run, second, took) in enumerate(taken, start=1)
        ]
    }  # fmt: skip
    material.started_ms, material.restarted_ms = T0_MS + 4000, T0_MS + 30_000
    result = analyse(Point("", 0.0, 0, killed), material, Gates()).result
    assert result.valid, result.reasons
    assert (result.start_s, result.recovery_s) == (16, 19)
    assert result.whole_per_s == pytest.approx(4000 / 25)
    assert result.warm_per_s == pytest.approx(2000 / 6)


def test_a_catch_up_that_does_not_end_by_itself_is_told_by_when_its_outputs_came() -> None:
    point = Point("", 0.0, 0, Settings(jobs=("overheating",), count=3000))
    # The first 100 of 300 outputs take 2 s, the others 1 s.
    outputs = [output(i, T0_MS, 20 * i if i < 100 else 2000 + 5 * (i - 100)) for i in range(301)]
    result = analyse(point, raw(outputs, [-1] * 3000), Gates()).result
    assert result.valid, result.reasons
    assert result.whole_per_s == pytest.approx(3000 / 4, rel=0.01)
    assert result.warm_per_s == pytest.approx(2000 / 1, rel=0.01)


def test_percentiles_are_those_of_the_numbers_from_one_to_a_thousand() -> None:
    found = percentiles(range(1, 1001))
    assert found is not None
    told = (found.count, found.p50, found.p95, found.p99, found.p999, found.max)
    assert told == (1000, *(pytest.approx(value, rel=0.002) for value in (500, 950, 990, 999, 1000)))
    assert percentiles([]) is None


def test_what_is_below_a_microsecond_is_one_and_hours_are_held_at_two() -> None:
    found = percentiles([-3.0, 10_000_000.0])
    assert found is not None
    assert found.p50 == 0.001
    assert found.p99 == pytest.approx(7_200_000, rel=0.001)
    assert found.max == 10_000_000


def test_the_collectors_file_is_read_up_to_a_record_that_was_cut_off(tmp_path: Path) -> None:
    path, written = (
        tmp_path / "outputs.bin",
        [Output(5_400_000, 1, 2, 3, 4, b"{}"), Output(6, 0, 0, 1, 9, b"")],
    )
    with path.open("wb") as file:
        for each in written:
            file.write(collect.encoded(each))
    assert list(collect.outputs(path)) == written
    path.write_bytes(path.read_bytes() + collect.encoded(Output(7, 0, 0, 0, 0, b"abc"))[:-1])
    assert list(collect.outputs(path)) == written
    assert written[0].seen_ms == 5
    assert decode(written[:1]) == [{}]


def test_the_samples_of_a_stretch_give_mean_and_most() -> None:
    rows = [(1.0, "a", 10.0, 5.0), (2.0, "a", 30.0, 4.0), (2.0, "b", 1.0, 1.0), (9.0, "a", 99.0, 99.0)]
    assert mean_and_most(rows, 1.0, 3.0) == {"a": (20.0, 5.0), "b": (1.0, 1.0)}


@pytest.mark.skipif(
    not Path("/proc/self/exe").exists(), reason="only Linux tells a process's program and name apart"
)
def test_what_a_jvm_is_just_starting_is_not_its_memory_once_more(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep
    shutil.copy(sleep, tmp_path / "java")
    (tmp_path / "a-thread").symlink_to(tmp_path / "java")  # the program is Java's, the name is not
    both = f"import subprocess as s; p = [s.Popen([n, '30']) for n in ('{tmp_path}/java', '{tmp_path}/a-thread')]"
    script = both + "; print(flush=True); input(); [each.kill() for each in p]"
    with subprocess.Popen([sys.executable, "-c", script], stdin=PIPE, stdout=PIPE, text=True) as program:
        assert program.stdout
        program.stdout.readline()
        found = family("jobs", program.pid, {})
        program.communicate("\n")
    assert [which for which, _, _ in found] == ["jobs", "jobs (JVM)", "jobs (JVM)"]
    own, jvm, copy = (size for _, _, size in found)
    assert own > 0
    assert jvm > 0
    assert copy == 0


def test_what_a_plan_takes_grows_with_its_records() -> None:
    small, large = (
        needs([Point("", rate, 0, Settings(jobs=("overheating",), warm_up=0, duration=100))])
        for rate in (1000.0, 11_000.0)
    )
    assert large.disk - small.disk > 1_000_000 * 300  # a million records more, of over 300 bytes each
    assert large.memory > small.memory


def test_records_take_memory_only_where_the_truth_is_kept() -> None:
    kept, not_kept = (
        needs([Point("", 0.0, 0, Settings(jobs=("overheating",), count=10**6, truth=truth))]).memory
        for truth in (True, False)
    )
    assert kept - not_kept == 160 * 10**6


def test_a_catch_up_of_keyed_results_takes_the_disk_of_its_inputs_alone() -> None:
    by_job = {
        job: needs([Point("", 0.0, 0, Settings(jobs=(job,), trigger="micro-batch", count=10**6))]).disk
        for job in ("rack_temperature", "ad_attribution")
    }
    assert by_job["ad_attribution"] - by_job["rack_temperature"] == 900 * 10**6


def test_too_little_disk_or_memory_is_said_beforehand() -> None:
    wanted = Needs(disk=5_000_000_000, memory=4_000_000_000)
    assert shortage(wanted, 5_000_000_000, 4_000_000_000) is None
    assert str(shortage(wanted, 4_900_000_000, 9_000_000_000)).startswith(
        "this plan may take 5.0 GB of disk and 4.9 GB are free:"
    )
    assert str(shortage(wanted, 9_000_000_000, 1_000_000_000)).startswith(
        "this plan may take 4.0 GB of memory and 1.0 GB are free:"
    )


def test_the_machine_is_described_by_what_figures_depend_on() -> None:
    about = describe()
    assert {"processors", "memory", "java", "python", "pyspark", "clock"} <= set(about)
    assert all(about.values())
