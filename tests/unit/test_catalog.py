"""Each rule and each job of the catalog is complete: job, options, oracle, topics, documentation.

Whoever adds a rule or a job reads here what is still missing. No JVM is started.
"""

import re
from collections.abc import Iterator
from importlib import import_module

from msgspec.structs import fields

from events import catalog, topics
from events.catalog import JOBS, RULE_JOBS, RULES
from events.records import Alert, AlertCommand, Evidence, RackReading
from events.rules import RULE_TYPES
from events.spark_schemas import choices
from events.topics import Topic
from events.triggers import Trigger
from producer.expected.oracles import rows
from spark_jobs import registry
from spark_jobs.runtime.job import Job
from tests.builders import reading
from tests.support import ROOT

ORACLES = "producer.expected.oracles"
# Jobs without a rule, and the functions that say what must come out of them. The outputs of
# deduplicate and archive are their inputs, and the producer knows what it corrupted for
# dead_letters, so they have none.
ORACLE_OF_JOB = {
    "rack_temperature": "rack_temperature.temperature_windows",
    "ad_attribution": "clickstream.attributions",
    "action_counts": "clickstream.action_counts",
    "user_sessions": "clickstream.sessions",
    "user_totals": "clickstream.totals",
    "signal_statistics": "signal_statistics.signal_statistics",
    "deduplicate": None,
    "archive": None,
    "dead_letters": None,
}


def table_rows(document: str) -> dict[str, list[str]]:
    """Return the first row of a document's tables for each name in the first cell."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    found = re.findall(r"^\| `([\w-]+)` \|(.*)\|$", text, re.MULTILINE)
    rows_of: dict[str, list[str]] = {}
    for name, rest in found:
        rows_of.setdefault(name, [cell.strip() for cell in rest.split("|")])
    return rows_of


def jobs_by_rule() -> dict[str, Job]:
    return {job.rule().name: job for job in registry.JOBS.values() if job.rule}


def has_function(path: str) -> bool:
    module, _, name = path.rpartition(".")
    try:
        return callable(getattr(import_module(f"{ORACLES}.{module}"), name, None))
    except ModuleNotFoundError:
        return False


def missing_of_rule(rule: str) -> Iterator[str]:
    """Yield what a rule lacks."""
    if rule not in RULES:
        yield "events.catalog does not have it in RuleName"
        return
    for record in (Alert, AlertCommand):
        if rule not in choices(record, "rule"):
            yield f"events.records.{record.__name__} does not know it"
    constant = rule.upper().replace("-", "_")
    if getattr(catalog, constant, None) != rule:
        yield f"events.catalog has no constant {constant} with this name"
    if rule not in RULE_TYPES:
        yield "events.rules has no class for it in AnyKind"
    if rule not in RULE_JOBS:
        yield "events.catalog has no job of it in RULE_JOBS"
    name = RULE_JOBS.get(rule, rule.replace("-", "_"))
    job = registry.JOBS.get(name)
    if name not in JOBS:
        yield f"events.catalog has no job {name} in JobName"
    elif job and (job.rule is None or job.rule().name != rule):
        yield f"the job {name} does not have it as its rule"
    elif job and job.sink is not topics.ALERTS:
        yield f"the job {name} does not write alerts"
    if not has_function(f"{name}.{name}_alerts"):
        yield f"{ORACLES}.{name} has no function {name}_alerts"
    cells = [f"`{name}`", *([str(job.default_trigger)] if job else [])]
    if table_rows("rules.md").get(rule, [])[: len(cells)] != cells:
        yield f"docs/rules.md has no row | `{rule}` | {' | '.join(cells)} |"


def missing_of_job(name: str) -> Iterator[str]:
    """Yield what a job lacks."""
    job = registry.JOBS.get(name)
    is_of_rule = name in RULE_JOBS.values() or bool(job and job.rule)
    oracle = None if is_of_rule else ORACLE_OF_JOB.get(name, "")
    if oracle is not None and not has_function(oracle):
        yield f"{ORACLES} has no function for it: name one in ORACLE_OF_JOB"
    if job is None:
        yield f"no folder of spark_jobs has a module {name}"
        return
    if job.name != name:
        yield f"its module has a job with another name, {job.name}"
    names = {topic.name for topic in topics.ALL}
    used: list[Topic] = [*job.sources, *([job.sink] if job.sink else [])]
    yield from (f"{topic.name} is no topic" for topic in used if topic.name not in names)
    if not registry.QUESTIONS[name].endswith("?"):
        yield "its module does not start with the question that it answers"
    if Trigger.AVAILABLE_NOW not in job.plans:
        yield "it cannot run as available-now"
    flow = job.flow.replace("|", ", ").replace("+", " + ")
    expected = [flow, ", ".join(job.plans)]
    if not is_of_rule and table_rows("operations.md").get(name) != expected:
        yield f"docs/operations.md has no row | `{name}` | {' | '.join(expected)} |"


def test_every_rule_and_every_job_is_complete() -> None:
    rules = dict.fromkeys([*RULES, *RULE_JOBS, *RULE_TYPES])
    missing = [
        *(f"{rule}: {what}" for rule in rules for what in missing_of_rule(rule)),
        *(f"{name}: {what}" for name in JOBS for what in missing_of_job(name)),
    ]
    assert not missing, "\n" + "\n".join(missing)


def test_nothing_is_declared_that_the_catalog_does_not_name() -> None:
    assert tuple(registry.JOBS) == JOBS, "the registry has the jobs in the catalog's order"
    assert sorted(RULE_TYPES) == sorted(RULES)
    for record in (Alert, AlertCommand):
        assert sorted(choices(record, "rule")) == sorted(RULES), record.__name__
    assert sorted(jobs_by_rule()) == sorted(RULES)
    rules_in_docs = {
        rule for rule, row in table_rows("rules.md").items() if row[0].strip("`") in JOBS
    }
    assert rules_in_docs == set(RULES)


def test_evidence_has_fields_of_readings_alone() -> None:
    of_readings = {field.name for field in fields(RackReading)}
    lacking = {field.name for field in fields(Evidence)} - of_readings
    assert not lacking, f"events.records.RackReading has no field {', '.join(lacking)} of Evidence"


def test_the_oracles_give_the_evidence_of_the_record() -> None:
    required = {field.name for field in fields(Evidence) if field.required}
    assert set(rows.evidence(reading())) == required
