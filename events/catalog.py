"""Name all rules and jobs, each in one place.

A rule's name is what alerts carry; a job's name is what the command line takes. Everything that
names one (rules files, jobs, oracles, the demo, deployment, docs) takes it from here.
"""

from typing import Final, Literal, get_args

RuleName = Literal["rack-overheating", "lost-signal", "silent-sensor", "weak-signal", "site-outage"]
RULES: tuple[RuleName, ...] = get_args(RuleName)

RACK_OVERHEATING: Final = "rack-overheating"
LOST_SIGNAL: Final = "lost-signal"
SILENT_SENSOR: Final = "silent-sensor"
WEAK_SIGNAL: Final = "weak-signal"
SITE_OUTAGE: Final = "site-outage"

JobName = Literal[
    "rack_temperature",
    "overheating",
    "ad_attribution",
    "action_counts",
    "user_sessions",
    "user_totals",
    "deduplicate",
    "archive",
    "lost_signal",
    "silent_sensor",
    "weak_signal",
    "site_outage",
    "signal_statistics",
    "dead_letters",
]
JOBS: tuple[JobName, ...] = get_args(JobName)

RULE_JOBS: Final[dict[str, JobName]] = {
    RACK_OVERHEATING: "overheating",
    LOST_SIGNAL: "lost_signal",
    SILENT_SENSOR: "silent_sensor",
    WEAK_SIGNAL: "weak_signal",
    SITE_OUTAGE: "site_outage",
}
"""The job that evaluates each rule; the rule's oracle has the job's name too."""
