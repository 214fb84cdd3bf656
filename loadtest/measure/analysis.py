"""Analyse a point: from outputs, inputs and Spark's progress to one result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from demo.comparison import Comparison
from events.topics import ALERTS, DEAD_LETTERS, Topic
from loadtest.measure import lag, latency_attribution, sampler, spark_batches, throughput
from loadtest.measure.collect import Output
from loadtest.measure.correctness import is_result
from loadtest.measure.gates import Compared, Findings, gates
from loadtest.measure.inputs import NEVER, Inputs
from loadtest.measure.lag import Series
from loadtest.measure.latency import percentiles
from loadtest.measure.limits import violated_limits
from loadtest.measure.result import PointResult, Process
from loadtest.measure.window_deadlines import WindowDeadlines
from loadtest.plan import Gates, Point

MIB = 2**20
Latency = tuple[str, int, int, int]
"""Topic of an output; scheduled and append time of its triggering record, and when it was seen."""


@dataclass(slots=True)
class RawData:
    """Everything that a point's programs left behind."""

    began: str
    machine_speed: float | None
    started_ms: int
    """When the jobs were ready; in a catch-up in micro-batches, when they were started."""
    summary: Mapping[str, Any]
    """The producer's summary."""
    sinks: Sequence[Topic]
    outputs: Sequence[Output]
    rows: Sequence[Mapping[str, Any]]
    """The outputs' values, decoded."""
    inputs: Inputs
    trigger_times: Mapping[latency_attribution.Key, tuple[int, int]]
    comparisons: Mapping[str, Comparison]
    batches: Mapping[str, Sequence[Mapping[str, Any]]]
    """Spark's progress by query."""
    topic_sizes: Series
    samples: Sequence[tuple[float, str, float, float]]
    checkpoint_bytes: int = 0
    flushes: int = 0
    idle: bool = True
    """Whether the jobs wrote nothing more when the wait for their outputs ended."""
    restarted_ms: int | None = None
    """When a catch-up was restarted after a kill."""


@dataclass(slots=True)
class Analysis:
    """A point's result, and the series behind its plots and raw files."""

    result: PointResult
    latencies: list[Latency] = field(default_factory=list)
    """The latency of each output whose triggering record is known."""
    lag: Series = field(default_factory=list)


