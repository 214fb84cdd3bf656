"""The analysis of a point's raw data gives the numbers that one computes by hand."""

import shutil
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition

from demo.comparison import Comparison
from events.times import to_text
from events.topics import ALERTS, DEAD_LETTERS, RACK_TEMPERATURE
from loadtest.machine import describe
from loadtest.measure import collect, sampler, throughput
from loadtest.measure.analysis import RawData, analyse, decode
from loadtest.measure.collect import Output
from loadtest.measure.inputs import Inputs
from loadtest.measure.latency import percentiles
from loadtest.measure.latency_attribution import trigger_keys
from loadtest.measure.sampler import Sampler, max_jobs_mib, mean_and_max, process_tree_usage
from loadtest.plan import Gates, Point, PointSettings, Trigger
from loadtest.reports.compare import cpu_us_per_record
from loadtest.resources import Resources, estimate, shortage
from tests.support import eventually

T0_MS = 1_795_242_360_000


def output(number: int, scheduled_ms: int, latency_ms: int) -> tuple[Output, dict[str, Any]]:
    row = {
        "alert_id": str(number),
        "subject": f"rack-{number}",
        "event_time": str(scheduled_ms),
        "rule": "x",
    }
    value = msgspec.json.encode(row)
    return Output(
        (scheduled_ms + latency_ms) * 1_000_000, 0, 0, number, scheduled_ms + latency_ms, value
    ), row


def raw(
    outputs: Sequence[tuple[Output, dict[str, Any]]],
    scheduled_ms: Sequence[int],
    append_after_ms: int = 2,
) -> RawData:
    """Return a run's raw data, with records appended this long after their scheduled time."""
    appended = array("q", [moment + append_after_ms for moment in scheduled_ms])
    inputs = Inputs(array("q", scheduled_ms), appended, Counter({"t": len(scheduled_ms)}))
    found = {}
    for _, row in outputs:
        (key,) = trigger_keys(ALERTS.name, row)
        found[key] = (int(row["event_time"]), int(row["event_time"]) + append_after_ms)
    return RawData(
        began="2026-11-21T06:26:00.000Z",
        machine_speed=17.5,
        started_ms=T0_MS - 1000,
        summary={
            "sent": len(scheduled_ms),
            "acknowledged": len(scheduled_ms),
            "max_schedule_lag_ms": 3.5,
        },
        sinks=[ALERTS, DEAD_LETTERS],
        outputs=[o for o, _ in outputs],
        rows=[row for _, row in outputs],
        inputs=inputs,
        trigger_times=found,
        comparisons={"alerts": Comparison(len(outputs), len(outputs), [], [])},
        batches={},
        topic_sizes=[],
        samples=[
            (T0_MS / 1000 + 12, "jobs (JVM)", 150.0, 900.0),
            (T0_MS / 1000 + 13, "jobs (JVM)", 50.0, 1000.0),
            (T0_MS / 1000 + 1, "jobs (JVM)", 999.0, 9999.0),
        ],
    )


POINT = Point("", 100.0, 0, PointSettings(jobs=("overheating",), warm_up=10, duration=20))
STATE = [
    {"numRowsTotal": 40, "memoryUsedBytes": 2**20},
    {"numRowsTotal": 2, "memoryUsedBytes": 2**21},
]
EVERY_10_MS = [T0_MS + 10 * i for i in range(3000)]


def test_only_outputs_of_records_scheduled_after_the_warm_up_are_measured() -> None:
    outputs = [output(i, T0_MS + 100 * i, 900 if i < 100 else 10 + i % 2) for i in range(300)]
    done = analyse(POINT, raw(outputs, EVERY_10_MS), Gates())
    result = done.result
    assert result.valid, result.reasons
    assert result.from_schedule is not None
    assert (result.from_schedule.count, result.from_schedule.max) == (200, 11)
    assert result.from_schedule.p50 == 10
    assert result.from_append is not None
    assert result.from_append.p99 == 9
    assert result.in_per_s == pytest.approx(100)
    assert result.out_per_s == pytest.approx(10, abs=0.5)
    assert result.schedule_lag is not None
    assert result.schedule_lag.p99 == 2
    assert len(done.latencies) == 300
    # 10.5 ms at 100 records/s is a lag of one record, and it does not grow.
    assert result.lag_max == pytest.approx(1.05, abs=0.06)
    assert result.lag_slope == pytest.approx(0, abs=0.01)
    assert result.processes["jobs (JVM)"].cpu_percent == 100
    assert cpu_us_per_record(result) == pytest.approx(10_000)  # a whole processor for 100/s
    assert result.processes["jobs (JVM)"].rss_mib == 1000
    assert result.jobs_mib == 1000


