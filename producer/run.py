"""One run: the plan drawn ahead, sent on schedule, acknowledged, summed up, its truth written."""

import gc
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from events.cli import PersonError
from events.inventory import write_inventory
from events.records import encode
from events.rules import Rules, read_rules
from events.settings import Settings
from events.times import now_ms, to_text
from producer.ahead import ahead
from producer.held import Sent
from producer.pacing import Slip, send_on_schedule
from producer.progress import Progress
from producer.publish import Publisher
from producer.scenario import Scenario
from producer.schedule import Schedule, make_schedule
from producer.stream import Batch, Mark
from producer.streams import Streams, clock_rate, plan_types
from producer.truth import write_truth
from producer.truth_alerts import USUAL, Wanted
from producer.world import make_world

LEAD_MS = 200
"""How long before its first record a paced run sets its start, in ms: the first batch is drawn meanwhile."""
PACED_LINGER_MS = 5.0
"""How long a record waits for others of its batch when the rate is held: below what anyone sees."""
FAST_LINGER_MS = 50.0
"""The same at the highest rate, where batches fill before that."""


@dataclass(slots=True)
class Outcome:
    """How a run ended: its summary, the last delivery error, and the signal that stopped it, if one did."""

    summary: dict[str, Any]
    last_error: str
    signal: int | None


@dataclass(slots=True)
class Stop:
    """Whether, and by which signals, the run has been asked to end."""

    signals: list[int] = field(default_factory=list)

    def asked(self) -> bool:
        """Tell whether to send nothing more."""
        return bool(self.signals)

    def asked_twice(self) -> bool:
        """Tell whether not even to wait for what was sent."""
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
    alerts_of: tuple[str, ...] = USUAL,
    rules: Path | None = None,
) -> Outcome:
    """Run a scenario: publish its records to the broker of the settings until its end or a signal."""
    if linger_ms is None:
        linger_ms = FAST_LINGER_MS if scenario.rate == "max" else PACED_LINGER_MS
    publisher = Publisher(settings.kafka_bootstrap_servers, linger_ms, wants_reports=truth is not None)
    kinds = plan_types(scenario.streams)
    for kind in kinds:
        publisher.check(settings.topic(kind.topic))
    if inventory and "racks" not in scenario.streams:
        raise PersonError("--inventory lists racks, but this run has none: add racks to --streams.")
    world = make_world(scenario.seed, scenario.racks, scenario.sites)

    def schedule_from_now() -> Schedule:
        return make_schedule(
            rate=None if scenario.rate == "max" else scenario.rate,
            clock_rate=clock_rate(scenario.streams, scenario.racks),
            now_ms=now_ms(),
            lead_ms=LEAD_MS,
            duration_s=scenario.duration,
            count=scenario.count,
            start_event_ms=start_event_ms,
            time_scale=scenario.time_scale,
            settling_s=max(kind.settling_s for kind in kinds) if flush else 0.0,
            shape=scenario.shape,
        )

    streams = Streams(scenario.streams, world, schedule_from_now(), scenario.faults)
    racks = partial(world.inventory, streams.readings_per_second / scenario.racks)
    wanted = Wanted(alerts_of, read_rules(rules, list(racks())) if rules else Rules())
    if inventory:
        write_inventory(inventory, racks())
    # The first batch takes half a second, Arrow's kernels being loaded: draw one before the start is set.
    next(streams.rounds(), None)
    # Python would look through all that there is by now, again and again while it sends (docs/tuning.md).
    gc.collect()
    gc.freeze()
    schedule = schedule_from_now()
    streams.starting(schedule, schedule.start_wall_ms if first_sequence is None else first_sequence)
    sent = [Sent(plan) for plan in streams.plans]
    with _signals() as stop, Progress() as progress:
        counts, seconds, slip = _publish(
            streams, sent, settings, publisher, progress, stop, scenario.duration
        )
        if flush:
            _send_flush(sent, settings, publisher, stop)
    summary = {
        "sent": publisher.sent,
        "acknowledged": publisher.acknowledged,
        "failed": publisher.failed,
        "seconds": round(seconds, 3),
        "records_per_second": round(publisher.acknowledged / seconds, 1) if seconds else 0.0,
        "max_slip_ms": round(slip.most_s * 1000, 1) if schedule.paced else None,
        **counts,
        "seed": scenario.seed,
        "run_id": streams.run_id,
        "start_time": to_text(schedule.start_event_ms),
    }
    if truth:
        write_truth(truth, sent, summary, wanted)
    return Outcome(summary, publisher.last_error, stop.signals[0] if stop.signals else None)


def _publish(
    streams: Streams,
    sent: Sequence[Sent],
    settings: Settings,
    publisher: Publisher,
    progress: Progress,
    stop: Stop,
    duration_s: float | None,
) -> tuple[dict[str, int], float, Slip]:
    """Send the plans; return counts of what was sent, seconds from first send to last answer, and the slip."""
    counts: Counter[str] = Counter({_name(mark): 0 for mark in Mark})
    paced = streams.schedule.paced
    with_marks = publisher.wants_reports
    acknowledged = {part.plan.topic: part.acknowledged for part in sent}
    start_s = time.monotonic() + (streams.schedule.start_wall_ms / 1000 - time.time() if paced else 0)
    began_s: float | None = None

    def send(batch: Batch, position: int, end: int) -> None:
        nonlocal began_s
        if began_s is None:
            began_s = time.monotonic()
        marks = batch.marks[position:end]
        accepted = publisher.send(
            settings.topic(batch.topic),
            batch.keys[position:end],
            batch.values[position:end],
            batch.numbers[position:end].tolist() if with_marks else (),
            marks.tolist() if with_marks else (),
            on_acknowledged=acknowledged[batch.topic].add if with_marks else None,
            stopped=stop.asked,
        )
        if accepted and marks.any():
            for mark in Mark:
                counts[_name(mark)] += int(np.count_nonzero(marks & mark))

    def show(slip_s: float | None = None) -> None:
        progress.show(publisher.sent, publisher.waiting, publisher.failed, slip_s, publisher.last_error)

    def idle(slip: Slip) -> bool:
        publisher.poll()
        show(slip.now_s if paced else None)
        timed_out = not paced and duration_s is not None and time.monotonic() - start_s >= duration_s
        return not (timed_out or stop.asked())

    slip = send_on_schedule(
        ahead(streams.rounds()),
        send,
        paced=paced,
        since_start=lambda: time.monotonic() - start_s,
        sleep=time.sleep,
        idle=idle,
    )
    publisher.flush(show, stop.asked_twice)
    return dict(counts), time.monotonic() - began_s if began_s is not None else 0.0, slip


def _send_flush(sent: Sequence[Sent], settings: Settings, publisher: Publisher, stop: Stop) -> None:
    """Send one record to each topic with the time of now, which is later than all before it."""
    event_ms = now_ms()
    for part in sent:
        key, part.flush = part.plan.flush_record(event_ms)
        publisher.send_uncounted(
            settings.topic(part.plan.topic), key.encode(), encode(part.flush), partial(_note_flush, part)
        )
    publisher.flush(lambda: None, stop.asked_twice)


def _note_flush(part: Sent, append_ms: int) -> None:
    part.flush_append_ms = append_ms


@contextmanager
def _signals() -> Iterator[Stop]:
    """Collect SIGINT and SIGTERM while the run lasts, so that it ends in order."""
    stop = Stop()

    def note(number: int, _: FrameType | None) -> None:
        stop.signals.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _name(mark: Mark) -> str:
    return {Mark.COPY: "duplicates"}.get(mark, str(mark.name).lower())
