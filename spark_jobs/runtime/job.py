"""Define a job: a question with its sources, its sink, its options, and a plan for each trigger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from events.cli import UserFacingError
from events.rules import AnyRule, Rules
from events.topics import ALL, Topic
from events.triggers import Trigger
from spark_jobs.runtime.options import JobOptions, RuleOptions, options_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.runtime.parsing.batches import Batches


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to compute a job's output.

    - `name` is part of the checkpoint's path: two triggers that share a plan share its state.
    - `records` takes the readable records of each source, then the job's options. It returns `key`
      and `value` for the sink. (A job with `query_per_source` has another signature, see there.)
    - `output_modes` are those that the plan supports. It runs in the first one, unless the option
      `output_mode` names another of them.
      `Job.check` refuses a mode that the user chose and the plan lacks.
    - `fields` names the record's fields that the plan uses; a parser may leave out the others.
    - `batches` returns, for a session and the job's options, what the plan takes instead of a row
      per record.
    - `reads_raw`: the plan takes Kafka's records unparsed, in a job with `query_per_source`.
    - `reads_all`: each batch holds all that the topic holds when the batch is planned, without
      limit.
    - `by_wall_clock`: the state has timers by the wall clock. At each start the query repeats its
      last batch: otherwise no timer would fire until a record comes.
    - `fingerprint` has constants that the plan's state depends on, by name. They belong to the
      checkpoint's fingerprint.
    """

    name: str
    records: "Callable[..., DataFrame]"
    output_modes: tuple[str, ...]
    fields: tuple[str, ...] | None = None
    batches: "Callable[[SparkSession, Any], Batches] | None" = None
    reads_raw: bool = False
    reads_all: bool = False
    by_wall_clock: bool = False
    fingerprint: Mapping[str, str] = field(default_factory=dict)

    def output_mode(self, options: JobOptions) -> str:
        """Return the output mode that this plan runs in."""
        wanted = getattr(options, "output_mode", None)
        return wanted if wanted in self.output_modes else self.output_modes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One question asked of one topic or of several.

    - `sources` are all topics that the job reads or could read; `choose_sources` picks some of
      them by the job's options.
    - `sink` is the topic that the job writes. A job without one writes files below its
      `output_folder`.
    - `query_per_source`: each source has its own query and checkpoint, so that the set of sources
      may change. `Plan.records` takes the source's records, unreadable ones too, the topic, and the
      options.
    - `options` is the class of the job's options. All but deployment settings belong to the
      checkpoint's fingerprint, since other options make old state useless.
    - `state_version` is in the checkpoint's path: raise it when the state, or its meaning, changes.
    - `plans` are by trigger; the first trigger is the job's default.
    - `needs_inventory`: the job cannot run without `--inventory`.
    - `by_event_time`: the job leaves out records too far in the future.
    - `watermark_policy` decides whether the slower (`min`) or the faster source sets the watermark.
    - `micro_batch_interval` is the least time between the starts of two micro-batches. A job with
      an `interval_option` takes it from this one of its own options instead, and never from
      `--batch-seconds`. With another trigger that option does nothing, and `run` refuses it.
      Real-time batches have one length for all jobs.
    - `real_time_batch_share` is the length of a real-time batch as a share of the usual one. Ending
      a batch takes a second of planning, so two queries should not do it at the same moment.
    - `low_priority`: in Real-time Mode the job gets records up to a second late, and asks the
      broker for them far less often.
    - `covers_other_readers`: the job reads topics because the others read them, unless another
      driver does that for them. So it is part of a driver's task only where it runs alone. With
      available-now it starts when each query of the others in its stage has ended a batch, so that
      it reads at least as far as they do.
    - `is_deferred`: nobody waits for its first output. In micro-batches rules start first, then the
      other jobs, then the deferred ones: each when the queries before it have each ended a batch,
      so that it takes no processor time from their start.
    - `state_partitions`: the fewer, the shorter the small batches of a job that looks at the clock.
      A job without state has none.
    - `counts_state_rows`: micro-batches count the rows of state, which costs a read before each
      write. A job that does little more than write a row per record leaves it out.
    - `rule` is the rule that the job evaluates. `needs_micro_batches` returns the option of a rule
      that has no real-time plan, or None.
    - `not_real_time_because` is where the rules file sets such an option.
    """

    name: str
    sources: tuple[Topic, ...]
    sink: Topic | None
    state_version: str
    plans: Mapping[Trigger, Plan]
    options: type[JobOptions] = JobOptions
    choose_sources: Callable[[Any], tuple[Topic, ...]] | None = None
    query_per_source: bool = False
    output_folder: Callable[[Any], str] | None = None
    watermark_policy: Callable[[Any], str] | None = None
    by_event_time: bool = False
    micro_batch_interval: timedelta = timedelta(0)
    interval_option: str = ""
    real_time_batch_share: float = 1.0
    low_priority: bool = False
    covers_other_readers: bool = False
    is_deferred: bool = False
    state_partitions: int = 4
    counts_state_rows: bool = True
    rule: type[AnyRule] | None = None
    needs_micro_batches: Callable[[Any], str | None] | None = None
    not_real_time_because: str = ""
    needs_inventory: bool = False

    def with_rules(self, rules: Rules) -> "Job":
        """Return the job under a rules file; other rules are another version of its state.

        It has no real-time plan if one of its rules needs micro-batches.
        """
        own = rules.of(self.rule) if self.rule else ()
        if not own:
            return self
        version = sha256(msgspec.json.encode(own)).hexdigest()[:8]
        job = replace(self, state_version=f"{self.state_version}-{version}")
        option_of = self.needs_micro_batches or (lambda _: None)
        places = [rules.place_of(rule, option) for rule in own if (option := option_of(rule))]
        if not places:
            return job
        plans = dict(self.plans)
        plans.pop(Trigger.REAL_TIME)
        return replace(job, plans=plans, not_real_time_because=places[0])

    def triggers_with(self, option: str) -> set[Trigger]:
        """Return the triggers under which the job uses a common option, or an `interval_option`."""
        if option == self.interval_option:
            return self.plans.keys() & {Trigger.MICRO_BATCH}
        uses = COMMON_OPTIONS.get(option)
        return {trigger for trigger in self.plans if uses and uses(self, trigger)}

    @property
    def default_trigger(self) -> Trigger:
        """The trigger of a run that names none."""
        return next(iter(self.plans))

    @property
    def flow(self) -> str:
        """The topics that the job may read and the one that it writes, as text."""
        return self.flow_of(self.sources, "|" if self.choose_sources else "+")

    def flow_of(self, topics: Sequence[Topic], separator: str = "+") -> str:
        """Return the topics that the job reads and the one that it writes, as text."""
        sources = separator.join(topic.name for topic in topics)
        if len(topics) == len(ALL):
            sources = "every topic"
        return f"{sources} -> {self.sink.name if self.sink else 'files'}"

    def topics_read(self, options: JobOptions) -> tuple[Topic, ...]:
        """Return the topics that the job reads with these options."""
        return self.choose_sources(options) if self.choose_sources else self.sources

    def check(self, trigger: Trigger, options: JobOptions) -> None:
        """Raise `UserFacingError` when the job cannot run with this trigger and these options."""
        if trigger not in self.plans:
            because = f", because of {text}" if (text := self.not_real_time_because) else ""
            raise UserFacingError(
                f"{self.name} cannot run as {trigger}{because}: choose {', '.join(self.plans)}."
            )
        self._check_output_mode(trigger, options)
        if self.needs_inventory and not (isinstance(options, RuleOptions) and options.inventory):
            raise UserFacingError(
                f"{self.name} must know how many racks each site has: add --inventory FILE."
            )

    def _check_output_mode(self, trigger: Trigger, options: JobOptions) -> None:
        default = {option.field: option.default for option in options_of(self.options)}
        mode = getattr(options, "output_mode", None)
        modes = self.plans[trigger].output_modes
        if mode == default.get("output_mode") or mode in modes:
            return
        others = [other for other, plan in self.plans.items() if mode in plan.output_modes]
        raise UserFacingError(
            f"{self.name} cannot write with --output-mode {mode} as {trigger}: choose "
            + " or ".join(modes)
            + (f", or --trigger {others[0]}." if others else ".")
        )


def _takes_rules(job: Job, _trigger: Trigger) -> bool:
    return issubclass(job.options, RuleOptions)


COMMON_OPTIONS: Mapping[str, Callable[[Job, Trigger], bool]] = {
    "inventory": _takes_rules,
    "rules": _takes_rules,
    "state_partitions": lambda job, _: job.state_partitions > 0,
    "batch_seconds": lambda job, trigger: (
        trigger is Trigger.REAL_TIME or (trigger is Trigger.MICRO_BATCH and not job.interval_option)
    ),
    "rules_batch_seconds": lambda job, trigger: (
        trigger is Trigger.MICRO_BATCH and job.rule is not None
    ),
    # Not those of `reads_all` plans either, but the job dead_letters beside them.
    "records_per_batch": lambda _, trigger: trigger is not Trigger.REAL_TIME,
    "read_tasks": lambda _, trigger: trigger is not Trigger.REAL_TIME,
    "restarts": lambda _, trigger: trigger is not Trigger.AVAILABLE_NOW,
}
"""The options of `run` that only some jobs or triggers use, by parameter, and which ones do."""


class ConfiguredJob(NamedTuple):
    """A job with the options and the trigger that it runs with."""

    job: Job
    options: JobOptions
    trigger: Trigger

    @property
    def plan(self) -> Plan:
        """The plan that the job runs."""
        return self.job.plans[self.trigger]

    @property
    def topics_read(self) -> tuple[Topic, ...]:
        """The topics that the job reads."""
        return self.job.topics_read(self.options)

    @property
    def flow(self) -> str:
        """The topics that the job reads and the one that it writes, as text."""
        return self.job.flow_of(self.topics_read)

    def check(self) -> None:
        """Raise `UserFacingError` when the job cannot run with this trigger and these options."""
        self.job.check(self.trigger, self.options)