def test_a_result_names_its_jobs_trigger_and_engine() -> None:
    point = Point("", 100.0, 0, PointSettings(jobs=("overheating",), engine="flink"))
    result = analyse(point, raw([], EVERY_10_MS), Gates()).result
    assert (result.jobs, result.trigger, result.engine) == (("overheating",), "real-time", "flink")


def test_dead_letters_alone_do_not_show_that_the_output_matches() -> None:
    outputs = [output(i, T0_MS + 100 * i, 10) for i in range(300)]
    data = raw(outputs, EVERY_10_MS)
    data.comparisons = {"dead letters": Comparison(3, 3, [], [])}
    gates = {gate.name: gate.passed for gate in analyse(POINT, data, Gates()).result.gates}
    assert (gates["all records read"], gates["output matches the truth"]) == (None, None)


def test_growing_latencies_are_a_growing_lag() -> None:
    # Each second outputs take 100 ms longer: at 100 records/s the lag grows by ten records.
    outputs = [output(i, T0_MS + 100 * i, 10 * i) for i in range(300)]
    slope = analyse(POINT, raw(outputs, EVERY_10_MS), Gates()).result.lag_slope
    # The lag is over the time of arrival, which advances 1.1 s per scheduled second.
    assert slope == pytest.approx(10 / 1.1, rel=0.05)


def test_a_repeated_output_is_counted_and_not_measured() -> None:
    outputs = [output(i, T0_MS + 100 * i, 10) for i in range(300)]
    repeated, row = output(299, T0_MS + 100 * 299, 5000)
    result = analyse(POINT, raw([*outputs, (repeated, row)], EVERY_10_MS), Gates()).result
    assert result.duplicates == 1
    assert result.from_schedule is not None
    assert result.from_schedule.max == 10


def test_two_rules_that_alert_on_one_reading_are_two_outputs() -> None:
    outputs = [output(i, T0_MS + 100 * i, 10) for i in range(300)]
    scheduled_ms = T0_MS + 100 * 299
    row = outputs[299][1] | {"alert_id": "of another rule", "rule": "y"}
    later = Output(
        (scheduled_ms + 50) * 1_000_000, 0, 0, 300, scheduled_ms + 50, msgspec.json.encode(row)
    )
    result = analyse(POINT, raw([*outputs, (later, row)], EVERY_10_MS), Gates()).result
    assert result.duplicates == 0
    assert result.from_schedule is not None
    assert (result.from_schedule.count, result.from_schedule.max) == (201, 50)


def timed(deadline_ms: int, delay_ms: int, **row: Any) -> tuple[Output, dict[str, Any]]:
    """Return an output that time triggers."""
    seen_ms = deadline_ms + delay_ms
    return Output(seen_ms * 1_000_000, 0, 0, deadline_ms, seen_ms, b""), row


def test_the_deadline_decides_whether_a_window_is_measured_not_when_it_is_seen() -> None:
    options = ("--output-mode=append", "--watermark=5 seconds")
    settings = msgspec.structs.replace(
        POINT.settings, jobs=("rack_temperature",), options=options, trigger="micro-batch"
    )
    # Measured are the deadlines from 10 to 30 s; the slowest window is seen after them.
    due_s = {9.999: 2000, 10: 1, 29: 6000, 30: 1}
    windows = [
        timed(ms := T0_MS + int(1000 * at), delay, window_end=to_text(ms - 5000))
        for at, delay in due_s.items()
    ]
    data = raw([], EVERY_10_MS)
    data.sinks = [RACK_TEMPERATURE]
    data.outputs, data.rows = [o for o, _ in windows], [row for _, row in windows]
    found = analyse(Point("", 100.0, 0, settings), data, Gates()).result.window_delay
    assert found is not None
    assert (found.count, found.p50, found.max) == (2, 1, 6000)


