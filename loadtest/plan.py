"""Read load plans from YAML, check them, and derive the points of a run.

A point is one run of one variant at one rate. Variants run in alternating order, so that changes of
the machine over time do not fall on one of them.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from events.cli import UserFacingError
from events.times import interval_ms
from events.topics import Topic
from events.yaml_files import line_of, read_yaml
from loadtest.container import Service
from loadtest.engines import ENGINES
from producer.faults import AnyFault, check_together
from producer.pacing.shape import AnyShape
from producer.streams.stream_set import STREAM_PLANS, Stream
from producer.world.racks import MAX_RACKS
from spark_jobs.registry import JOBS
from spark_jobs.run_options import options_from_words

Trigger = Literal["real-time", "micro-batch"]
Engine = Literal["spark", "kafka-streams", "flink", "quix", "bytewax"]
"""What runs the job: this project's Spark job, or an engine of `loadtest/engines`."""
Sender = Literal["producer", "producer-performance"]
"""What sends: this project's producer, or Kafka's own benchmark, ProducerPerformance."""
MOST = 1e9
"""The highest rate and the longest time, so that none is infinite."""
Rate = Annotated[float, Meta(gt=0, le=MOST)]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=MOST)]
Share = Annotated[float, Meta(gt=0, lt=1)]
PLANS = Path(__file__).parent / "plans"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,40}$"
"""The form of names that become part of folder names."""
INTERVALS = ("--window", "--slide", "--watermark", "--gap")
NO_DEAD_LETTERS = "--no-dead-letters"
PER_BATCH = "--records-per-batch="


_SENT = {kind.topic for kinds in STREAM_PLANS.values() for kind in kinds}
RULES = {job.name: job.rule().name for job in JOBS.values() if job.rule and {*job.sources} <= _SENT}
"""The rule whose alerts each job writes, for jobs that read what the producer sends."""


