"""Run the producer: draw the plan, send it on schedule, summarize it, and write its truth."""

import gc
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from events.cli import UserFacingError, collected_signals
from events.constants import LOST_SIGNAL_WATERMARK
from events.inventory import write_inventory
from events.metrics import StatusCollector, serve_metrics
from events.records import encode
from events.rules import Rules, read_rules
from events.settings import Settings
from events.status_file import Process, StatusWriter, own_file, remove_superseded
from events.times import now_ms, to_text
from events.topics import Topic
from producer.expected.rack_alerts import DEFAULT_RULES, AlertSelection
from producer.expected.topic_contents import PublishedStream
from producer.expected.truth import KINDS, check_writable, write_truth
from producer.ledger import Ledger
from producer.metrics import STATUS_METRICS
from producer.pacing.pacer import ScheduleLag, send_on_schedule
from producer.pacing.prefetch import prefetch
from producer.pacing.schedule import Schedule, make_schedule
from producer.progress import Progress
from producer.publish import OnAcknowledged, Publisher
from producer.scenario import Scenario
from producer.status import PROGRAM, ProducerStatus, StatusRecorder
from producer.streams.stream_plan import Batch, FaultFlag
from producer.streams.stream_set import StreamSet, clock_rate, plan_types

START_DELAY_MS = 200
"""How long after now a paced run starts, in ms; the first batch is drawn meanwhile."""
PACED_LINGER_MS = 5.0
"""How long a record waits for others of its batch in a paced run: too short to notice."""
MAX_RATE_LINGER_MS = 50.0
"""The same at the highest rate, where batches are full earlier."""


@dataclass(slots=True)
class Outcome:
    """How a run ended: its summary, the last delivery error, and the signal that stopped it."""

    summary: dict[str, Any]
    last_error: str
    signal: int | None


@dataclass(slots=True)
class Stop:
    """The signals that have asked the run to end."""

    signals: list[int]

    def is_requested(self) -> bool:
        """Return whether to send nothing more."""
        return bool(self.signals)

    def is_forced(self) -> bool:
        """Return whether not even to wait for what was sent."""
        return len(self.signals) > 1


def run(
    settings: Settings,
    scenario: Scenario,
    *,
    start_event_ms: int | None = None,
    first_sequence: int | None = None,
    linger_ms: float | None = None,
    flush: bool = False,
    inventory: Path | None = None,
    truth: Path | None = None,
    truth_kinds: Collection[str] = KINDS,
    ledger: Path | None = None,
    alerts_of: tuple[str, ...] = DEFAULT_RULES,
    rules: Path | None = None,
    lost_signal_watermark_s: float = LOST_SIGNAL_WATERMARK.total_seconds(),
) -> Outcome:
    """Publish a scenario's records to the broker of the settings, until its end or a signal."""
    if truth:
        check_writable(truth)
    if linger_ms is None:
        linger_ms = MAX_RATE_LINGER_MS if scenario.rate == "max" else PACED_LINGER_MS
    publisher = Publisher(
        settings.kafka_bootstrap_servers,
        linger_ms,
        delivery_reports=truth is not None or ledger is not None,
    )
    kinds = plan_types(scenario.streams)
    for kind in kinds:
        publisher.check_topic(settings.topic(kind.topic))
    if inventory and "racks" not in scenario.streams:
        raise UserFacingError(
            "--inventory needs racks, but this run has none: add racks to --streams."
        )
    world = scenario.make_world()

    def schedule_from_now() -> Schedule:
        return make_schedule(
            rate=scenario.paced_rate,
            clock_rate=clock_rate(scenario.streams, scenario.racks),
            now_ms=now_ms(),
            lead_ms=START_DELAY_MS,
            duration_s=scenario.duration,
            count=scenario.count,
            start_event_ms=start_event_ms,
            time_scale=scenario.time_scale,
            flush_delay_s=max(kind.flush_delay_s for kind in kinds) if flush else 0.0,
            shape=scenario.shape,
        )

    streams = StreamSet(scenario.streams, world, schedule_from_now(), scenario.faults)
    for plan in streams.plans:
        plan.check_delays()
    selection = AlertSelection(
        alerts_of,
        read_rules(rules, list(scenario.inventory(world))) if rules else Rules(),
        round(1000 * lost_signal_watermark_s),
    )
    if inventory:
        write_inventory(inventory, scenario.inventory(world))
    # The first batch takes half a second, as Arrow loads its kernels: draw one before the start.
    next(streams.rounds(), None)
    # Exclude all objects so far from garbage collection while sending (docs/tuning.md).
    gc.collect()
    gc.freeze()
    recorder = _new_recorder(settings, publisher)
    status_file = own_file(settings.rackstream_home, PROGRAM)
    with (
        serve_metrics(settings.metrics_port, [StatusCollector(recorder.snapshot, STATUS_METRICS)]),
        collected_signals() as signals,
        Progress() as progress,
        StatusWriter(status_file, recorder.snapshot, progress.update),
    ):
        stop = Stop(signals)
        schedule = schedule_from_now()
        first = schedule.start_wall_ms if first_sequence is None else first_sequence
        streams.restart(schedule, first)
        published = [PublishedStream(plan) for plan in streams.plans]
        run_ledger = Ledger(ledger, scenario, schedule, streams, first) if ledger else None
        adders = _adders(published, run_ledger, with_truth=truth is not None)
        counts, seconds, lag = _publish(
            streams,
            adders,
            settings,
            publisher,
            progress,
            recorder,
            stop,
            scenario.duration,
            run_ledger,
        )
        if flush:
            _send_flush(published, settings, publisher, stop)
    summary = {
        "sent": publisher.sent,
        "acknowledged": publisher.acknowledged,
        "failed": publisher.failed,
        "seconds": round(seconds, 3),
        "records_per_second": round(publisher.acknowledged / seconds, 1) if seconds else 0.0,
        "max_schedule_lag_ms": round(lag.max_s * 1000, 1) if schedule.paced else None,
        **counts,
        "seed": scenario.seed,
        "run_id": streams.run_id,
        "start_time": to_text(schedule.start_event_ms),
    }
    if run_ledger:
        run_ledger.end(summary, published)
    if truth:
        write_truth(truth, published, summary, selection, truth_kinds)
    return Outcome(summary, publisher.last_error, stop.signals[0] if stop.signals else None)


