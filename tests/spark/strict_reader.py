"""Provide a strict reader of events and alerts: the contract again, without the product's records.

It decides which records are dead letters. The parsers are compared with it.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

Check = Callable[[Any], object]
MAX_ID_BYTES = 256
RULES = ("lost-signal", "rack-overheating", "silent-sensor", "site-outage", "weak-signal")


class RepeatedFieldError(Exception):
    """A field is in the object twice; JSON does not define what that means."""


def text(value: Any) -> str:
    """Return a text; a lone surrogate is none."""
    string: str = of_type(value, str)
    string.encode("utf-8")
    return string


def an_id(value: Any) -> None:
    if len(text(value).encode("utf-8")) > MAX_ID_BYTES:
        raise ValueError("too long")


def integer(value: Any) -> None:
    if not -(2**63) <= of_type(value, int) < 2**63:
        raise ValueError("beyond 64 bits")


def number(value: Any) -> None:
    if abs(float(of_type(value, int, Decimal))) == float("inf"):
        raise ValueError("infinite")


def money(value: Any) -> None:
    amount = Decimal(of_type(value, int, Decimal))
    if amount < 0 or amount >= 10**16 or amount * 100 % 1:
        raise ValueError("no money")


def moment(value: Any) -> None:
    if not re.fullmatch(r"[0-9-]{10}T[0-9:]{8}(\.[0-9]{1,6})?Z", text(value)):
        raise ValueError(value)
    datetime.fromisoformat(value)


def one_of(*values: str) -> Check:
    def check(value: Any) -> None:
        if text(value) not in values:
            raise ValueError(value)

    return check


def optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def evidence(value: Any) -> None:
    for each in of_type(value, list):
        check_all(of_type(each, dict), EVIDENCE)


def of_type(value: Any, *types: type) -> Any:
    if type(value) not in types:
        raise ValueError(f"{value!r} is none of {types}")
    return value


EVENT: dict[str, Check] = {
    "event_id": an_id,
    "event_time": moment,
    "scheduled_time": optional(moment),
}
EVIDENCE: dict[str, Check] = {
    "event_id": an_id,
    "sequence": integer,
    "event_time": moment,
    "temperature_c": number,
    "signal_strength": optional(number),
}
FIELDS: dict[str, dict[str, Check]] = {
    "rack-readings": {
        **EVENT,
        **dict.fromkeys(("rack_id", "site_id", "device_type"), an_id),
        "sequence": integer,
        "temperature_c": number,
        "signal_strength": number,
    },
    "ad-impressions": {
        **EVENT,
        **dict.fromkeys(("impression_id", "ad_id", "user_id"), an_id),
        "page": text,
    },
    "ad-clicks": {
        **EVENT,
        **dict.fromkeys(("click_id", "impression_id", "ad_id", "user_id"), an_id),
    },
    "user-actions": {
        **EVENT,
        "user_id": an_id,
        "action": one_of("open", "close", "view", "purchase"),
        "page": text,
        "device": text,
        "amount": optional(money),
    },
    "alerts": {
        **dict.fromkeys(("alert_id", "subject", "site_id"), an_id),
        "rule": one_of(*RULES),
        "state": one_of("WARNING", "NORMAL"),
        "severity": one_of("critical", "error", "warning", "info"),
        "event_time": moment,
        "detected_time": moment,
        "summary": text,
        "evidence": evidence,
    },
}
"""What each field of a topic's records must be; a field that may be missing is `optional`."""


def check_all(fields: dict[str, Any], checks: dict[str, Check]) -> None:
    for name, check in checks.items():
        check(fields.get(name))


def strictly_read(value: bytes, topic: str = "rack-readings") -> dict[str, Any]:
    """Return the fields of a topic's record; raise `ValueError` for what is a dead letter.

    Raises `RepeatedFieldError` where nothing says what a parser has to do.
    """

    def no_constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    def flat(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if max(Counter(name for name, _ in pairs).values(), default=1) > 1:
            raise RepeatedFieldError
        return dict(pairs)

    try:
        fields = json.loads(
            value.decode("utf-8"),
            parse_float=Decimal,
            parse_constant=no_constant,
            object_pairs_hook=flat,
        )
        check_all(of_type(fields, dict), FIELDS[topic])
        if fields.get("action") == "purchase" and fields.get("amount") is None:
            raise ValueError("a purchase without an amount")
    except (ArithmeticError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return {name: fields.get(name) for name in FIELDS[topic]}