def test_silences_are_measured_after_the_load_too() -> None:
    settings = msgspec.structs.replace(POINT.settings, jobs=("silent_sensor",))
    silences = [
        timed(
            T0_MS + 1000 * at, delay, rule="silent-sensor", state="WARNING",
            event_time=to_text(T0_MS + 1000 * at),
        )
        for at, delay in ((9, 2000), (11, 1), (99, 7))
    ]  # fmt: skip
    data = raw([], EVERY_10_MS)
    data.outputs, data.rows = [o for o, _ in silences], [row for _, row in silences]
    found = analyse(Point("", 100.0, 0, settings), data, Gates()).result.window_delay
    assert found is not None
    assert (found.count, found.p50, found.max) == (2, 1, 7)


def test_a_producer_behind_schedule_makes_the_point_invalid() -> None:
    outputs = [output(i, T0_MS + 100 * i, 700) for i in range(300)]
    result = analyse(
        POINT, raw(outputs, EVERY_10_MS, append_after_ms=600), Gates(schedule_lag_ms=500)
    ).result
    assert not result.valid
    assert result.reasons == ["producer fell behind schedule (p99 600 ms, limit 500 ms)"]


def test_a_catch_ups_throughput_is_given_with_and_without_its_first_batch() -> None:
    point = Point(
        "", 0.0, 0, PointSettings(jobs=("overheating",), trigger="micro-batch", count=3000)
    )
    data = raw([output(1, T0_MS, 10)], [-1] * 3000)
    ends = [(1000, 10_000), (3000, 4000)]  # records reached, ms
    data.batches = {
        "overheating": [
            {
                "runId": "a", "timestamp": "2026-11-21T06:26:00.000Z", "batchDuration": took,
                "numInputRows": reached - before, "sources": [{"endOffset": {"t": {"0": reached}}}],
                "stateOperators": STATE, "late_records": None,
            }
            for (reached, took), before in zip(ends, (0, 1000), strict=True)
        ]
    }  # fmt: skip
    result = analyse(point, data, Gates()).result
    assert result.valid, result.reasons
    assert result.throughput_per_s == pytest.approx(3000 / 14)
    assert result.warm_throughput_per_s == pytest.approx(500)
    assert result.batches is not None
    assert (result.batches.count, result.batches.p50_ms, result.batches.max_ms) == (2, 7000, 10_000)
    assert (result.batches.state_rows, result.batches.state_mib) == (42, 3)
    data.batches["overheating"].pop()  # type: ignore[attr-defined]
    assert "2,000 of 3,000 unread" in analyse(point, data, Gates()).result.reasons[0]


def test_after_a_kill_the_restarts_first_batch_is_cold_and_gives_the_recovery_time() -> None:
    killed = PointSettings(jobs=("overheating",), trigger="micro-batch", count=4000, kill_at=0.5)
    data = raw([output(1, T0_MS, 10)], [-1] * 4000)
    # Run id, the second at which the batch began, and its duration in ms.
    batches = [("a", 10, 10_000), ("a", 20, 2000), ("b", 40, 9000), ("b", 49, 4000)]
    data.batches = {
        "overheating": [
            {
                "runId": run, "timestamp": f"2026-11-21T06:26:{second}.000Z", "batchDuration": took,
                "numInputRows": 1000, "sources": [{"endOffset": {"t": {"0": 1000 * number}}}],
                "stateOperators": STATE, "late_records": None,
            }
            for number, (run, second, took) in enumerate(batches, start=1)
        ]
    }  # fmt: skip
    data.started_ms, data.restarted_ms = T0_MS + 4000, T0_MS + 30_000
    result = analyse(Point("", 0.0, 0, killed), data, Gates()).result
    assert result.valid, result.reasons
    assert (result.startup_s, result.recovery_s) == (16, 19)
    assert result.work_s is None  # the killed jobs did some of it
    assert result.throughput_per_s == pytest.approx(4000 / 25)
    assert result.warm_throughput_per_s == pytest.approx(2000 / 6)


def test_a_window_shows_the_readings_that_it_counts_more_than_before() -> None:
    rows = [("a", "12:00", 3), ("a", "12:05", 2), ("a", "12:00", 4), ("b", "12:00", 5)]
    windows = [
        (float(moment), "rack-temperature", {"scope": a, "window_start": b, "reading_count": n})
        for moment, (a, b, n) in enumerate(rows)
    ]
    assert throughput.records_shown(windows) == [(0, 3), (1, 2), (2, 1), (3, 5)]


