"""Did the right outputs come? What the jobs wrote against the producer's truth, by the same words as the demo."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from demo.clickstream import KINDS, TOPICS, compare_clickstream
from demo.comparison import Comparison
from demo.verdict import compare_alerts, compare_dead_letters, compare_windows
from events.topics import (
    ALERTS,
    DEAD_LETTERS,
    RACK_TEMPERATURE,
)
from loadtest.plan import Settings
from spark_jobs.registry import JOBS

Row = Mapping[str, Any]
_ONLY_CLOSED = ("session", "impressions alone")
"""What comes only when a flush record has closed what was open."""
_SHAPING = ("--window", "--slide", "--watermark", "--output-mode", "--by", "--gap", "--join", "--first-only")
"""With these options a job answers another question than the truth."""


def judge(
    settings: Settings, truth: Mapping[str, Sequence[Row]], seen: Mapping[str, Sequence[Row]]
) -> dict[str, Comparison]:
    """Compare the truth's rows (by kind) with the outputs (by topic), for the jobs that the truth knows."""
    if any(option.startswith(_SHAPING) for option in settings.options):
        return {}
    compared: dict[str, Comparison] = {}
    if settings.rules:
        once = {row["alert_id"]: row for row in seen[ALERTS.name] if row["rule"] in settings.rules}
        compared["alerts"] = compare_alerts(truth.get("alert", ()), list(once.values()))
    if "rack_temperature" in settings.jobs:
        compared["windows"] = compare_windows(
            truth.get("window", ()), last(seen[RACK_TEMPERATURE.name], ("scope", "window_start"))
        )
    compared.update(_clickstream(settings, truth, seen))
    if compared:
        by_event_time = any(JOBS[name].by_event_time for name in settings.jobs)
        letters = [r for r in truth.get("dead-letter", ()) if by_event_time or r["jobs"] == "all"]
        compared["dead letters"] = compare_dead_letters(letters, seen[DEAD_LETTERS.name])
    return compared


def last(rows: Iterable[Row], names: Sequence[str]) -> list[Row]:
    """Return the last row of each key."""
    return list({tuple(row[name] for name in names): row for row in rows}.values())


def _clickstream(
    settings: Settings, truth: Mapping[str, Sequence[Row]], seen: Mapping[str, Sequence[Row]]
) -> dict[str, Comparison]:
    sinks = {JOBS[name].sink for name in settings.jobs}
    kinds = [kind for kind, topic in TOPICS.items() if topic in sinks]
    if not settings.flush and "session" in kinds:
        kinds.remove("session")
    if not kinds:
        return {}
    due = {kind: truth.get(kind, ()) if kind in kinds else () for kind in KINDS}
    came = {kind: seen[topic.name] if kind in kinds else () for kind, topic in TOPICS.items()}
    came["total"] = last(came["total"], ("user_id",))
    came["action-count"] = last(came["action-count"], ("window_start", "action"))
    compared = compare_clickstream(due, came)
    names = {
        "attribution": ("impressions joined with a click", "impressions alone"),
        "session": ("sessions",),
        "total": ("totals of users",),
        "action-count": ("counts of actions",),
    }
    return {
        name: compared[name]
        for kind in kinds
        for name in names[kind]
        if settings.flush or name not in _ONLY_CLOSED
    }
