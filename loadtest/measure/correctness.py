"""Compare the jobs' actual output with the producer's truth, as the demo does."""

from collections.abc import Mapping, Sequence
from typing import Any

from demo.clickstream import TOPICS, compare_clickstream
from demo.comparison import Comparison
from demo.verdict import (
    compare_alerts,
    compare_dead_letters,
    compare_signal_statistics,
    compare_windows,
)
from events.topics import ALERTS, DEAD_LETTERS, RACK_TEMPERATURE, SIGNAL_STATISTICS, Topic
from loadtest.plan import PointSettings
from spark_jobs.registry import JOBS
from spark_jobs.runtime.options import options_of

Row = Mapping[str, Any]
_DEAD_LETTERS = "dead letters"
_AFTER_FLUSH = {"session", "unclicked impressions"}
"""A kind of the truth and a compared output that come only after flush records."""
_KINDS_OF_TOPICS = {"window": RACK_TEMPERATURE, "signal-statistic": SIGNAL_STATISTICS, **TOPICS}
"""The kind of the truth's rows for each topic, beside alerts and dead letters."""
_WITH_TRUTH = {ALERTS, *_KINDS_OF_TOPICS.values()}
"""The topics whose records the truth predicts, beside the dead letters."""


def compared_kinds(settings: PointSettings) -> list[str]:
    """Return the kinds of rows of the truth that are compared with the outputs."""
    kinds = ["dead-letter"]
    if _changes_results(settings):
        return kinds
    if settings.rules:
        kinds.append("alert")
    sinks = _sinks(settings)
    for kind, topic in _KINDS_OF_TOPICS.items():
        if topic in sinks and (settings.flush or kind not in _AFTER_FLUSH):
            kinds.append(kind)
    return kinds


def compare_outputs(
    settings: PointSettings, truth: Mapping[str, Sequence[Row]], seen: Mapping[str, Sequence[Row]]
) -> dict[str, Comparison]:
    """Compare the truth's rows (by kind) with the outputs (by topic), where the truth covers them.

    Whatever their options, jobs must write the dead letters of the truth, or none with
    `--no-dead-letters`. Engines other than Spark must write none.
    """
    expected = {kind: truth.get(kind, ()) for kind in compared_kinds(settings)}
    compared = _results(settings, expected, seen)
    dead_letters = expected["dead-letter"] if settings.reports else ()
    reported = seen[DEAD_LETTERS.name]
    if compared or dead_letters or reported:
        compared[_DEAD_LETTERS] = compare_dead_letters(dead_letters, reported)
    return compared


def is_result(settings: PointSettings, name: str) -> bool:
    """Return whether the jobs compute a compared output; dead letters come beside it."""
    return name != _DEAD_LETTERS or DEAD_LETTERS in _sinks(settings)


def _sinks(settings: PointSettings) -> set[Topic | None]:
    return {JOBS[name].sink for name in settings.jobs}


def _changes_results(settings: PointSettings) -> bool:
    """Tell whether an option changes what a job computes, so that the truth no longer applies."""
    compared = [JOBS[name] for name in settings.jobs if JOBS[name].sink in _WITH_TRUTH]
    changing = {
        option.flag
        for job in compared
        for option in options_of(job.options)
        if not option.is_deployment_setting
    }
    return any(text.partition("=")[0] in changing for text in settings.options)


def _results(
    settings: PointSettings,
    expected: Mapping[str, Sequence[Row]],
    seen: Mapping[str, Sequence[Row]],
) -> dict[str, Comparison]:
    compared: dict[str, Comparison] = {}
    if "alert" in expected:
        # A restarted job may write an alert again, which alerting takes for a duplicate.
        alerts = {
            row["alert_id"]: row for row in seen[ALERTS.name] if row["rule"] in settings.rules
        }
        compared["alerts"] = compare_alerts(expected["alert"], list(alerts.values()))
    if "window" in expected:
        compared["windows"] = compare_windows(expected["window"], seen[RACK_TEMPERATURE.name])
    if "signal-statistic" in expected:
        compared["signal statistics"] = compare_signal_statistics(
            expected["signal-statistic"], seen[SIGNAL_STATISTICS.name]
        )
    clickstream = compare_clickstream(
        expected, {kind: seen[topic.name] for kind, topic in TOPICS.items() if kind in expected}
    )
    return compared | {
        name: comparison
        for name, comparison in clickstream.items()
        if settings.flush or name not in _AFTER_FLUSH
    }
