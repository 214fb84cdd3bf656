"""What a job is: a question with a source, a sink, and a plan for each trigger that it supports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from events.topics import Topic
from spark_jobs.triggers import Trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from events.records import InventoryRack


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a person may set about a job's computation. Durations are Spark's interval text."""

    window: str = "10 minutes"
    slide: str = "5 minutes"
    watermark: str = "10 minutes"
    output_mode: str = "update"
    inventory: tuple["InventoryRack", ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to compute a job's output.

    `name` is part of the checkpoint's path: two triggers that share a plan share its state. `records` takes the
    readable records of the source and returns `key` and `value` for the sink. The first of `output_modes` is used
    where the option `output_mode` is not among them.
    A plan that `carries_letters` takes all records, with `letter_key` and `letter` where one could not be read, and
    returns `topic` too; the others leave the letters to a second query, which reads and parses the topic once more.
    """

    name: str
    records: "Callable[[DataFrame, JobOptions], DataFrame]"
    output_modes: tuple[str, ...]
    carries_letters: bool = False

    def output_mode(self, options: JobOptions) -> str:
        """Return the output mode that this plan runs in."""
        return options.output_mode if options.output_mode in self.output_modes else self.output_modes[0]


@dataclass(frozen=True, slots=True)
class Job:
    """One question asked of one topic.

    `by_event_time` sets records from the future aside; `shaping_options` are the options whose change makes old
    state useless, as does another `rules_version`. The first plan is the default trigger's.
    """

    name: str
    source: Topic
    sink: Topic
    rules_version: str
    plans: Mapping[Trigger, Plan]
    by_event_time: bool = False
    shaping_options: tuple[str, ...] = field(default=())

    @property
    def default_trigger(self) -> Trigger:
        """The trigger of a run that names none."""
        return next(iter(self.plans))
