"""Parse the options of `run`: which jobs have them, which are refused, and what they configure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import fields, make_dataclass
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

from events.cli import UserFacingError, number_within
from events.triggers import Trigger
from spark_jobs.registry import JOBS
from spark_jobs.runtime.job import COMMON_OPTIONS, ConfiguredJob, Job
from spark_jobs.runtime.options import JobOptions, Option, Pairs, RuleOptions, flag_of, options_of

ALL_FLAGS = ("--all-real-time", "--all-micro-batch")
MOST_SECONDS = 86_400
"""The longest batch, a day."""


def options_by_field(jobs: Iterable[Job]) -> dict[str, list[tuple[Job, Option]]]:
    """Return the options of the jobs by field, each with the jobs that have it."""
    found: dict[str, list[tuple[Job, Option]]] = defaultdict(list)
    for job in jobs:
        for option in options_of(job.options):
            found[option.field].append((job, option))
    return found


class RunCommand(TyperCommand):
    """A command that parses the options of all jobs, and whose help shows those of named jobs.

    The values of the jobs' options are left in `ctx.obj`, by field, as text.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.common_params = self.params
        self.params = [*self.params, *_parsed_params()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the common options, and take the jobs' options out of them."""
        ctx.meta["named jobs"] = [JOBS[word] for word in args if word in JOBS]
        rest = super().parse_args(ctx, args)
        values = {name: ctx.params.pop(name, None) for name in options_by_field(JOBS.values())}
        # Not given: None, an empty list, or a flag that is not set.
        ctx.obj = {
            name: value for name, value in values.items() if value not in (None, (), [], False)
        }
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the common options, and those of the jobs that are named, with their defaults."""
        shown = copy(self)
        shown.params = [*self.common_params, *_shown_params(ctx.meta.get("named jobs", []))]
        TyperCommand.format_help(shown, ctx, formatter)


def named_jobs(names: Sequence[str], flags: Sequence[str]) -> list[Job]:
    """Return the jobs that the user names: none if one of the flags `--all…` stands for them."""
    if names and flags:
        raise UserFacingError(
            f"{flags[0]} runs all jobs of its kind: leave out {', '.join(names)}, or {flags[0]}."
        )
    if not names and not flags:
        raise UserFacingError(
            f"name the jobs to run (`list` shows them), or add {' or '.join(ALL_FLAGS)}."
        )
    for name in names:
        if name not in JOBS:
            raise UserFacingError(f"there is no job {name!r}: choose from {', '.join(JOBS)}.")
    return [JOBS[name] for name in dict.fromkeys(names)]


def given_common_options(ctx: typer.Context) -> list[str]:
    """Return those of the `COMMON_OPTIONS` that the user gives."""
    sources = {name: ctx.get_parameter_source(name) for name in COMMON_OPTIONS}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def refuse_unused(given: Iterable[str], jobs: Sequence[Job], trigger: Trigger | None) -> None:
    """Raise `UserFacingError` for an option that is given and that none of the jobs uses.

    It checks the common options, and the jobs' `interval_option`s.
    """
    given = set(given)
    for name in (*COMMON_OPTIONS, *(job.interval_option for job in jobs)):
        if name in given and not any(
            job.triggers_with(name) & _triggers(job, given, trigger) for job in jobs
        ):
            raise UserFacingError(_why_unused(name, jobs, trigger))


def _why_unused(name: str, jobs: Sequence[Job], trigger: Trigger | None) -> str:
    flag = flag_of(name)
    instead = [
        f"{job.name} has {flag_of(job.interval_option)}"
        for job in jobs
        if job.interval_option and (trigger or job.default_trigger) is Trigger.MICRO_BATCH
    ]
    if name == "batch_seconds" and instead:
        return f"{listed(instead)} instead of {flag}."
    users = [job for job in jobs if job.triggers_with(name)]
    if not users:
        return _belongs_elsewhere(flag, [job for job in JOBS.values() if job.triggers_with(name)])
    others = [one for one in Trigger if any(one in job.triggers_with(name) for job in users)]
    return (
        f"{flag} has no effect on {listed(job.name for job in users)} as "
        f"{trigger or users[0].default_trigger}: leave it out, or choose --trigger "
        f"{listed(others, 'or')}."
    )


def _triggers(job: Job, given: Collection[str], trigger: Trigger | None) -> set[Trigger]:
    """Return the triggers that a job may run with; they are several if a rules file decides."""
    if trigger is None and "rules" in given and job.needs_micro_batches:
        return {job.default_trigger, Trigger.MICRO_BATCH}
    return {trigger or job.default_trigger}


def listed(texts: Iterable[str], conjunction: str = "and") -> str:
    """Return texts as a sentence lists them: `a, b and c`."""
    *others, last = texts
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def configure(
    jobs: Sequence[Job],
    values: dict[str, Any],
    flags: Sequence[str],
    trigger: Trigger | None,
    **common: Any,
) -> list[ConfiguredJob]:
    """Return the jobs, each with its options and its trigger (None: its default).

    `values` are the jobs' options by field, as text; `common` has the inventory and the rules.
    Raises `UserFacingError` for a value that is wrong, for an option that no job here has or that
    has no effect on those that have it, and, when `flags` stand for the jobs, for an option that
    says what a job computes.
    """
    owners = options_by_field(JOBS.values())
    for name in values:
        _require_owner([job for job, _ in owners[name]], owners[name][0][1], jobs, flags)
    options = {job.name: _options(job, values, common) for job in jobs}
    for name in values:
        _require_effect(
            name, {job.name: options[job.name] for job, _ in owners[name] if job.name in options}
        )
    return [ConfiguredJob(job, options[job.name], trigger or job.default_trigger) for job in jobs]


def _require_effect(name: str, options: Mapping[str, JobOptions]) -> None:
    because = {job: own.without_effect.get(name) for job, own in options.items()}
    if all(because.values()):
        job, other = next(iter(because.items()))
        raise UserFacingError(f"{flag_of(name)} has no effect on {job} with {other}: leave it out.")


def _require_owner(
    owners: Sequence[Job], option: Option, jobs: Sequence[Job], flags: Sequence[str]
) -> None:
    here = {job.name for job in jobs} & {job.name for job in owners}
    if flags and not (here and option.is_deployment_setting):
        raise UserFacingError(
            f"{option.flag} belongs to {listed(job.name for job in owners)}, and "
            f"{' '.join(flags)} takes no options of single jobs: name the jobs to run instead."
        )
    if not here:
        raise UserFacingError(_belongs_elsewhere(option.flag, owners))


def _belongs_elsewhere(flag: str, owners: Sequence[Job]) -> str:
    which = "which is not" if len(owners) == 1 else "none of which is"
    names = listed(job.name for job in owners)
    return f"{flag} belongs to {names}, {which} among the jobs named."


def options_from_words(job: Job, words: Iterable[str]) -> JobOptions:
    """Return a job's options from words such as `--gap=5 minutes`, without those of other jobs.

    Raises `UserFacingError` for a value that is wrong.
    """
    own = {option.flag: option for option in options_of(job.options)}
    values: dict[str, Any] = {}
    for flag, has_value, value in (word.partition("=") for word in words):
        if option := own.get(flag):
            before = values.get(option.field, [])
            one = True if option.type is bool and not has_value else value
            values[option.field] = [*before, one] if option.type == Pairs else one
    return job.options(**_converted(job, values))


def _options(job: Job, values: dict[str, Any], common: dict[str, Any]) -> JobOptions:
    own = _converted(job, values)
    if issubclass(job.options, RuleOptions):
        own |= {one.name: common[one.name] for one in fields(RuleOptions)}
    return job.options(**own)


def _converted(job: Job, values: dict[str, Any]) -> dict[str, Any]:
    return {
        option.field: _value(job, option, values[option.field])
        for option in options_of(job.options)
        if option.field in values
    }


def _value(job: Job, option: Option, value: Any) -> Any:
    if option.type == Pairs:
        return pairs(option.flag, value)
    refuse_empty(option.flag, value)
    if get_origin(option.type) is Literal and value not in get_args(option.type):
        raise UserFacingError(
            f"{option.flag} {value!r} is not known to {job.name}: "
            f"choose {listed(get_args(option.type), 'or')}."
        )
    if option.type is float:
        return seconds(option.flag, value)
    return value


def refuse_empty(flag: str, given: str) -> None:
    """Raise `UserFacingError` for empty text, which as a folder would be the root."""
    if given == "":
        raise UserFacingError(f"{flag} is empty: give a value, or leave it out for the default.")


def seconds(flag: str, given: str | float) -> float:
    """Return a number from 0 to a day; raise `UserFacingError` for anything else."""
    return number_within(flag, given, (0, MOST_SECONDS), "seconds")


def pairs(flag: str, texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return key and value of each text; raise `UserFacingError` for one without `=`."""
    for text in texts:
        if "=" not in text:
            raise UserFacingError(f"{flag} {text!r} is not of the form key=value.")
    return tuple((key, value) for key, _, value in (text.partition("=") for text in texts))


def _parsed_params() -> list[Any]:
    """Return one parameter for each option of any job; its value is converted per job later."""
    parameters = []
    for name, owned in options_by_field(JOBS.values()).items():
        option = owned[0][1]
        texts: dict[str, list[str]] = defaultdict(list)
        for job, one in owned:
            texts[one.help].append(job.name)
        help_text = " ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
        kind = {bool: bool, Pairs: list[str] | None}.get(option.type, str | None)
        default = False if kind is bool else None
        parameters.append((name, kind, typer.Option(default, option.flag, help=help_text)))
    return _params(parameters)


def _shown_params(jobs: Iterable[Job]) -> list[Any]:
    """Return the options of some jobs as their help shows them, with types and defaults."""
    parameters = []
    for job in jobs:
        for option in options_of(job.options):
            is_pairs = option.type == Pairs
            shown = typer.Option(
                None if is_pairs else option.default,
                option.flag,
                help=option.help,
                rich_help_panel=f"Options of {job.name}",
            )
            kind = list[str] | None if is_pairs else option.type
            parameters.append((f"{job.name}_{option.field}", kind, shown))
    return _params(parameters)


def _params(parameters: Sequence[tuple[str, Any, Any]]) -> list[Any]:
    """Return typer's parameters for a callable with these arguments: name, type and default.

    A dataclass is such a callable. Typer has no other public way to make parameters.
    """
    app = typer.Typer(add_completion=False)
    app.command()(make_dataclass("Arguments", parameters))
    command: Any = typer.main.get_command(app)
    return list(command.params)
