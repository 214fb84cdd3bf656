"""What a job is: a question with its sources, a sink, and a plan for each trigger that it supports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from events.cli import PersonError
from events.rules import AnyRule, Rules
from events.topics import Topic
from spark_jobs.triggers import Trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from events.records import InventoryRack

WATERMARK = "10 minutes"
"""How late an event may be where a job has no default of its own."""
FOR_EVER, EXPIRING = "for-ever", "expiring"
"""How long state is kept, by the name of the option `keep`."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a person may set about a job's computation; None is the job's own default. Durations are Spark's intervals.

    `__main__` explains each where a person reads it.
    """

    window: str = "10 minutes"
    slide: str | None = None
    watermark: str | None = None
    output_mode: str = "update"
    inventory: tuple["InventoryRack", ...] = ()
    rules: Rules = field(default_factory=Rules)
    by: str = "action"
    join: str = "left"
    first_only: bool = False
    impressions_watermark: str = "2 hours"
    clicks_watermark: str = "3 hours"
    watermark_policy: str = "min"
    gap: str = "30 minutes"
    device_gaps: tuple[tuple[str, str], ...] = ()
    keep: str | None = None
    topic: str = "user-actions"
    archive: str = ".rackstream/archive"

    @property
    def lateness(self) -> str:
        """How late an event may be and still count."""
        return self.watermark or WATERMARK


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to compute a job's output.

    `name` is part of the checkpoint's path: two triggers that share a plan share its state. `records` takes the
    readable records of each source, and the options last, and returns `key` and `value` for the sink. The first of
    `output_modes` is used where the option `output_mode` is not among them.
    A plan that `reads_raw` takes Kafka's records as they are, and returns `topic` too, as its letters are among its
    records; the others leave the letters to a second query, which reads and parses the topic once more.
    One that names the `fields` that it takes of a record gets those, and of Kafka's columns neither key nor value.
    A plan that `reads_all` has in each batch all that the topic holds when the batch is planned, however much.
    """

    name: str
    records: "Callable[..., DataFrame]"
    output_modes: tuple[str, ...]
    reads_raw: bool = False
    reads_all: bool = False
    fields: tuple[str, ...] | None = None

    def output_mode(self, options: JobOptions) -> str:
        """Return the output mode that this plan runs in."""
        return options.output_mode if options.output_mode in self.output_modes else self.output_modes[0]


@dataclass(frozen=True, slots=True)
class Job:
    """One question asked of one topic, or of several.

    `by_event_time` sets records from the future aside; `shaping_options` are the options whose change makes old
    state useless, as does another `rules_version`; `defaults` are the job's own for options that are None. The first
    plan is the default trigger's. A `rule` of alerts may come from a file, and `by_rules` are the plans that take it,
    where they are others. Beside `source` the job reads `more_sources`, or instead of it the one of `choices`
    that the option `topic` names. Without a `sink` it writes files, one query per source, and its plan is handed the
    unreadable records too. `micro_batch` is the least time between the starts of two micro-batches.
    """

    name: str
    source: Topic
    sink: Topic | None
    rules_version: str
    plans: Mapping[Trigger, Plan]
    by_event_time: bool = False
    shaping_options: tuple[str, ...] = field(default=())
    more_sources: tuple[Topic, ...] = ()
    choices: tuple[Topic, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    micro_batch: timedelta = timedelta(0)
    rule: type[AnyRule] | None = None
    by_rules: Mapping[Trigger, Plan] | None = None
    needs_inventory: bool = False

    def under(self, rules: Rules) -> "Job":
        """Return the job as rules from a file make it: other rules are another version of its state."""
        ours = rules.of(self.rule) if self.rule else ()
        if not ours:
            return self
        version = sha256(msgspec.json.encode(ours)).hexdigest()[:8]
        return replace(
            self, plans=self.by_rules or self.plans, rules_version=f"{self.rules_version}-{version}"
        )

    @property
    def default_trigger(self) -> Trigger:
        """The trigger of a run that names none."""
        return next(iter(self.plans))

    @property
    def has_several(self) -> bool:
        """Whether there is more than one topic that the job reads or could read."""
        return bool(self.more_sources or self.choices)

    @property
    def flow(self) -> str:
        """From which topics to which topic the records go, in words."""
        topics = self.choices or (self.source, *self.more_sources)
        between = "|" if self.choices else "+"
        return f"{between.join(topic.name for topic in topics)} -> {self.sink.name if self.sink else 'files'}"

    def sources(self, options: JobOptions) -> tuple[Topic, ...]:
        """Return the topics that the job reads; raise `PersonError` when the one to choose is not among its own."""
        if not self.choices:
            return (self.source, *self.more_sources)
        for topic in self.choices:
            if topic.name == options.topic:
                return (topic,)
        names = ", ".join(topic.name for topic in self.choices)
        raise PersonError(f"{self.name} cannot read {options.topic!r}: choose --topic from {names}.")

    def with_defaults(self, options: JobOptions) -> JobOptions:
        """Return the options with the job's own defaults where a person has set nothing."""
        defaults = {"watermark": WATERMARK, **self.defaults}
        unset = {name: value for name, value in defaults.items() if getattr(options, name) is None}
        return replace(options, **unset)  # type: ignore[arg-type] # all of them are text
