"""What does a point's raw material say? From what came out, what was sent and what Spark reports to one result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from demo.comparison import Comparison
from events.topics import DEAD_LETTERS, Topic
from loadtest.measure import catching_up, deciding, lag, sampler, spark_batches
from loadtest.measure.closing import Closing
from loadtest.measure.collect import Output
from loadtest.measure.gates import Findings, gates
from loadtest.measure.inputs import NEVER, Inputs
from loadtest.measure.lag import Series
from loadtest.measure.latency import percentiles
from loadtest.measure.result import PointResult, Process
from loadtest.plan import Gates, Point

MIB = 2**20


@dataclass(slots=True)
class Raw:
    """All that a point left behind."""

    began: str
    started_ms: int
    """When the jobs said that they run; in a catch-up that ends by itself, when they were started."""
    sent: Mapping[str, Any]
    """The producer's summary."""
    sinks: Sequence[Topic]
    outputs: Sequence[Output]
    rows: Sequence[Mapping[str, Any]]
    """The outputs' values, decoded."""
    inputs: Inputs
    found: Mapping[deciding.Key, tuple[int, int]]
    compared: Mapping[str, Comparison]
    batches: Mapping[str, Sequence[Mapping[str, Any]]]
    """Spark's progress by query."""
    held: Series
    samples: Sequence[tuple[float, str, float, float]]
    checkpoint_bytes: int = 0
    flushes: int = 0
    restarted_ms: int | None = None
    """When they were started again after a kill."""


@dataclass(slots=True)
class Analysis:
    """The result, and the series that plots and raw files are made of."""

    result: PointResult
    latencies: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Topic, scheduled, append and seen time (epoch ms) of each output whose deciding record is known."""
    lag: Series = field(default_factory=list)


def analyse(point: Point, raw: Raw, bounds: Gates) -> Analysis:
    """Work out a point's result; a latency counts when its record was due while the load was measured."""
    settings = point.settings
    begin_ms, end_ms = measured(point, raw.inputs)
    closing = Closing(settings)
    latencies, again = latencies_of(raw, closing)
    counted = [row for row in latencies if begin_ms <= row[1] < end_ms]
    series, by = _lag(point, raw, latencies)
    during = lag.between(series, begin_ms / 1000, end_ms / 1000 + 1)
    seconds = (end_ms - begin_ms) / 1000
    batches = {name: raw.batches[name] for name in settings.jobs if name in raw.batches}
    warm = [b for rows in batches.values() for b in rows if begin_ms <= lag.end_ms(b) <= end_ms + 60_000]
    slip = [
        a - s
        for s, a in zip(raw.inputs.scheduled_ms, raw.inputs.append_ms, strict=True)
        if begin_ms <= s < end_ms
    ]
    slips, from_schedule = percentiles(slip), percentiles(seen - due for _, due, _, seen in counted)
    closed = [
        seen_ms - at
        for output, row in zip(raw.outputs, raw.rows, strict=True)
        if (at := closing.due_ms(raw.sinks[output.topic].name, row)) is not None
        and begin_ms <= (seen_ms := output.seen_ms) < end_ms
    ]
    whole, warm_per_s = _catch_up(point, raw, batches)
    first_s = catching_up.first_batches_s(batches, [raw.started_ms, raw.restarted_ms])
    seen = sum(begin_ms <= output.seen_ms < end_ms for output in raw.outputs)
    appended = np.asarray(raw.inputs.append_ms)
    result = PointResult(
        label=point.label,
        variant=point.variant,
        rate=point.rate,
        repeat=point.repeat,
        jobs=settings.jobs,
        trigger=settings.trigger,
        began=raw.began,
        gates=gates(
            _findings(point, raw, latencies, slips.p99 if slips else None, len(counted) or len(closed)),
            bounds,
            settings.trigger,
        ),
        measured_ms=(begin_ms, end_ms),
        from_schedule=from_schedule,
        from_append=percentiles(seen_ms - append for _, _, append, seen_ms in counted),
        past_window=percentiles(closed),
        racks=settings.racks,
        sent=int(raw.sent["sent"]),
        in_per_s=None
        if settings.count
        else ((appended >= begin_ms) & (appended < end_ms)).sum().item() / seconds,
        outputs=len(raw.outputs),
        out_per_s=None if settings.count else seen / seconds,
        again=again,
        lag_max=max((records for _, records in during), default=None),
        lag_slope=lag.slope(during),
        lag_by=by,
        late_per_s=spark_batches.late(warm, seconds),
        slip=slips,
        generator_slip_ms=raw.sent["max_slip_ms"],
        whole_per_s=whole,
        warm_per_s=warm_per_s,
        start_s=first_s[0] if settings.ends_itself else None,
        recovery_s=first_s[1],
        processes={
            name: Process(cpu_percent=round(cpu, 1), rss_mib=round(rss, 1))
            for name, (cpu, rss) in sampler.mean_and_most(raw.samples, begin_ms / 1000, end_ms / 1000).items()
        },
        batches=spark_batches.summed_up(warm),
        checkpoint_mib=round(raw.checkpoint_bytes / MIB, 1),
        folder=point.folder,
    )
    return Analysis(result, latencies, series)


