"""What does a load plan say? Jobs, load, variants and bounds, checked; and the points that follow of it.

A point is one run at one rate of one variant. Variants run in alternating order, so that what the machine does
meanwhile does not fall on one of them.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from events.cli import PersonError
from events.yaml_files import line_of, read_yaml
from producer.faults import AnyFault, check_together
from producer.shape import AnyShape
from producer.streams import TOPICS, Stream
from producer.world import MAX_RACKS
from spark_jobs.registry import JOBS

Trigger = Literal["real-time", "micro-batch"]
Engine = Literal["spark", "kafka-streams", "flink", "quix", "bytewax"]
"""What decides: this project's jobs, or one of the peers in `loadtest/peers`."""
Sender = Literal["producer", "producer-performance"]
"""What sends: this project's producer, or the one that Kafka measures itself with."""
Rate = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
PLANS = Path(__file__).parent / "plans"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,40}$"
"""What is part of folders' names."""
INTERVALS = ("--window", "--slide", "--watermark", "--gap")
INTERVAL = re.compile(r"^\d+ (millisecond|second|minute|hour|day)s?$")


_SENT = {kind.topic for kinds in TOPICS.values() for kind in kinds}
RULES = {job.name: job.rule().name for job in JOBS.values() if job.rule and job.source in _SENT}
"""Which rule's alerts a job writes, of those that follow from what the producer sends."""