def analyse(point: Point, raw: RawData, limits: Gates) -> Analysis:
    """Return a point's result; only records scheduled during the measurement count."""
    settings = point.settings
    begin_ms, end_ms = measured_interval(point, raw.inputs)
    deadlines = WindowDeadlines(settings)
    latencies, duplicates = latencies_of(raw, deadlines)
    counted = [row for row in latencies if begin_ms <= row[1] < end_ms]
    series = _lag(point, raw, latencies)
    during = lag.between(series, begin_ms / 1000, end_ms / 1000 + 1)
    seconds = (end_ms - begin_ms) / 1000
    batches = {name: raw.batches[name] for name in settings.main_queries if name in raw.batches}
    warm = [
        b for rows in batches.values() for b in rows if begin_ms <= lag.end_ms(b) <= end_ms + 60_000
    ]
    schedule_lag = percentiles(
        append_ms - scheduled_ms
        for scheduled_ms, append_ms in zip(
            raw.inputs.scheduled_ms, raw.inputs.append_ms, strict=True
        )
        if begin_ms <= scheduled_ms < end_ms
    )
    delays = window_delays(raw, deadlines, begin_ms, end_ms)
    total_per_s, warm_per_s = _throughput(point, raw, batches)
    sampled_ms = _catch_up_interval(point, raw, batches) if settings.count else (begin_ms, end_ms)
    sampled_s = (sampled_ms[0] / 1000, sampled_ms[1] / 1000)
    jobs_mib = sampler.max_jobs_mib(raw.samples, *sampled_s)
    first_s = throughput.first_batch_seconds(batches, [raw.started_ms, raw.restarted_ms])
    seen = sum(begin_ms <= output.seen_ms < end_ms for output in raw.outputs)
    appended = np.asarray(raw.inputs.append_ms)
    findings = _findings(
        point,
        raw,
        latencies,
        schedule_lag.p99 if schedule_lag else None,
        len(counted) or len(delays),
    )
    result = PointResult(
        label=point.label,
        variant=point.variant,
        rate=point.rate,
        repeat=point.repeat,
        jobs=settings.jobs,
        trigger=settings.trigger,
        engine=settings.engine,
        began=raw.began,
        machine_speed=raw.machine_speed,
        gates=gates(findings, limits, settings.trigger),
        measured_ms=(begin_ms, end_ms),
        from_schedule=percentiles(seen_ms - due for _, due, _, seen_ms in counted),
        from_append=percentiles(seen_ms - append for _, _, append, seen_ms in counted),
        window_delay=percentiles(delays),
        racks=settings.racks,
        sent=int(raw.summary["sent"]),
        in_per_s=None
        if settings.count
        else ((appended >= begin_ms) & (appended < end_ms)).sum().item() / seconds,
        outputs=len(raw.outputs),
        out_per_s=None if settings.count else seen / seconds,
        duplicates=duplicates,
        lag_max=max((records for _, records in during), default=None),
        lag_slope=lag.slope(during),
        late_per_s=None if settings.count else spark_batches.late_records_per_s(warm, seconds),
        schedule_lag=schedule_lag,
        max_schedule_lag_ms=raw.summary["max_schedule_lag_ms"],
        throughput_per_s=total_per_s,
        warm_throughput_per_s=warm_per_s,
        startup_s=first_s[0] if settings.terminates else None,
        work_s=sampled_s[1] - sampled_s[0]
        if settings.count and raw.restarted_ms is None and raw.outputs
        else None,
        recovery_s=first_s[1],
        processes={
            name: Process(cpu_percent=round(cpu, 1), rss_mib=round(rss, 1))
            for name, (cpu, rss) in sampler.mean_and_max(raw.samples, *sampled_s).items()
        },
        jobs_mib=None if jobs_mib is None else round(jobs_mib, 1),
        batches=spark_batches.summarize(warm),
        checkpoint_mib=round(raw.checkpoint_bytes / MIB, 1),
        folder=point.folder,
    )
    violated = violated_limits(result, settings.limits)
    return Analysis(msgspec.structs.replace(result, violated_limits=violated), latencies, series)


