"""The records of the contract, one class each: the only definition of every field's name, type and unit.

The producer encodes them, alerting decodes them, `events.spark_schemas` derives the Spark schemas from them.
Times are text here, as on the wire: ISO-8601 in UTC with `Z` (`events.times` converts).
"""

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

INSTANT_PATTERN = r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z(?![\s\S])"
"""Means the same in Python and in Java, which differ in what else `\\d` and `$` match, and in the year 0."""
MAX_ID_BYTES = 256
MONEY_BELOW = Decimal(10) ** 16
CENT = Decimal("0.01")

Instant = Annotated[str, Meta(pattern=INSTANT_PATTERN, extra={"spark": "timestamp"})]
"""A moment in UTC: `2026-11-21T06:26:00.123Z`."""

Id = Annotated[str, Meta(max_length=MAX_ID_BYTES, extra={"spark": "id"})]
"""Any text of up to 256 bytes."""

Money = Annotated[Decimal, Meta(extra={"spark": "decimal(18,2)"})]
"""A JSON number in the currency's unit, with at most two decimals and less than 10^16."""

Action = Literal["open", "close", "view", "purchase"]
"""What a user can do; anything else cannot be read."""

Rule = Literal["rack-overheating", "lost-signal", "silent-sensor", "weak-signal", "site-outage"]
State = Literal["WARNING", "NORMAL"]
Severity = Literal["critical", "error", "warning", "info"]
Command = Literal["ack", "silence", "unsilence"]


class Event(Struct, kw_only=True, omit_defaults=True):
    """What every input event has. Two records with the same `event_id` are one event sent twice."""

    event_id: Id
    event_time: Instant


class RackReading(Event, kw_only=True):
    """One temperature measured in a rack. `sequence` grows with each reading of the rack's gateway."""

    rack_id: Id
    sequence: int
    site_id: Id
    device_type: Id
    temperature_c: float
    signal_strength: float
    scheduled_time: Instant | None = None


class AdImpression(Event, kw_only=True):
    """One advertisement shown to one user."""

    impression_id: Id
    ad_id: Id
    user_id: Id
    page: str
    scheduled_time: Instant | None = None


class AdClick(Event, kw_only=True):
    """One click on an impression, whose ad and user it repeats; the impression may be unknown."""

    click_id: Id
    impression_id: Id
    ad_id: Id
    user_id: Id
    scheduled_time: Instant | None = None


class UserAction(Event, kw_only=True):
    """One thing a user did.

    `amount` comes with a purchase, is never negative and never finer than a cent. With another action it may be
    there, has to be as good, and counts for nothing. Anything else is `money_fault`, and cannot be read.
    """

    user_id: Id
    action: Action
    page: str
    device: str
    amount: Money | None = None
    scheduled_time: Instant | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` for an amount that is missing or is not money; decoders report it as theirs."""
        if (fault := money_fault(self.action, self.amount)) is not None:
            raise ValueError(fault)


class AlertCommand(Struct, kw_only=True, omit_defaults=True):
    """What a person did to alerts. Two records with the same `command_id` are one command sent twice.

    A silence has an end, `until`; its subject is a rack, or a site for everything there. An `ack` says by
    `alert_id` (of the alert that opened it) and `severity` what the person saw; without them it means what was
    firing at its `event_time`.
    """

    command_id: Id
    command: Command
    rule: Rule
    subject: Id
    by: str
    event_time: Instant
    until: Instant | None = None
    alert_id: str | None = None
    severity: Severity | None = None


class InventoryRack(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=False):
    """One line of the inventory: a rack, where it stands and when it is too hot."""

    rack_id: Id
    site_id: Id
    device_type: Id
    threshold_c: float
    readings_per_second: float
    severity: Severity | None = None
    """Of a `WARNING`, where rules leave it to the rack."""


class RackTemperature(Struct, kw_only=True):
    """One window of one scope (`fleet` or a rack). A later record for the same key replaces the earlier."""

    scope: str
    window_start: Instant
    window_end: Instant
    reading_count: int
    temperature_c_avg: float
    temperature_c_min: float
    temperature_c_max: float


class Evidence(Struct, kw_only=True, omit_defaults=True):
    """A reading that decided an alert; the signal strength only where it was what decided."""

    event_id: Id
    sequence: int
    event_time: Instant
    temperature_c: float
    signal_strength: float | None = None


class Alert(Struct, kw_only=True):
    """One change of state of one subject under one rule. See the contract for how `alert_id` is made."""

    alert_id: str
    rule: Rule
    subject: Id
    site_id: Id
    state: State
    severity: Severity
    event_time: Instant
    detected_time: Instant
    summary: str
    evidence: list[Evidence]


class AdAttribution(Struct, kw_only=True):
    """An impression with one of its clicks within the hour, or with none. Ad and user are the impression's.

    `seconds_to_click` is from impression to click, to the millisecond: 0.0 to 3600.0.
    """

    impression_id: Id
    ad_id: Id
    user_id: Id
    impression_time: Instant
    click_id: Id | None
    click_time: Instant | None
    seconds_to_click: float | None


class ActionCount(Struct, kw_only=True):
    """How often an action was done, or a user acted, in start ≤ event time < end; repeats are counted.

    The one not grouped by is null.
    """

    window_start: Instant
    window_end: Instant
    action: str | None
    user_id: Id | None
    action_count: int


class UserSession(Struct, kw_only=True):
    """One session of one user: distinct actions, each at most the gap after the one before it, as Spark has it.

    `session_start` is the time of the first, `session_end` the gap after the last: an action at that very moment
    still belongs to it. `amount_total` is over the purchases; 0 when there are none.
    """

    user_id: Id
    session_start: Instant
    session_end: Instant
    action_count: int
    amount_total: Money


class UserTotal(Struct, kw_only=True):
    """The running total of one user's distinct purchases, `event_time` that of the latest; the last record counts.

    Who has bought nothing has no total.
    """

    user_id: Id
    event_time: Instant
    amount_total: Money
    purchase_count: int


class DeadLetter(Struct, kw_only=True):
    """A record that could not be read. `source_topic`, `partition` and `offset` together are its identity."""

    source_topic: str
    partition: int
    offset: int
    value: str | None
    value_base64: str | None
    value_size: int
    error: str
    seen_time: Instant


def money_fault(action: str, amount: Decimal | None) -> str | None:
    """Return what is wrong with the amount of an action, as a sentence, or None."""
    if amount is None:
        return "amount is missing" if action == "purchase" else None
    if amount.is_finite() and amount < 0:
        return "amount is negative"
    if not amount.is_finite() or amount >= MONEY_BELOW or amount != amount.quantize(CENT):
        return "amount is not money"
    return None


def encode(record: Struct) -> bytes:
    """Encode a record as the one JSON object that goes into its topic; money becomes a JSON number."""
    return _ENCODER.encode(record)


_ENCODER = msgspec.json.Encoder(decimal_format="number")