class Gates(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """The limits that a point must keep to be a valid measurement."""

    schedule_lag_ms: Annotated[float, Meta(gt=0)] = 250.0
    """99 % of the records must be appended this soon after their scheduled time."""
    tail_s: Annotated[float, Meta(gt=0)] | None = None
    """The last output must follow the last record within this time; by default 10 s in Real-time
    Mode, 90 s in micro-batches."""
    min_latencies: Annotated[int, Meta(ge=0)] = 100
    """With fewer latencies there is no distribution."""


class Limits(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What a valid point must keep; a violated limit makes the run exit with status 1."""

    p50_ms: Annotated[float, Meta(gt=0)] | None = None
    p99_ms: Annotated[float, Meta(gt=0)] | None = None
    max_ms: Annotated[float, Meta(gt=0)] | None = None
    """The highest latency. All three apply to latencies and to window delays."""
    warm_records_per_s: Annotated[float, Meta(gt=0)] | None = None
    """The throughput of a catch-up after its first batch."""
    lag_growth: Annotated[float, Meta(gt=0)] | None = None
    """The lag may grow by this share of the rate: the job keeps up."""

    @property
    def text(self) -> str:
        """The limits in one line; empty without any."""
        bounds = {
            "p50 ms at most": self.p50_ms,
            "p99 ms at most": self.p99_ms,
            "max ms at most": self.max_ms,
            "warm records/s at least": self.warm_records_per_s,
        }
        texts = [f"{name} {bound:,.10g}" for name, bound in bounds.items() if bound is not None]
        if self.lag_growth is not None:
            texts.append(f"lag growth at most {100 * self.lag_growth:g} % of the rate")
        return ", ".join(texts)


class Goal(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What a plan's result should be; docs/performance.md says whether its rows reach it.

    Without a bound the limits of the point are the goal.
    """

    question: str
    point: str = ""
    """The label of the point's row, or the words that it begins with."""
    metric: str = ""
    """A figure of that row."""
    at_most: float | None = None
    at_least: float | None = None
    relative_to: str = ""
    """Another point, as in `point`: the bound is for the ratio of the metric to that point's."""
    why_missed: str = ""
    """What the page says unless the goal is reached; links are relative to the page."""

    def __post_init__(self) -> None:
        if self.at_most is not None and self.at_least is not None:
            raise ValueError("a goal has at_most or at_least, not both")

    @property
    def bound(self) -> float | None:
        """The bound, in either direction."""
        return self.at_least if self.at_most is None else self.at_most

    @property
    def text(self) -> str:
        """The goal in one line; empty without a bound."""
        if self.bound is None:
            return ""
        direction = "at least" if self.at_most is None else "at most"
        times = f" times that of `{self.relative_to}`" if self.relative_to else ""
        return f"{self.metric} {direction} {self.bound:,.10g}{times}"


class CapacityBounds(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """The bounds of `capacity`: the highest rate from `low` to `high` within all limits."""

    low: Rate
    high: Rate
    p99_ms: Annotated[float, Meta(gt=0)]
    precision: Annotated[float, Meta(ge=0.01, le=1)] = 0.1
    """The search ends when the sustained and the failed rate differ by less than this share."""
    lag_growth: Annotated[float, Meta(gt=0)] = 0.01
    """The lag may grow by this share of the rate; 1 and more allows any growth."""
    late_per_s: Annotated[float, Meta(ge=0)] = 100.0
    """This many records a second may be dropped as late."""


class PointSettings(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What a point runs; a variant may override most of it."""

    jobs: tuple[str, ...]
    """The jobs; with none, the point measures only how fast `count` records are sent."""
    engine: Engine = "spark"
    service: Service | None = None
    """Run the Spark jobs in the image, with the limits and options of this Compose service, its
    state partitions too; the plan's `options` and `conf` override them."""
    sender: Sender = "producer"
    senders: Annotated[int, Meta(ge=1, le=8)] = 1
    """Producer processes that send in parallel, in plans without jobs."""
    trigger: Trigger = "real-time"
    rate: Rate | Annotated[tuple[Rate, ...], Meta(min_length=1)] = 1000.0
    """Events per second over all streams, a point per rate. With a shape it is the mean rate."""
    shape: AnyShape | None = None
    count: Count | None = None
    """Catch-up: this many events are in the topics before the jobs start; there is no rate."""
    kill_at: Share | Annotated[tuple[Share, ...], Meta(min_length=1)] | None = None
    """Kill and restart the micro-batch jobs when they have read this share, or these shares."""
    warm_up: Seconds = 20.0
    """Seconds of load before the measurement."""
    duration: Annotated[float, Meta(gt=0, le=MOST)] = 60.0
    """Seconds of measured load."""
    partitions: Annotated[int, Meta(ge=4, le=64)] = 4
    """Partitions of each input topic."""
    state_partitions: Annotated[int, Meta(ge=1, le=1000)] = 4
    racks: Annotated[int, Meta(ge=1, le=MAX_RACKS)] = 400
    seed: int = 1
    time_scale: Annotated[float, Meta(gt=0, le=MOST)] = 1.0
    flush: bool = False
    """Send a final record per topic to close open windows, sessions and joins."""
    idle_s: Annotated[float, Meta(gt=0)] | None = None
    """End the point after this time without output; by default once all records are read."""
    faults: tuple[AnyFault, ...] = ()
    options: tuple[str, ...] = ()
    """More options of `python -m spark_jobs run`, such as `--window=10 seconds`; or the engine's
    own."""
    conf: dict[str, str] = {}
    """Spark settings."""
    truth: bool = True
    """Compare actual with expected output. This slows the producer, by minutes for millions of
    records."""
    limits: Limits = Limits()

    @property
    def terminates(self) -> bool:
        """Whether the jobs end by themselves: in a catch-up in micro-batches."""
        return bool(self.count) and self.trigger == "micro-batch"

    @property
    def kills(self) -> tuple[float, ...]:
        """The shares of the records after which the jobs are killed, in order."""
        shares = self.kill_at if isinstance(self.kill_at, tuple) else (self.kill_at,)
        return tuple(sorted(share for share in shares if share is not None))

    def count_for_sender(self, sender: int) -> int:
        """Return how many of the records a sender sends; senders are numbered from 0."""
        return ((self.count or 0) + self.senders - 1 - sender) // self.senders

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The producer's streams that the jobs read; without jobs, readings."""
        if not self.jobs:
            return ("racks",)
        read = {topic for name in self.jobs for topic in self.topics_read(name)}
        return tuple(
            stream
            for stream, kinds in STREAM_PLANS.items()
            if any(kind.topic in read for kind in kinds)
        )

    def topics_read(self, name: str) -> tuple[Topic, ...]:
        """Return the topics that a job reads with this point's options."""
        return JOBS[name].topics_read(options_from_words(JOBS[name], self.options))

    @property
    def topics_unread(self) -> list[Topic]:
        """The topics that the producer's streams send and no job reads."""
        read = {topic for name in self.jobs for topic in self.topics_read(name)}
        sent = [kind.topic for stream in self.streams for kind in STREAM_PLANS[stream]]
        return [topic for topic in sent if topic not in read] if self.jobs else []

    @property
    def main_queries(self) -> tuple[str, ...]:
        """The names of the jobs' queries."""
        return tuple(
            f"{name}-{topic.name}" if topic else name
            for name in self.jobs
            for topic in (self.topics_read(name) if JOBS[name].query_per_source else (None,))
        )

    @property
    def reports(self) -> bool:
        """Whether the run reports the dead letters of its topics."""
        return bool(self.jobs) and self.engine == "spark" and NO_DEAD_LETTERS not in self.options

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules whose alerts the producer's truth predicts for these jobs."""
        return tuple(RULES[name] for name in self.jobs if name in RULES)

    @property
    def rates(self) -> tuple[float, ...]:
        """The rates in order."""
        return self.rate if isinstance(self.rate, tuple) else (self.rate,)


class Variant(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """One of several compared configurations: its name, and what it overrides of the plan."""

    name: Annotated[str, Meta(pattern=NAME)]
    jobs: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    engine: Engine | None = None
    service: Service | None = None
    sender: Sender | None = None
    senders: Annotated[int, Meta(ge=1, le=8)] | None = None
    trigger: Trigger | None = None
    count: Count | None = None
    shape: AnyShape | None = None
    partitions: Annotated[int, Meta(ge=4, le=64)] | None = None
    state_partitions: Annotated[int, Meta(ge=1, le=1000)] | None = None
    warm_up: Seconds | None = None
    racks: Annotated[int, Meta(ge=1, le=MAX_RACKS)] | None = None
    faults: tuple[AnyFault, ...] | None = None
    options: tuple[str, ...] | None = None
    conf: dict[str, str] | None = None
    truth: bool | None = None
    limits: Limits | None = None


class Plan(PointSettings, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A plan: what its points run, how often, in which variants, and within which limits."""

    description: str = ""
    goals: tuple[Goal, ...] = ()
    repeats: Count = 1
    variants: tuple[Variant, ...] = ()
    gates: Gates = Gates()
    capacity: CapacityBounds | None = None

    def limits_of(self, goal: Goal) -> Limits:
        """Return the limits of the goal's point."""
        return dict(variants(self)).get(goal.point.partition(" ")[0], self).limits

    @property
    def summary(self) -> str:
        """The description with the goals."""
        goals = "; ".join(
            f"{goal.point} {goal.text or self.limits_of(goal).text}".strip() for goal in self.goals
        )
        return f"{self.description} Goals: {goals}." if goals else self.description


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a variant (empty without variants) at a rate (0 for a catch-up).

    Repeats are numbered from 0.
    """

    variant: str
    rate: float
    repeat: int
    settings: PointSettings

    @property
    def label(self) -> str:
        """The point's name in reports, without its repeat: `real-time 2,000/s`."""
        load = f"{_exact(self.rate)}/s" if self.rate else f"backlog of {self.settings.count or 0:,}"
        return f"{self.variant} {load}".strip()

    @property
    def folder(self) -> str:
        """The name of its folder."""
        load = _exact(self.rate).replace(",", "") if self.rate else "catch-up"
        return "-".join(filter(None, [self.variant, load, f"r{self.repeat + 1}"]))

    @property
    def seconds(self) -> float:
        """How long its load lasts; 0 for a catch-up, which ends when all is read."""
        return 0.0 if self.settings.count else self.settings.warm_up + self.settings.duration

    @property
    def records(self) -> int:
        """How many events it sends, without duplicates."""
        return self.settings.count or int(self.rate * self.seconds)


def _exact(rate: float) -> str:
    """Return a rate unrounded, as points whose rates look alike would replace each other."""
    return f"{rate:,}".removesuffix(".0")


def plan_argument(path: Path) -> str:
    """Return the command line argument for a plan: its name if it is in loadtest/plans."""
    return path.stem if path.parent == PLANS else str(path)


def load_plans() -> dict[str, Plan]:
    """Read the project's own plans, by name."""
    return {path.stem: load_plan(path) for path in sorted(PLANS.glob("*.yaml"))}


def load_plan(path: Path) -> Plan:
    """Read a plan; raise `UserFacingError` that names the line of a mistake."""
    plan, root = read_yaml(path, Plan, "the load plan", "PLAN")

    def position(key: str) -> str:
        return f"line {line_of(root, key)} of the load plan {path} ({key})"

    for key, settings in [
        ("", plan),
        *((f"variants[{i}].", _settings_of(plan, v)) for i, v in enumerate(plan.variants)),
    ]:
        for name, problem in _problems(settings):
            raise UserFacingError(f"{position(key + name)}: {problem}.")
    names = [variant.name for variant in plan.variants]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise UserFacingError(
                f"{position(f'variants[{i}].name')}: another variant has the name {name!r}."
            )
    if plan.capacity and plan.capacity.low >= plan.capacity.high:
        raise UserFacingError(
            f"{position('capacity.low')}: low must be below high, {plan.capacity.high:g}."
        )
    return plan


def points(plan: Plan) -> Iterator[Point]:
    """Yield the plan's points in running order.

    Variants run forwards in one repeat and backwards in the next.
    """
    for repeat in range(plan.repeats):
        ordered = variants(plan) if repeat % 2 == 0 else variants(plan)[::-1]
        for rate in plan.rates:
            for name, settings in ordered:
                if not settings.count:
                    yield Point(name, rate, repeat, settings)
                elif rate == plan.rates[0]:  # a catch-up has one point, whatever the rates
                    yield Point(name, 0.0, repeat, settings)


def variants(plan: Plan) -> list[tuple[str, PointSettings]]:
    """Return each variant's name and settings; one unnamed variant where the plan has none."""
    return [(variant.name, _settings_of(plan, variant)) for variant in plan.variants] or [
        ("", plan)
    ]


def without_engines(plan: Plan, missing: Container[str]) -> tuple[Plan, list[str]]:
    """Return the plan without variants whose engine is missing, and the names of those."""
    absent = [name for name, settings in variants(plan) if settings.engine in missing]
    if not absent:
        return plan, []
    remaining = tuple(variant for variant in plan.variants if variant.name not in absent)
    if not remaining:
        raise UserFacingError("none of the plan's engines is installed: add --install.")
    return msgspec.structs.replace(plan, variants=remaining), absent


def _settings_of(plan: Plan, variant: Variant) -> PointSettings:
    own = msgspec.structs.asdict(variant)
    del own["name"]
    return msgspec.structs.replace(
        plan, **{key: value for key, value in own.items() if value is not None}
    )


def _problems(settings: PointSettings) -> Iterator[tuple[str, str]]:
    """Yield each contradiction as (key, sentence)."""
    yield from _job_problems(settings)
    yield from _engine_problems(settings)
    if settings.service and settings.engine != "spark":
        yield "service", f"the image has no {settings.engine}"
    if settings.service and settings.kill_at:
        yield "kill_at", "jobs in a container cannot be killed by a plan"
    if len(set(settings.rates)) < len(settings.rates):
        yield "rate", "a rate is listed twice: use repeats to measure it again"
    if settings.count and settings.shape:
        yield "shape", "a catch-up (count) has no rate, so it cannot have a shape"
    if settings.count and settings.jobs and settings.trigger == "real-time" and not settings.truth:
        yield "truth", "only the truth shows that a catch-up in Real-time Mode has read all records"
    if settings.kill_at and settings.trigger != "micro-batch":
        yield "kill_at", "only micro-batch jobs can be killed"
    if settings.count and len(settings.kills) > 1:
        yield "kill_at", "a catch-up (count) is killed once"
    for text in settings.options:
        name, _, value = text.partition("=")
        if name in INTERVALS:
            try:
                interval_ms(value)
            except ValueError:
                yield "options", f"{text!r} is not of the form {name}=10 minutes"
        if text.startswith(PER_BATCH) and not (value.isdecimal() and int(value)):
            yield "options", f"{text!r} is not of the form {PER_BATCH}10000"
    try:
        check_together(settings.faults, settings.streams)
    except UserFacingError as error:
        yield "faults", str(error).rstrip(".")


def _job_problems(settings: PointSettings) -> Iterator[tuple[str, str]]:
    for i, name in enumerate(settings.jobs):
        if name not in JOBS:
            yield f"jobs[{i}]", f"unknown job {name!r}; the jobs are {', '.join(JOBS)}"
    for name in settings.jobs:
        try:
            options_from_words(JOBS[name], settings.options)
        except UserFacingError as error:
            yield "options", str(error).rstrip(".")
    for i, name in enumerate(settings.jobs):
        if settings.engine == "spark" and settings.trigger not in JOBS[name].plans:
            yield "trigger", f"{name} does not support {settings.trigger}"
        elif JOBS[name].sink is None:
            yield f"jobs[{i}]", f"{name} writes files, which load plans cannot observe"
        elif not {*settings.topics_read(name)} <= _SENT:
            yield f"jobs[{i}]", f"{name} reads other jobs' output, which the producer does not send"
    if unread := settings.topics_unread:
        names = ", ".join(topic.name for topic in unread)
        yield "jobs", f"the producer would also send {names}, which no job of the plan reads"
    if not settings.jobs:
        if not settings.count:
            yield "jobs", "a plan without jobs measures only sending, and needs a count"
        if settings.truth:
            yield "jobs", "a plan without jobs has no output to compare: set truth to false"
    elif settings.sender != "producer":
        yield "sender", "only a plan without jobs can change the sender"
    elif settings.senders > 1:
        yield "senders", "only a plan without jobs can have several senders"


def _engine_problems(settings: PointSettings) -> Iterator[tuple[str, str]]:
    if settings.engine == "spark":
        return
    engine = ENGINES[settings.engine]
    if len(settings.jobs) != 1 or settings.jobs[0] not in engine.jobs:
        yield "jobs", f"{settings.engine} runs one job of {', '.join(engine.jobs)}"
    for text in settings.options:
        if text.partition("=")[0] not in engine.options:
            yield "options", f"{settings.engine} has no option {text}"
    if settings.conf:
        yield "conf", f"only Spark has this setting, {settings.engine} does not"
    if settings.trigger != "real-time":
        yield "trigger", f"{settings.engine} has no micro-batches"