def test_an_impression_without_a_click_shows_no_progress() -> None:
    rows = [(5.0, "ad-attribution", {"click_id": it}) for it in ("x", None)]
    assert throughput.records_shown([*rows, (9.0, "alerts", {})]) == [(5, 1), (5, 0), (9, 1)]


def test_throughput_counts_what_outputs_show_and_ends_with_the_last_that_shows_any() -> None:
    # From 1 s to 4 s a third is shown, and the rest until 5 s: a hundred a second, then 600.
    shown = [(4000.0, 301), (5000.0, 599), (9000.0, 0)]
    total, warm = throughput.from_outputs(900, 1000.0, shown)
    assert total == 900 / 4
    assert warm == pytest.approx(599)
    assert throughput.from_outputs(900, 1000.0, [(4000.0, 0)]) == (None, None)


def test_a_real_time_catch_ups_throughput_follows_from_its_output_times() -> None:
    point = Point("", 0.0, 0, PointSettings(jobs=("overheating",), count=3000))
    # The first 100 of 300 outputs take 2 s, the others 1 s.
    outputs = [output(i, T0_MS, 20 * i if i < 100 else 2000 + 5 * (i - 100)) for i in range(301)]
    result = analyse(point, raw(outputs, [-1] * 3000), Gates()).result
    assert result.valid, result.reasons
    assert result.throughput_per_s == pytest.approx(3000 / 4, rel=0.01)
    assert result.warm_throughput_per_s == pytest.approx(2000 / 1, rel=0.01)


def test_a_few_outputs_of_a_real_time_catch_up_without_a_truth_are_no_measurement() -> None:
    point = Point("", 0.0, 0, PointSettings(jobs=("overheating",), count=3000, truth=False))
    data = raw([output(i, T0_MS, 20 * i) for i in range(3)], [-1] * 3000)
    data.comparisons = {}
    result = analyse(point, data, Gates()).result
    assert result.throughput_per_s is not None
    assert [reason.partition(" (")[0] for reason in result.reasons] == [
        "nothing shows that all records were read"
    ]


def test_late_records_have_a_rate_only_under_load() -> None:
    live = PointSettings(jobs=("overheating",), trigger="micro-batch", warm_up=10, duration=20)
    data = raw([output(1, T0_MS + 15_000, 10)], [T0_MS, T0_MS + 15_000])
    data.batches = {
        "overheating": [
            {
                "runId": "a", "timestamp": "2026-11-21T06:26:15.000Z", "batchDuration": 1000,
                "numInputRows": 2, "sources": [{"endOffset": {"t": {"0": 2}}}],
                "stateOperators": STATE, "late_records": 40,
            }
        ]
    }  # fmt: skip
    assert analyse(Point("", 100.0, 0, live), data, Gates()).result.late_per_s == 2
    catch_up = msgspec.structs.replace(live, count=2)
    assert analyse(Point("", 0.0, 0, catch_up), data, Gates()).result.late_per_s is None


@pytest.mark.parametrize("trigger", ["real-time", "micro-batch"])
def test_a_catch_ups_cpu_is_that_of_its_work_without_the_wait_at_its_end(trigger: Trigger) -> None:
    point = Point("", 0.0, 0, PointSettings(jobs=("overheating",), trigger=trigger, count=3000))
    data = raw([output(1, T0_MS, 10), output(2, T0_MS, 3000)], [-1] * 3000)
    # Both batches end after the last output. Jobs that do not end wait during the second one.
    data.batches = {
        "overheating": [
            {
                "runId": "a", "timestamp": f"2026-11-21T06:26:{second:02}.000Z",
                "batchDuration": 1000, "numInputRows": 1500, "stateOperators": STATE,
                "sources": [{"endOffset": {"t": {"0": reached}}}], "late_records": None,
            }
            for second, reached in ((4, 1500), (8, 3000))
        ]
    }  # fmt: skip
    data.samples = [
        (T0_MS / 1000 + second, "jobs (JVM)", cpu, 900.0)
        for second, cpu in ((-2, 1.0), (1, 190.0), (2, 210.0), (8, 50.0), (9.5, 1.0), (60, 1.0))
    ]
    result = analyse(point, data, Gates()).result
    cpu_percent, work_s = (150, 10) if trigger == "micro-batch" else (200, 4)
    assert result.processes["jobs (JVM)"].cpu_percent == cpu_percent
    assert result.work_s == work_s
    assert cpu_us_per_record(result) == pytest.approx(cpu_percent / 100 * work_s * 1e6 / 3000)