def _catch_up(
    point: Point, raw: Raw, batches: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[float | None, float | None]:
    count = point.settings.count
    if not count:
        return None, None
    if point.settings.ends_itself:
        return catching_up.by_batches(batches)
    seen = [output.seen_ms for output in raw.outputs if raw.sinks[output.topic] != DEAD_LETTERS]
    return catching_up.by_outputs(count, raw.started_ms, seen)


def measured(point: Point, inputs: Inputs) -> tuple[float, float]:
    """Return from when to when the load was measured, in epoch ms; of a catch-up, everything."""
    due = [moment for moment in inputs.scheduled_ms if moment != NEVER]
    if point.settings.count or not due:
        return 0.0, float(2**62)
    begin = min(due) + point.settings.warm_up * 1000
    return begin, begin + point.settings.duration * 1000


def keys_of(closing: Closing, topic: str, row: Mapping[str, Any]) -> tuple[deciding.Key, ...]:
    """Return the keys of the records that decided an output: none of a window that time has closed."""
    return () if closing.closes(topic) else deciding.deciders(topic, row)


def latencies_of(raw: Raw, closing: Closing) -> tuple[list[tuple[str, int, int, int]], int]:
    """Return the moments of each output that can be told, and how many outputs came again (their first one counts)."""
    latencies, known, again = [], set(), 0
    for output, row in zip(raw.outputs, raw.rows, strict=True):
        topic = raw.sinks[output.topic].name
        keys = keys_of(closing, topic, row)
        if not keys:
            continue
        if keys in known:
            again += 1
            continue
        known.add(keys)
        moments = [raw.found[key] for key in keys if key in raw.found]
        if len(moments) == len(keys) and all(due != NEVER for due, _ in moments):
            due, append = max(due for due, _ in moments), max(append for _, append in moments)
            latencies.append((topic, due, append, output.seen_ms))
    return latencies, again


def _findings(
    point: Point,
    raw: Raw,
    latencies: Sequence[tuple[str, int, int, int]],
    slip_ms: float | None,
    counted: int,
) -> Findings:
    last = [rows[-1] for name in point.settings.jobs if (rows := raw.batches.get(name))]
    # A real-time batch is told when it is over, which the last one never is.
    told = point.settings.trigger != "real-time" and len(last) == len(point.settings.jobs)
    last_ms = max(raw.inputs.append_ms, default=0)
    measurable = not point.settings.count and (latencies or raw.found or counted)
    return Findings(
        sent=int(raw.sent["sent"]),
        acknowledged=int(raw.sent["acknowledged"]),
        held=raw.inputs.held,
        flushes=raw.flushes,
        unread=sum(lag.unread(batch, raw.inputs.by_topic) for batch in last) if told else None,
        missing=sum(len(c.missing) for c in raw.compared.values()) if raw.compared else None,
        wrong=sum(len(c.wrong) for c in raw.compared.values()) if raw.compared else None,
        expected=sum(c.expected for c in raw.compared.values()),
        slip_p99_ms=slip_ms,
        tail_s=max((output.seen_ms for output in raw.outputs), default=last_ms) / 1000 - last_ms / 1000
        if raw.outputs
        else None,
        latencies=counted if measurable else None,
    )


def _lag(point: Point, raw: Raw, latencies: Sequence[tuple[str, int, int, int]]) -> tuple[Series, str]:
    batches = [rows for name in point.settings.jobs if (rows := raw.batches.get(name))]
    if point.settings.trigger != "real-time" and batches and len(point.settings.jobs) == 1:
        return lag.batch_lag(batches[0], raw.held), "offsets at the ends of batches"
    seen = [(seen_ms / 1000, float(seen_ms - due)) for _, due, _, seen_ms in latencies]
    return lag.output_lag(seen, point.rate), "latency of outputs times rate"


def decode(outputs: Sequence[Output]) -> list[Mapping[str, Any]]:
    """Return the outputs' values as JSON objects."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    return [decoder.decode(output.value) for output in outputs]
