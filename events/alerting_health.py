"""Judge whether an alerting process is healthy, by its status (`events.alerting_status`).

Alerting's commands and metrics and the dashboard use it. Health checks run every few seconds, so
this module imports little.
"""

from events.alerting_status import AlertingStatus
from events.status_file import age_s, duration, process_problems
from events.topics import INCIDENTS

MAX_CYCLE_S = 60.0
"""A cycle of the main loop ends sooner, even when every request to the broker times out."""
MAX_UNPUBLISHED_S = 60.0
"""How long a change may wait for its publication to the topic `incidents`."""


def problems(status: AlertingStatus, at_ms: int) -> list[str]:
    """Return what is wrong with an alerting process, as sentences; none when it is healthy."""
    found = process_problems(status, at_ms)
    if found:
        return found
    if status.missing_topic is not None:
        return [f"{missing_topic_problem(status.missing_topic, status.broker.servers)}."]
    process = f"process {status.pid}"
    cycle_s = age_s(status.last_cycle_time, at_ms)
    if cycle_s > MAX_CYCLE_S:
        return [
            f"{process} has read no records for {duration(cycle_s)}: see whether the reader of "
            "its standard output is paused, or start it again."
        ]
    if status.unpublished_since is not None:
        unpublished_s = age_s(status.unpublished_since, at_ms)
        if unpublished_s > MAX_UNPUBLISHED_S:
            return [
                f"{process} could not publish incidents for {duration(unpublished_s)}: its "
                "messages say why."
            ]
    return []


def missing_topic_problem(topic: str, servers: str) -> str:
    """Return what is wrong, without a period, when a topic of alerting was deleted."""
    # The database belongs to the topics that alerting reads, of which a new one has other offsets.
    reads = "" if topic.endswith(INCIDENTS.name) else ", then start alerting with a new database"
    return (
        f"the topic {topic} no longer exists on {servers}: create the topics with "
        f"`python -m broker topics`{reads}"
    )


def incidents_as_of(status: AlertingStatus) -> str:
    """Return up to when the process is known to have published all incidents."""
    times = [status.written_time, status.last_cycle_time]
    if status.unpublished_since is not None:
        times.append(status.unpublished_since)
    if status.missing_since is not None:
        times.append(status.missing_since)
    if not status.broker.reachable:
        times.append(status.broker.since)
    return min(times)
