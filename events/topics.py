"""The topics of the contract: name, partitions, and the record that flows in each."""

from dataclasses import dataclass

import msgspec

from events import records


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its name without prefix, the record in it (None: as its input), its partition count."""

    name: str
    record: type[msgspec.Struct] | None
    partitions: int = 4


RACK_READINGS = Topic("rack-readings", records.RackReading)
AD_IMPRESSIONS = Topic("ad-impressions", records.AdImpression)
AD_CLICKS = Topic("ad-clicks", records.AdClick)
USER_ACTIONS = Topic("user-actions", records.UserAction)
ALERT_COMMANDS = Topic("alert-commands", records.AlertCommand)
RACK_TEMPERATURE = Topic("rack-temperature", records.RackTemperature)
ALERTS = Topic("alerts", records.Alert)
AD_ATTRIBUTION = Topic("ad-attribution", records.AdAttribution)
ACTION_COUNTS = Topic("action-counts", records.ActionCount)
USER_SESSIONS = Topic("user-sessions", records.UserSession)
USER_TOTALS = Topic("user-totals", records.UserTotal)
DISTINCT_EVENTS = Topic("distinct-events", None)
DEAD_LETTERS = Topic("dead-letters", records.DeadLetter, partitions=1)

ALL = (
    RACK_READINGS,
    AD_IMPRESSIONS,
    AD_CLICKS,
    USER_ACTIONS,
    ALERT_COMMANDS,
    RACK_TEMPERATURE,
    ALERTS,
    AD_ATTRIBUTION,
    ACTION_COUNTS,
    USER_SESSIONS,
    USER_TOTALS,
    DISTINCT_EVENTS,
    DEAD_LETTERS,
)

TOPIC_CONFIG = {"message.timestamp.type": "LogAppendTime"}
"""Append time is what orders a subject's records and what silence is measured by."""
