"""Publish operators' commands to the topic `alert-commands`, which every alerting process reads."""

import getpass
import uuid
from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer

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
    failed: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": config.kafka_bootstrap_servers,
            "partitioner": "murmur2_random",  # Java's, so a subject's records share a partition
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": SEND_SECONDS * 1000,
            "log_level": 0,
        }
    )
    try:
        for command in commands:
            producer.produce(
                config.topic(ALERT_COMMANDS),
                key=command.subject.encode(),
                value=encode(command),
                on_delivery=lambda error, _: failed.append(error.str()) if error else None,
            )
        unsent = producer.flush(SEND_SECONDS + 5)
    except (KafkaException, BufferError) as error:
        raise UserFacingError(f"the command could not be sent ({error}): try again.") from None
    if failed or unsent:
        raise UserFacingError(
            f"the broker at {config.kafka_bootstrap_servers} did not accept the command "
            f"({failed[0] if failed else 'no answer'}): start it (`python -m broker up`), create "
            "the topics (`python -m broker topics`), or check KAFKA_BOOTSTRAP_SERVERS and "
            "TOPIC_PREFIX."
        )
