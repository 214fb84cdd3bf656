"""Define the records of the contract: each field's name, type and unit, only here.

The producer encodes them, alerting decodes them, and `events.spark_schemas` derives the Spark
schemas from them. Times are text here, as on the wire: ISO-8601 in UTC with `Z` (see
`events.times`).
"""

from decimal import Decimal
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from events.catalog import RuleName

INSTANT_PATTERN = (
    r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z(?![\s\S])"
)
"""Written to mean the same in Python and in Java.

They differ in what else `\\d` and `$` match, and in the year 0.
"""
MAX_ID_BYTES = 256
MONEY_BELOW = Decimal(10) ** 16
CENT = Decimal("0.01")

Instant = Annotated[str, Meta(pattern=INSTANT_PATTERN, extra={"spark": "timestamp"})]
"""A moment in UTC: `2026-11-21T06:26:00.123Z`."""

Id = Annotated[str, Meta(max_length=MAX_ID_BYTES, extra={"spark": "id"})]
"""Any text of up to 256 bytes; `events.ids` says which record has a longer one."""

Money = Annotated[Decimal, Meta(extra={"spark": "decimal(18,2)"})]
"""A JSON number in the currency's unit, with at most two decimals and less than 10^16."""

Action = Literal["open", "close", "view", "purchase"]
"""What a user can do; an action with another value is unreadable."""

State = Literal["WARNING", "NORMAL"]
Severity = Literal["critical", "error", "warning", "info"]
Command = Literal["ack", "silence", "unsilence"]

IncidentStatus = Literal["firing", "acknowledged", "silenced", "resolved"]
"""The status of an incident as an operator sees it."""

DeadLetterReason = Literal["unreadable", "future"]
"""Why a record was set aside: nobody can read it, or its event time is too far in the future."""


class RequiredWhen(NamedTuple):
    """A rule of a record: `field` may not be missing where `other` has this value."""

    field: str
    other: str
    value: str


class Event(Struct, kw_only=True, omit_defaults=True):
    """The fields of every input event; records with the same `event_id` are one event."""

    required_when: ClassVar[tuple[RequiredWhen, ...]] = ()

    event_id: Id
    event_time: Instant


class RackReading(Event, kw_only=True):
    """One temperature measured in a rack; its gateway counts its readings in `sequence`."""

    rack_id: Id
    sequence: int
    site_id: Id
    device_type: Id
    temperature_c: float
    signal_strength: float
    scheduled_time: Instant | None = None


class AdImpression(Event, kw_only=True):
    """One ad shown to one user."""

    impression_id: Id
    ad_id: Id
    user_id: Id
    page: str
    scheduled_time: Instant | None = None


class AdClick(Event, kw_only=True):
    """One click, with the impression's ad and user; the impression may be unknown."""

    click_id: Id
    impression_id: Id
    ad_id: Id
    user_id: Id
    scheduled_time: Instant | None = None


