"""Define the status of an alerting process: `alerting run` writes it, everything else reads it.

Health checks run every few seconds, so this module imports little.
"""

from events.status_file import ProgramStatus

PROGRAM = "alerting"


class AlertingStatus(ProgramStatus, kw_only=True):
    """What the status file of an alerting process holds, besides what every program's does.

    - `database`: the path of its database.
    - `last_cycle_time`: when the main loop last began to look for records.
    - `missing_topic`: a topic that the broker had, and has no longer, or None.
    - `missing_since`: since when it has not had it.
    - `unpublished_since`: since when some incidents wait for their publication, or None.
    - `alerts`, `repeats`, `malformed`: the records read since the process started.
    """

    database: str
    last_cycle_time: str
    missing_topic: str | None = None
    missing_since: str | None = None
    unpublished_since: str | None = None
    alerts: int = 0
    repeats: int = 0
    malformed: int = 0
