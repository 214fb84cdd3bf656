"""One run: the plan drawn ahead, sent on schedule, acknowledged, summed up, its truth written."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from events.inventory import write_inventory
from events.records import RackReading, encode
from events.settings import Settings
from events.times import now_ms, to_text
from events.topics import RACK_READINGS
from producer.ahead import ahead
from producer.pacing import Slip, send_on_schedule
from producer.plan import Batch, Mark, Plan
from producer.progress import Progress
from producer.publish import Publisher
from producer.scenario import Scenario
from producer.schedule import Schedule, make_schedule
from producer.truth import Acknowledged, write_truth
from producer.world import make_world

LEAD_MS = 200
"""How long before its first record a paced run sets its start, in ms: the first batch is drawn meanwhile."""
PACED_LINGER_MS = 5.0
"""How long a record waits for others of its batch when the rate is held: below what anyone sees."""
FAST_LINGER_MS = 50.0
"""The same at the highest rate, where batches fill before that."""
FLUSH_SUBJECT = "flush"
"""The rack of the record that only moves watermarks: in no inventory, and cold."""


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
) -> Outcome:
    """Run a scenario: publish its records to the broker of the settings until its end or a signal."""
    acknowledged = Acknowledged() if truth else None
    if linger_ms is None:
        linger_ms = FAST_LINGER_MS if scenario.rate == "max" else PACED_LINGER_MS
    publisher = Publisher(
        settings.kafka_bootstrap_servers,
        settings.topic(RACK_READINGS),
        linger_ms,
        acknowledged.add if acknowledged is not None else None,
    )
    publisher.check()
    world = make_world(scenario.seed, scenario.racks, scenario.sites)

    def schedule_from_now() -> Schedule:
        return make_schedule(
            rate=None if scenario.rate == "max" else scenario.rate,
            racks=scenario.racks,
            now_ms=now_ms(),
            lead_ms=LEAD_MS,
            duration_s=scenario.duration,
            count=scenario.count,
            start_event_ms=start_event_ms,
            time_scale=scenario.time_scale,
        )

    schedule = schedule_from_now()
    if inventory:
        write_inventory(inventory, world.inventory(schedule.readings_per_event_second / scenario.racks))
    # The first batch takes half a second, Arrow's kernels being loaded: draw one before the start is set.
    rehearsal = Plan(world, schedule, scenario.faults, first_sequence=1)
    next(rehearsal.batches(), None)
    schedule = schedule_from_now()
    plan = rehearsal.starting(schedule, schedule.start_wall_ms if first_sequence is None else first_sequence)
    with _signals() as stop, Progress() as progress:
        counts, seconds, slip = _publish(plan, publisher, progress, stop, scenario.duration)
        last = _send_flush(plan, publisher, stop) if flush else None
    summary = {
        "sent": publisher.sent,
        "acknowledged": publisher.acknowledged,
        "failed": publisher.failed,
        "seconds": round(seconds, 3),
        "records_per_second": round(publisher.acknowledged / seconds, 1) if seconds else 0.0,
        "max_slip_ms": round(slip.most_s * 1000, 1) if schedule.paced else None,
        **counts,
        "seed": scenario.seed,
        "run_id": plan.run_id,
        "start_time": to_text(schedule.start_event_ms),
    }
    if truth and acknowledged is not None:
        write_truth(truth, plan, acknowledged, RACK_READINGS.name, summary, last)
    return Outcome(summary, publisher.last_error, stop.signals[0] if stop.signals else None)


def _publish(
    plan: Plan, publisher: Publisher, progress: Progress, stop: Stop, duration_s: float | None
) -> tuple[dict[str, int], float, Slip]:
    """Send the plan; return counts of what was sent, seconds from first send to last answer, and the slip."""
    counts: Counter[str] = Counter({_name(mark): 0 for mark in Mark})
    paced = plan.schedule.paced
    with_marks = publisher.wants_reports
    start_s = time.monotonic() + (plan.schedule.start_wall_ms / 1000 - time.time() if paced else 0)
    began_s: float | None = None

    def send(batch: Batch, position: int, end: int) -> None:
        nonlocal began_s
        if began_s is None:
            began_s = time.monotonic()
        marks = batch.marks[position:end]
        sent = publisher.send(
            batch.keys[position:end],
            batch.values[position:end],
            batch.numbers[position:end].tolist() if with_marks else (),
            marks.tolist() if with_marks else (),
            stopped=stop.asked,
        )
        if sent and marks.any():
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
        ahead(plan.batches()),
        plan.schedule,
        send,
        since_start=lambda: time.monotonic() - start_s,
        sleep=time.sleep,
        idle=idle,
    )
    publisher.flush(show, stop.asked_twice)
    return dict(counts), time.monotonic() - began_s if began_s is not None else 0.0, slip


def _send_flush(plan: Plan, publisher: Publisher, stop: Stop) -> RackReading:
    """Send one reading with the time of now, which is later than all before it, and return it."""
    record = RackReading(
        event_id=f"{plan.run_id}-flush",
        event_time=to_text(now_ms()),
        rack_id=FLUSH_SUBJECT,
        sequence=plan.first_sequence,
        site_id=FLUSH_SUBJECT,
        device_type=FLUSH_SUBJECT,
        temperature_c=20.0,
        signal_strength=1.0,
    )
    publisher.send_uncounted(FLUSH_SUBJECT.encode(), encode(record))
    publisher.flush(lambda: None, stop.asked_twice)
    return record


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