class Gates(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What a point must hold to count as measured."""

    slip_ms: Annotated[float, Meta(gt=0)] = 250.0
    """99 of 100 records must be in the topic so soon after their scheduled time."""
    tail_s: Annotated[float, Meta(gt=0)] | None = None
    """The last output comes so soon after the last record; by default 10 s in Real-time Mode, 90 s in micro-batches."""
    outputs: Annotated[int, Meta(ge=0)] = 100
    """So few latencies are no distribution."""


class Bounds(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What `capacity` looks for: the highest rate from `low` to `high` that stays within all of these."""

    low: Rate
    high: Rate
    p99_ms: Annotated[float, Meta(gt=0)]
    precision: Annotated[float, Meta(ge=0.01, le=1)] = 0.1
    """The search ends when the rates that did and did not hold are nearer to each other than this share."""
    slope: Annotated[float, Meta(gt=0)] = 0.01
    """The lag may grow by this share of the load."""
    late_per_s: Annotated[float, Meta(ge=0)] = 100.0
    """So many records a second may be dropped as late."""


class Settings(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What a point runs, and what a variant may change of it."""

    jobs: tuple[str, ...]
    """None of them: only the sending of `count` records is measured."""
    engine: Engine = "spark"
    sender: Sender = "producer"
    senders: Annotated[int, Meta(ge=1, le=8)] = 1
    """Processes that send side by side, where there are no jobs."""
    trigger: Trigger = "real-time"
    rate: Rate | Annotated[tuple[Rate, ...], Meta(min_length=1)] = 1000.0
    """Events a second, all streams together; several are a point each. With a shape, the mean."""
    shape: AnyShape | None = None
    count: Count | None = None
    """Catch-up: so many events are there before the jobs start; there is no rate then."""
    kill_at: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """Of a catch-up in micro-batches: when this share is read, the jobs die as by a power cut, and start again."""
    warm_up: Seconds = 20.0
    """Seconds of load that are not measured."""
    duration: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds of load that are measured."""
    partitions: Annotated[int, Meta(ge=4, le=64)] = 4
    """Of each input topic."""
    state_partitions: Annotated[int, Meta(ge=1, le=1000)] = 4
    racks: Annotated[int, Meta(ge=1, le=MAX_RACKS)] = 400
    seed: int = 1
    time_scale: Annotated[float, Meta(gt=0)] = 1.0
    flush: bool = False
    """End with records that close windows and joins."""
    faults: tuple[AnyFault, ...] = ()
    options: tuple[str, ...] = ()
    """More of `python -m spark_jobs run`, such as `--window=10 seconds`."""
    conf: dict[str, str] = {}
    """Spark's settings."""
    truth: bool = True
    """Compare what came out with what had to. It costs the producer more, and minutes for millions of records."""

    @property
    def ends_itself(self) -> bool:
        """Whether the jobs end when they have read all there is: a catch-up in micro-batches."""
        return bool(self.count) and self.trigger == "micro-batch"

    def count_of(self, sender: int) -> int:
        """Return how many of the records a sender sends, of those numbered from 0."""
        return ((self.count or 0) + self.senders - 1 - sender) // self.senders

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The producer's streams that the jobs read; where there are none, readings."""
        if not self.jobs:
            return ("racks",)
        read = {topic for name in self.jobs for topic in (JOBS[name].source, *JOBS[name].more_sources)}
        return tuple(stream for stream, kinds in TOPICS.items() if any(kind.topic in read for kind in kinds))

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of the jobs' alerts, as far as readings say what must come of them."""
        return tuple(RULES[name] for name in self.jobs if name in RULES)

    @property
    def rates(self) -> tuple[float, ...]:
        """The rates, one after the other."""
        return self.rate if isinstance(self.rate, tuple) else (self.rate,)


class Variant(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What one of several compared set-ups has of its own; what is not given is the plan's."""

    name: Annotated[str, Meta(pattern=NAME)]
    jobs: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    engine: Engine | None = None
    sender: Sender | None = None
    senders: Annotated[int, Meta(ge=1, le=8)] | None = None
    trigger: Trigger | None = None
    count: Count | None = None
    shape: AnyShape | None = None
    partitions: Annotated[int, Meta(ge=4, le=64)] | None = None
    state_partitions: Annotated[int, Meta(ge=1, le=1000)] | None = None
    racks: Annotated[int, Meta(ge=1, le=MAX_RACKS)] | None = None
    faults: tuple[AnyFault, ...] | None = None
    options: tuple[str, ...] | None = None
    conf: dict[str, str] | None = None


class Plan(Settings, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A whole plan: what a point runs, how often, in which variants, and what counts."""

    description: str = ""
    repeats: Count = 1
    variants: tuple[Variant, ...] = ()
    gates: Gates = Gates()
    capacity: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One run: a variant (empty where the plan has none) at a rate (0: catch-up), and which repeat it is, from 0."""

    variant: str
    rate: float
    repeat: int
    settings: Settings

    @property
    def label(self) -> str:
        """What the point is called in reports, the repeat aside: `real-time 2,000/s`."""
        load = f"{self.rate:,.0f}/s" if self.rate else f"{self.settings.count or 0:,} at once"
        return f"{self.variant} {load}".strip()

    @property
    def folder(self) -> str:
        """What the folder of its files is called."""
        load = f"{self.rate:.0f}" if self.rate else "catch-up"
        return "-".join(filter(None, [self.variant, load, f"r{self.repeat + 1}"]))

    @property
    def seconds(self) -> float:
        """How long its load lasts; 0 in catch-up, which ends when it is done."""
        return 0.0 if self.settings.count else self.settings.warm_up + self.settings.duration

    @property
    def records(self) -> int:
        """How many events it sends, copies aside."""
        return self.settings.count or int(self.rate * self.seconds)


def to_type(path: Path) -> str:
    """Return what a person types for a plan: the name alone of one that is here."""
    return path.stem if path.parent == PLANS else str(path)


def load_plan(path: Path) -> Plan:
    """Read a plan; raise `PersonError` that names the line of what is wrong."""
    plan, root = read_yaml(path, Plan, "the load plan", "PLAN")

    def place(key: str) -> str:
        return f"line {line_of(root, key)} of the load plan {path} ({key})"

    for key, settings in [
        ("", plan),
        *((f"variants[{i}].", _of(plan, v)) for i, v in enumerate(plan.variants)),
    ]:
        for name, complaint in _complaints(settings):
            raise PersonError(f"{place(key + name)}: {complaint}.")
    names = [variant.name for variant in plan.variants]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise PersonError(f"{place(f'variants[{i}].name')}: there is another variant {name!r}.")
    if plan.capacity and plan.capacity.low >= plan.capacity.high:
        raise PersonError(f"{place('capacity.low')}: it is not below high, {plan.capacity.high:g}.")
    return plan


def points(plan: Plan) -> Iterator[Point]:
    """Return the plan's points in the order of running: variants forwards in one repeat, backwards in the next."""
    for repeat in range(plan.repeats):
        several = variants(plan) if repeat % 2 == 0 else variants(plan)[::-1]
        for rate in plan.rates:
            for name, settings in several:
                if not settings.count:
                    yield Point(name, rate, repeat, settings)
                elif rate == plan.rates[0]:  # of a catch-up there is one, whatever rates others have
                    yield Point(name, 0.0, repeat, settings)


def variants(plan: Plan) -> list[tuple[str, Settings]]:
    """Return the variants by name with all that they run; one without a name where the plan has none."""
    return [(variant.name, _of(plan, variant)) for variant in plan.variants] or [("", plan)]


def without_engines(plan: Plan, missing: Container[str]) -> tuple[Plan, list[str]]:
    """Return the plan without the variants whose engine is missing, and their names."""
    absent = [name for name, settings in variants(plan) if settings.engine in missing]
    if not absent:
        return plan, []
    left = tuple(variant for variant in plan.variants if variant.name not in absent)
    if not left:
        raise PersonError("none of the plan's engines is installed: add --install.")
    return msgspec.structs.replace(plan, variants=left), absent


def _of(plan: Plan, variant: Variant) -> Settings:
    own = msgspec.structs.asdict(variant)
    del own["name"]
    return msgspec.structs.replace(plan, **{key: value for key, value in own.items() if value is not None})


def _complaints(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield what cannot be, as (key, complaint)."""
    for i, name in enumerate(settings.jobs):
        if name not in JOBS:
            yield f"jobs[{i}]", f"there is no job {name!r}, but {', '.join(JOBS)}"
        elif settings.trigger not in JOBS[name].plans:
            yield "trigger", f"{name} cannot run as {settings.trigger}"
        elif JOBS[name].sink is None:
            yield f"jobs[{i}]", f"{name} writes files, which nothing here can follow"
        elif not {JOBS[name].source, *JOBS[name].more_sources} <= _SENT:
            yield f"jobs[{i}]", f"{name} reads what other jobs write, which no producer sends"
    if not settings.jobs:
        if not settings.count:
            yield "jobs", "without any only the sending is measured, of as many records as count says"
        if settings.truth:
            yield "jobs", "without any there is nothing to compare: set truth to false"
    elif settings.sender != "producer" or settings.senders > 1:
        yield "sender" if settings.sender != "producer" else "senders", "only a plan without jobs has others"
    if settings.count and settings.shape:
        yield "shape", "a catch-up (count) has no rate that could have a shape"
    if settings.kill_at and not settings.ends_itself:
        yield "kill_at", "only a catch-up (count) in micro-batches is killed"
    if settings.engine != "spark":
        if settings.jobs != ("overheating",):
            yield "jobs", f"{settings.engine} has one job, overheating"
        for key in ("options", "conf"):
            if getattr(settings, key):
                yield key, f"it is Spark's, and means nothing to {settings.engine}"
        if settings.trigger != "real-time":
            yield "trigger", f"{settings.engine} has no micro-batches"
    for text in settings.options:
        name, _, value = text.partition("=")
        if name in INTERVALS and not INTERVAL.match(value):
            yield "options", f"{text!r} is not of the form {name}=10 minutes"
    try:
        check_together(settings.faults, settings.streams)
    except PersonError as error:
        yield "faults", str(error).rstrip(".")