def test_percentiles_of_one_to_a_thousand() -> None:
    found = percentiles(range(1, 1001))
    assert found is not None
    values = (found.count, found.p50, found.p95, found.p99, found.p999, found.max)
    assert values == (1000, 500, 950, 990, 999, 1000)
    assert percentiles([]) is None


def test_percentiles_are_exact_below_two_seconds_and_never_above_the_maximum() -> None:
    for latency_ms in (9, 15, 17, 60, 67, 1999):
        found = percentiles([latency_ms])
        assert found is not None
        assert (found.p50, found.p999, found.max) == (latency_ms, latency_ms, latency_ms)
    found = percentiles([5001])
    assert found is not None
    assert 4990 < found.p99 <= found.max == 5001


def test_latencies_are_clipped_to_zero_and_two_hours() -> None:
    found = percentiles([-3, 10_000_000])
    assert found is not None
    assert found.p50 == 0
    assert found.p99 == pytest.approx(7_200_000, rel=0.001)
    assert found.max == 10_000_000


def test_the_collectors_file_is_read_up_to_an_incomplete_record(tmp_path: Path) -> None:
    path, written = (
        tmp_path / "outputs.bin",
        [Output(5_400_000, 1, 2, 3, 4, b"{}"), Output(6, 0, 0, 1, 9, b"")],
    )
    with path.open("wb") as file:
        for each in written:
            file.write(collect.encoded(each))
    assert list(collect.read_outputs(path)) == written
    path.write_bytes(path.read_bytes() + collect.encoded(Output(7, 0, 0, 0, 0, b"abc"))[:-1])
    assert list(collect.read_outputs(path)) == written
    assert written[0].seen_ms == 5
    assert decode(written[:1]) == [{}]


def test_samples_of_an_interval_give_mean_cpu_and_highest_memory() -> None:
    rows = [
        (1.0, "a", 10.0, 5.0),
        (2.0, "a", 30.0, 4.0),
        (2.0, "b", 1.0, 1.0),
        (9.0, "a", 99.0, 99.0),
    ]
    assert mean_and_max(rows, 1.0, 3.0) == {"a": (20.0, 5.0), "b": (0.5, 1.0)}


def test_a_program_that_runs_for_a_part_of_the_interval_counts_as_idle_for_the_rest() -> None:
    rows = [(s, "jobs (JVM)", 40.0, 900.0) for s in range(60)]
    rows += [(s, "jobs (Python workers)", 90.0, 300.0) for s in range(15, 60)]
    found = mean_and_max(rows, 0.0, 60.0)
    assert {name: cpu for name, (cpu, _) in found.items()} == {
        "jobs (JVM)": 40.0,
        "jobs (Python workers)": 67.5,
    }


def test_the_jobs_memory_is_the_highest_of_all_their_processes_at_one_moment() -> None:
    rows = [
        (1.0, "jobs (JVM)", 0.0, 900.0),  # the workers' highest value comes later
        (1.0, "jobs (Python workers)", 0.0, 100.0),
        (2.0, "jobs (JVM)", 0.0, 500.0),
        (2.0, "jobs (Python workers)", 0.0, 400.0),
        (2.0, "broker", 0.0, 700.0),
        (9.0, "jobs (JVM)", 0.0, 9999.0),
    ]
    assert max_jobs_mib(rows, 1.0, 3.0) == 1000
    assert max_jobs_mib(rows[4:5], 1.0, 3.0) is None


def test_topic_sizes_are_sampled_without_fetching_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {("in", 0): 3, ("in", 1): 4, ("out", 0): 2}
    assigned: list[TopicPartition] = []

    class Broker:
        """A consumer fetches what it is assigned, also when nobody polls it."""

        def __init__(self, _: object) -> None: ...

        def list_topics(self, timeout: float) -> object:
            """Return the partitions of all topics."""
            topics = {
                name: SimpleNamespace(partitions=[part for topic, part in sizes if topic == name])
                for name in ("in", "out", "of another run")
            }
            return SimpleNamespace(topics=topics, timeout=timeout)

        def assign(self, parts: list[TopicPartition]) -> None:
            assigned.extend(parts)

        def assignment(self) -> list[TopicPartition]:
            return assigned

        def get_watermark_offsets(self, part: TopicPartition, timeout: float) -> tuple[int, int]:
            assert timeout
            return 0, sizes[part.topic, part.partition]

        def close(self) -> None: ...

    monkeypatch.setattr(collect, "Consumer", Broker)
    monkeypatch.setattr(sampler, "INTERVAL_S", 0.01)
    with Sampler({}, "", ["in"], ["out"]) as sampling:
        eventually(lambda: sampling.topic_sizes)
    assert (sampling.ends, sampling.output_count) == ({"in": 7}, 2)
    assert assigned == []


