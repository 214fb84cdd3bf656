"""Check what a browser asks of alerting, and publish it to the topic `alert-commands`."""

import uuid
from threading import BoundedSemaphore

import msgspec
from confluent_kafka import KafkaException

from broker.topics import append
from dashboard.state import State
from events.catalog import RULES
from events.ids import is_too_long
from events.records import AlertCommand, Command, Instant, Severity, encode
from events.settings import Settings
from events.times import to_ms, to_text
from events.topics import ALERT_COMMANDS

SEND_S = 5.0
MAX_IN_FLIGHT = 8
DEFAULT_BY = "dashboard"
MAX_BY_CHARACTERS = 100


class CommandRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a browser asks for; `alert_id` and `severity` say what the person saw."""

    command: Command
    rule: str
    subject: str
    until: Instant | None = None
    alert_id: str | None = None
    severity: Severity | None = None
    by: str = DEFAULT_BY


class CommandError(Exception):
    """A command that is not carried out: an HTTP status, and a sentence for the person."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def read_command(body: bytes, state: State, now_ms: int) -> AlertCommand:
    """Return the command that a request's body asks for; raise `CommandError` for a wrong one."""
    try:
        request = _REQUEST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandError(400, f"The command cannot be read: {error}.") from None
    _require_target(request, state)
    if request.command == "silence":
        if request.until is None:
            raise CommandError(400, "A silence needs the time at which it ends, in until.")
        try:
            until_ms = to_ms(request.until)
        except ValueError:
            raise CommandError(400, "No calendar has the time in until.") from None
        if until_ms <= now_ms:
            raise CommandError(400, "A silence must end in the future: check until.")
    elif request.until is not None:
        raise CommandError(400, f"{request.command} takes no until.")
    if not 0 < len(request.by.strip()) <= MAX_BY_CHARACTERS:
        raise CommandError(400, f"by must have 1 to {MAX_BY_CHARACTERS} characters.")
    fields = msgspec.structs.asdict(request)
    given = {"command_id": uuid.uuid4().hex, "event_time": to_text(now_ms)}
    return msgspec.convert(fields | given, AlertCommand)


def _require_target(request: CommandRequest, state: State) -> None:
    if request.rule not in RULES:
        raise CommandError(404, f"There is no rule {request.rule[:100]!r}.")
    has_incident = state.knows_incident(request.rule, request.subject)
    is_known = request.command != "ack" and state.knows_subject(request.subject)
    if is_too_long(request.subject) or not (has_incident or is_known):
        what = "incident of this rule" if request.command == "ack" else "rack or site"
        raise CommandError(404, f"No {what} is known by this name.")


class CommandPublisher:
    """Sends commands, a few at a time, and waits until the broker has each."""

    def __init__(self, settings: Settings) -> None:
        self._servers = settings.kafka_bootstrap_servers
        self._topic = settings.topic(ALERT_COMMANDS)
        self._slots = BoundedSemaphore(MAX_IN_FLIGHT)

    def publish(self, command: AlertCommand) -> None:
        """Send a command; raise `CommandError` unless the broker acknowledges it."""
        if not self._slots.acquire(blocking=False):
            raise CommandError(503, "Too many commands are being sent: try again.")
        try:
            self._send(command)
        finally:
            self._slots.release()

    def _send(self, command: AlertCommand) -> None:
        record = command.subject.encode(), encode(command)
        try:
            append(self._servers, self._topic, [record], SEND_S)
        except KafkaException as error:
            why = error.args[0].str()
            raise CommandError(
                503, f"The broker did not accept the command ({why}): try again."
            ) from None


_REQUEST = msgspec.json.Decoder(CommandRequest)