class UserAction(Event, kw_only=True):
    """One thing that a user did.

    A purchase has an `amount` (`required_when`): not negative, in whole cents (`money_fault`).
    Another action may have one, which must be valid too and is ignored. An action that violates
    this is unreadable.
    """

    required_when = (RequiredWhen("amount", "action", "purchase"),)

    user_id: Id
    action: Action
    page: str
    device: str
    amount: Money | None = None
    scheduled_time: Instant | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError`, which decoders report as theirs, for an invalid amount."""
        for rule in self.required_when:
            if getattr(self, rule.other) == rule.value and getattr(self, rule.field) is None:
                raise ValueError(f"{rule.field} is missing")
        if self.amount is not None and (fault := money_fault(self.amount)):
            raise ValueError(fault)


class AlertCommand(Struct, kw_only=True, omit_defaults=True):
    """What a person did to alerts; records with the same `command_id` are one command.

    A silence ends at `until`; its subject is a rack, or a site for everything there. An `ack` names
    what the person saw: the `alert_id` that opened the incident, and the `severity`. Without them
    it means what was firing at its `event_time`.
    """

    command_id: Id
    command: Command
    rule: RuleName
    subject: Id
    by: str
    event_time: Instant
    until: Instant | None = None
    alert_id: str | None = None
    severity: Severity | None = None


class InventoryRack(Struct, kw_only=True, omit_defaults=True):
    """One line of the inventory: a rack, its site and type, its threshold and its rate."""

    rack_id: Id
    site_id: Id
    device_type: Id
    threshold_c: float
    readings_per_second: Annotated[float, Meta(ge=0, le=1e9)]
    severity: Severity | None = None
    """Severity of a `WARNING`, unless the rule has its own."""


class RackTemperature(Struct, kw_only=True):
    """One window of one scope (`fleet` or a rack); a later record replaces the earlier."""

    scope: str
    window_start: Instant
    window_end: Instant
    reading_count: int
    temperature_c_avg: float
    temperature_c_min: float
    temperature_c_max: float


class SignalStatistics(Struct, kw_only=True):
    """The signal strengths of a device type or of a rack in one window.

    The one not grouped by is null. A later record replaces the earlier.
    """

    window_start: Instant
    window_end: Instant
    device_type: Id | None
    rack_id: Id | None
    reading_count: int
    signal_strength_min: float
    signal_strength_max: float
    signal_strength_avg: float


class Evidence(Struct, kw_only=True, omit_defaults=True):
    """A reading that triggered an alert, with its signal strength where the rule uses it."""

    event_id: Id
    sequence: int
    event_time: Instant
    temperature_c: float
    signal_strength: float | None = None


class Alert(Struct, kw_only=True):
    """One change of state of one subject under one rule; its `alert_id` is deterministic."""

    alert_id: Id
    rule: RuleName
    subject: Id
    site_id: Id
    state: State
    severity: Severity
    event_time: Instant
    detected_time: Instant
    summary: str
    evidence: list[Evidence]


class Incident(Struct, kw_only=True, frozen=True):
    """An incident as an operator sees it; `alert_id` is that of the alert that opened it.

    - `repeats`: alerts that arrived again and were not logged again.
    - `inhibited`: an outage of the site suppresses its notifications.
    - `flapping`: the last notification about it said that it is flapping.
    - `last_alert_id`: the alert that changed it last.
    """

    alert_id: str
    status: IncidentStatus
    severity: Severity
    rule: RuleName
    subject: Id
    site_id: Id
    start_time: Instant
    end_time: Instant | None
    repeats: int
    acknowledged_by: str | None
    silenced_until: Instant | None
    inhibited: bool
    flapping: bool
    summary: str
    last_alert_id: str


class AdAttribution(Struct, kw_only=True):
    """An impression with one of its clicks within the hour, or without a click.

    Ad and user are the impression's. `seconds_to_click` is 0.0 to 3600.0, to the millisecond. With
    `--join right` or `full` a click without an impression has a record, too: its own ids, and null
    for `impression_time` and `seconds_to_click`.
    """

    impression_id: Id
    ad_id: Id
    user_id: Id
    impression_time: Instant | None
    click_id: Id | None
    click_time: Instant | None
    seconds_to_click: float | None


class ActionCount(Struct, kw_only=True):
    """How many records an action or a user has in start ≤ event time < end, duplicates included.

    The one not grouped by is null.
    """

    window_start: Instant
    window_end: Instant
    action: str | None
    user_id: Id | None
    action_count: int


class UserSession(Struct, kw_only=True):
    """One session of a user: distinct actions, each at most the gap after the one before.

    `session_start` is the time of the first action, `session_end` the gap after the last, as in
    Spark: an action at that moment still belongs to it. `amount_total` is the sum of the purchases.
    """

    user_id: Id
    session_start: Instant
    session_end: Instant
    action_count: int
    amount_total: Money


class UserTotal(Struct, kw_only=True):
    """The running total of a user's distinct purchases; the last record counts.

    `event_time` is that of the latest purchase. A user without a purchase has no total.
    """

    user_id: Id
    event_time: Instant
    amount_total: Money
    purchase_count: int


class DeadLetter(Struct, kw_only=True):
    """A record that was set aside, identified by `source_topic`, `partition` and `offset`.

    Event-time jobs leave out a `future` record; rules by `sequence` or append time count it.
    """

    source_topic: str
    partition: int
    offset: int
    reason: DeadLetterReason
    value: str | None
    value_base64: str | None
    value_size: int
    error: str
    seen_time: Instant


def money_fault(amount: Decimal) -> str | None:
    """Return what is wrong with an amount as a sentence, or None."""
    if amount.is_finite() and amount < 0:
        return "amount is negative"
    if not amount.is_finite() or amount >= MONEY_BELOW or amount != amount.quantize(CENT):
        return "amount is not money"
    return None


def rules_of(record: type[Struct]) -> tuple[RequiredWhen, ...]:
    """Return which fields of a record may be missing only sometimes."""
    return record.required_when if issubclass(record, Event) else ()


def encode(record: Struct) -> bytes:
    """Encode a record as one JSON object; money becomes a JSON number."""
    return _ENCODER.encode(record)


_ENCODER = msgspec.json.Encoder(decimal_format="number")
