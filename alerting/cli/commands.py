"""Publish operators' commands to the topic `alert-commands`, which every alerting process reads."""

import getpass
import uuid
from collections.abc import Sequence

from confluent_kafka import KafkaException

from broker.topics import append
from events.catalog import RuleName
from events.cli import UserFacingError
from events.records import AlertCommand, Command, Severity, encode
from events.settings import Settings
from events.times import now_ms, to_text
from events.topics import ALERT_COMMANDS

SEND_SECONDS = 10


def new_command(
    command: Command,
    rule: RuleName,
    subject: str,
    by: str | None,
    *,
    until_ms: int | None = None,
    alert_id: str | None = None,
    severity: Severity | None = None,
) -> AlertCommand:
    """Return a command given now, by the logged-in user unless `by` names another."""
    return AlertCommand(
        command_id=uuid.uuid4().hex,
        command=command,
        rule=rule,
        subject=subject,
        by=by or _user(),
        event_time=to_text(now_ms()),
        until=None if until_ms is None else to_text(until_ms),
        alert_id=alert_id,
        severity=severity,
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"  # in a container whose user has no name


def publish(config: Settings, commands: Sequence[AlertCommand]) -> None:
    """Publish commands; raise `UserFacingError` unless the broker acknowledges all of them."""
    servers = config.kafka_bootstrap_servers
    records = [(command.subject.encode(), encode(command)) for command in commands]
    try:
        append(servers, config.topic(ALERT_COMMANDS), records, SEND_SECONDS)
    except KafkaException as error:
        raise UserFacingError(
            f"the broker at {servers} did not accept the command ({error.args[0].str()}): start it "
            "(`python -m broker up`), create the topics (`python -m broker topics`), or check "
            "KAFKA_BOOTSTRAP_SERVERS and TOPIC_PREFIX."
        ) from None