@pytest.mark.skipif(
    not Path("/proc/self/exe").exists(),
    reason="only Linux distinguishes a process's program and name",
)
def test_a_forked_copy_of_a_jvm_does_not_count_its_memory_twice(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep
    shutil.copy(sleep, tmp_path / "java")
    (tmp_path / "a-thread").symlink_to(tmp_path / "java")  # Java's program under another name
    names = (f"{tmp_path}/java", f"{tmp_path}/a-thread")
    script = (
        f"import subprocess as s; p = [s.Popen([n, '30']) for n in {names}]; "
        "print(flush=True); input(); [each.kill() for each in p]"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=PIPE, stdout=PIPE, text=True
    ) as program:
        assert program.stdout
        program.stdout.readline()
        found = process_tree_usage("jobs", program.pid, {})
        program.communicate("\n")
    assert [which for which, _, _ in found] == ["jobs", "jobs (JVM)", "jobs (JVM)"]
    own, jvm, copy = (size for _, _, size in found)
    assert own > 0
    assert jvm > 0
    assert copy == 0


def test_disk_and_memory_grow_with_the_records() -> None:
    small, large = (
        estimate(
            [Point("", rate, 0, PointSettings(jobs=("overheating",), warm_up=0, duration=100))]
        )
        for rate in (1000.0, 11_000.0)
    )
    assert large.disk - small.disk > 1_000_000 * 300
    assert large.memory > small.memory


def test_records_need_memory_only_for_the_truth() -> None:
    kept, not_kept = (
        estimate(
            [Point("", 0.0, 0, PointSettings(jobs=("overheating",), count=10**6, truth=truth))]
        ).memory
        for truth in (True, False)
    )
    assert kept - not_kept == 160 * 10**6


def test_a_catch_up_with_results_by_key_needs_disk_only_for_its_inputs() -> None:
    by_job = {
        job: estimate(
            [Point("", 0.0, 0, PointSettings(jobs=(job,), trigger="micro-batch", count=10**6))]
        ).disk
        for job in ("rack_temperature", "ad_attribution")
    }
    assert by_job["ad_attribution"] - by_job["rack_temperature"] == 900 * 10**6


def test_alerts_need_less_disk_than_an_output_for_each_reading() -> None:
    by_job = {
        job: estimate([Point("", 1000.0, 0, PointSettings(jobs=(job,), warm_up=0, duration=1000))])
        for job in ("overheating", "rack_temperature")
    }
    assert by_job["overheating"].disk == 2 * 10**9 + 1_000_000 * (320 + 90)
    assert by_job["rack_temperature"].disk == 2 * 10**9 + 1_000_000 * (320 + 900)


def test_the_disk_holds_the_records_of_the_three_largest_points() -> None:
    rates = (1000.0, 4000.0, 2000.0, 5000.0, 3000.0)
    settings = PointSettings(jobs=("overheating",), warm_up=0, duration=1000)
    needed = estimate([Point("", rate, 0, settings) for rate in rates])
    assert needed.disk == 2 * 10**9 + 12_000_000 * (320 + 90)


def test_a_shortage_of_disk_or_memory_is_a_sentence() -> None:
    wanted = Resources(disk=5_000_000_000, memory=4_000_000_000)
    assert shortage(wanted, 5_000_000_000, 4_000_000_000) is None
    assert str(shortage(wanted, 4_900_000_000, 9_000_000_000)).startswith(
        "this plan may need 5.0 GB of disk, 4.9 GB are free:"
    )
    assert str(shortage(wanted, 9_000_000_000, 1_000_000_000)).startswith(
        "this plan may need 4.0 GB of memory, 1.0 GB are free:"
    )


def test_the_machine_is_described() -> None:
    about = describe()
    assert {"processors", "memory", "java", "python", "pyspark", "clock"} <= set(about)
    assert all(about.values())