def _throughput(
    point: Point, raw: RawData, batches: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[float | None, float | None]:
    count = point.settings.count
    if not count:
        return None, None
    if point.settings.terminates:
        return throughput.from_batches(batches)
    shown = throughput.records_shown(
        (output.seen_ms, raw.sinks[output.topic].name, row)
        for output, row in zip(raw.outputs, raw.rows, strict=True)
        if raw.sinks[output.topic] != DEAD_LETTERS
    )
    return throughput.from_outputs(count, raw.started_ms, shown)


def measured_interval(point: Point, inputs: Inputs) -> tuple[float, float]:
    """Return the measured interval of scheduled times in epoch ms; all time for a catch-up."""
    scheduled = [moment for moment in inputs.scheduled_ms if moment != NEVER]
    if point.settings.count or not scheduled:
        return 0.0, float(2**62)
    begin = min(scheduled) + point.settings.warm_up * 1000
    return begin, begin + point.settings.duration * 1000


def _catch_up_interval(
    point: Point, raw: RawData, batches: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[float, float]:
    """Return when the jobs began and ended their work, in epoch ms; afterwards they only wait."""
    ended_ms = [output.seen_ms for output in raw.outputs]
    if point.settings.terminates:  # a batch of jobs that do not end may last while they wait
        ended_ms += [lag.end_ms(batch) for rows in batches.values() for batch in rows]
    return raw.started_ms, max(ended_ms, default=2**62)


def latency_keys(
    deadlines: WindowDeadlines, topic: str, row: Mapping[str, Any]
) -> tuple[latency_attribution.Key, ...]:
    """Return the keys of the records that triggered an output; none if time triggered it."""
    if deadlines.emits_on_close(topic, row):
        return ()
    return latency_attribution.trigger_keys(topic, row)


def latencies_of(raw: RawData, deadlines: WindowDeadlines) -> tuple[list[Latency], int]:
    """Return the times of outputs with known triggers, and the number of repeated outputs.

    Of a repeated output the first one counts. Alerts are recognised by their ids, since several
    rules may alert on one reading; other outputs by the records that triggered them.
    """
    latencies, known, duplicates = [], set(), 0
    for output, row in zip(raw.outputs, raw.rows, strict=True):
        topic = raw.sinks[output.topic].name
        keys = latency_keys(deadlines, topic, row)
        if not keys:
            continue
        identity = row["alert_id"] if topic == ALERTS.name else keys
        if identity in known:
            duplicates += 1
            continue
        known.add(identity)
        times = [raw.trigger_times[key] for key in keys if key in raw.trigger_times]
        if len(times) == len(keys) and all(due != NEVER for due, _ in times):
            due, append = max(due for due, _ in times), max(append for _, append in times)
            latencies.append((topic, due, append, output.seen_ms))
    return latencies, duplicates


def window_delays(
    raw: RawData, deadlines: WindowDeadlines, begin_ms: float, end_ms: float
) -> list[int]:
    """Return by how many ms each measured time-triggered output followed its deadline.

    The deadline decides whether an output is measured: the slowest are seen after the interval.
    Silences also count after the load has ended: then all racks fall silent.
    """
    delays = []
    for output, row in zip(raw.outputs, raw.rows, strict=True):
        topic = raw.sinks[output.topic]
        deadline_ms = deadlines.deadline_ms(topic.name, row)
        if deadline_ms is None or deadline_ms < begin_ms:
            continue
        if deadline_ms < end_ms or topic == ALERTS:
            delays.append(output.seen_ms - deadline_ms)
    return delays


def _findings(
    point: Point,
    raw: RawData,
    latencies: Sequence[Latency],
    schedule_lag_ms: float | None,
    counted: int,
) -> Findings:
    queries = point.settings.main_queries
    last = [rows[-1] for name in queries if (rows := raw.batches.get(name))]
    # Spark reports a real-time batch when it ends, which the last one never does.
    reported = point.settings.trigger != "real-time" and len(last) == len(queries)
    last_ms = max(raw.inputs.append_ms, default=0)
    measurable = not point.settings.count and (latencies or raw.trigger_times or counted)
    return Findings(
        sent=int(raw.summary["sent"]),
        acknowledged=int(raw.summary["acknowledged"]),
        stored=raw.inputs.stored,
        flushes=raw.flushes,
        unread=sum(lag.unread(batch, raw.inputs.by_topic) for batch in last) if reported else None,
        catch_up=bool(point.settings.count),
        idle=raw.idle,
        compared=tuple(
            Compared(
                name, c.expected, len(c.missing), len(c.wrong), is_result(point.settings, name)
            )
            for name, c in raw.comparisons.items()
        ),
        schedule_lag_p99_ms=schedule_lag_ms,
        tail_s=(max(output.seen_ms for output in raw.outputs) - last_ms) / 1000
        if raw.outputs
        else None,
        latencies=counted if measurable else None,
    )


def _lag(point: Point, raw: RawData, latencies: Sequence[Latency]) -> Series:
    batches = [rows for name in point.settings.main_queries if (rows := raw.batches.get(name))]
    if point.settings.trigger != "real-time" and batches and len(point.settings.main_queries) == 1:
        return lag.batch_lag(batches[0], raw.topic_sizes)
    seen = [(seen_ms / 1000, float(seen_ms - due)) for _, due, _, seen_ms in latencies]
    return lag.output_lag(seen, point.rate)


def decode(outputs: Sequence[Output]) -> list[Mapping[str, Any]]:
    """Return the outputs' values as JSON objects."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    return [decoder.decode(output.value) for output in outputs]