def _new_recorder(settings: Settings, publisher: Publisher) -> StatusRecorder:
    """Return a new status, and remove the one that a killed producer has left."""

    def is_same(other: ProducerStatus) -> bool:
        return other.topic_prefix == settings.topic_prefix

    remove_superseded(settings.rackstream_home, PROGRAM, ProducerStatus, is_same)
    process = Process(PROGRAM, settings.topic_prefix, to_text(now_ms()))
    return StatusRecorder(process, settings.kafka_bootstrap_servers, publisher)


def _adders(
    published: Sequence[PublishedStream], ledger: Ledger | None, *, with_truth: bool
) -> dict[Topic, OnAcknowledged]:
    """Return for each topic what takes note of an acknowledged record; empty if nothing does.

    The truth needs all of them in memory, and a ledger does not.
    """
    if ledger:
        return {stream.plan.topic: ledger.adder(stream.plan.topic) for stream in published}
    return {stream.plan.topic: stream.acknowledged.add for stream in published if with_truth}


def _publish(
    streams: StreamSet,
    adders: Mapping[Topic, OnAcknowledged],
    settings: Settings,
    publisher: Publisher,
    progress: Progress,
    recorder: StatusRecorder,
    stop: Stop,
    duration_s: float | None,
    ledger: Ledger | None,
) -> tuple[dict[str, int], float, ScheduleLag]:
    """Send the plans; return counts by fault, seconds from first send to last answer, and lag."""
    counts: Counter[str] = Counter({_summary_key(flag): 0 for flag in FaultFlag})
    paced = streams.schedule.paced
    with_reports = publisher.delivery_reports
    start_s = time.monotonic() + (
        streams.schedule.start_wall_ms / 1000 - time.time() if paced else 0
    )
    first_send_s: float | None = None

    def send(batch: Batch, position: int, end: int) -> None:
        nonlocal first_send_s
        if first_send_s is None:
            first_send_s = time.monotonic()
        flags = batch.flags[position:end]
        accepted = publisher.send(
            settings.topic(batch.topic),
            batch.keys[position:end],
            batch.values[position:end],
            batch.numbers[position:end].tolist() if with_reports else (),
            flags.tolist() if with_reports else (),
            on_acknowledged=adders.get(batch.topic),
            stopped=stop.is_requested,
        )
        if accepted and flags.any():
            for flag in FaultFlag:
                counts[_summary_key(flag)] += int(np.count_nonzero(flags & flag))

    def show(lag_s: float | None = None) -> None:
        progress.show(
            publisher.sent, publisher.waiting, publisher.failed, lag_s, publisher.last_error
        )

    def idle(lag: ScheduleLag) -> bool:
        publisher.poll()
        if ledger:
            ledger.write_sometimes()
        show(lag.now_s if paced else None)
        if paced:
            recorder.on_lag(lag.now_s)
        timed_out = (
            not paced and duration_s is not None and time.monotonic() - start_s >= duration_s
        )
        return not (timed_out or stop.is_requested())

    lag = send_on_schedule(
        prefetch(streams.rounds()),
        send,
        paced=paced,
        since_start=lambda: time.monotonic() - start_s,
        sleep=time.sleep,
        idle=idle,
    )
    recorder.on_schedule_end()
    publisher.flush(show, stop.is_forced)
    return dict(counts), time.monotonic() - first_send_s if first_send_s is not None else 0.0, lag


def _send_flush(
    published: Sequence[PublishedStream], settings: Settings, publisher: Publisher, stop: Stop
) -> None:
    """Send one record to each topic with the current time, later than all records before it."""
    event_ms = now_ms()
    for stream in published:
        key, stream.flush = stream.plan.flush_record(event_ms)
        publisher.send_uncounted(
            settings.topic(stream.plan.topic),
            key.encode(),
            encode(stream.flush),
            partial(_note_flush, stream),
        )
    publisher.flush(lambda: None, stop.is_forced)


def _note_flush(stream: PublishedStream, partition: int, offset: int, append_ms: int) -> None:
    stream.flush_position, stream.flush_append_ms = (partition, offset), append_ms


def _summary_key(flag: FaultFlag) -> str:
    return {FaultFlag.COPY: "duplicates"}.get(flag, str(flag.name).lower())
