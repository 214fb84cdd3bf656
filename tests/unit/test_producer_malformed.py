"""Every way to corrupt a record makes one that the contract calls a dead letter."""

from typing import Any

import msgspec
import pytest

from events.records import MAX_ID_BYTES, Event, UserAction
from events.topics import AD_CLICKS, AD_IMPRESSIONS, RACK_READINGS, USER_ACTIONS, Topic
from producer.malformed import HUGE_ID_BYTES, LARGE_BYTES, corrupt, default_kinds
from tests.builders import action, click, impression, reading
from tests.unit.clickstream import decoded

COMMON: dict[str, Any] = {"event_id": "run-1", "event_time": "2026-11-21T06:26:00.123Z"}
READING = reading(7, 71.25, "rack-0007", **COMMON)
EVENTS: dict[Topic, Event] = {
    RACK_READINGS: READING,
    AD_IMPRESSIONS: impression(**COMMON),
    AD_CLICKS: click(**COMMON),
    USER_ACTIONS: action(user_id="u", device="tv", **COMMON),
}


def test_no_kind_of_malformed_record_can_be_read() -> None:
    readable = [
        (topic.name, kind)
        for topic, event in EVENTS.items()
        for kind in (*default_kinds(topic), "large")
        if decoded(corrupt(event, kind), type(event)) is not None
    ]
    assert readable == []


def test_each_kind_has_only_the_mistake_in_its_name() -> None:
    fields = {"sequence": 7, "rack_id": "rack-0007", "temperature_c": 71.25, "site_id": "site-a"}
    for kind, field, wrong in (
        ("null-field", "sequence", None),
        ("string-for-number", "temperature_c", "71.5"),
        ("number-for-string", "rack_id", 7),
        ("fraction-for-integer", "sequence", 7.5),
        ("long-id", "site_id", "s" * (MAX_ID_BYTES + 44)),
    ):
        value = msgspec.json.decode(corrupt(READING, kind))  # type: ignore[arg-type]
        assert {name: value[name] for name in fields} == {**fields, field: wrong}
    assert "temperature_c" not in msgspec.json.decode(corrupt(READING, "missing-field"))
    assert b'"temperature_c":NaN' in corrupt(READING, "nan")
    assert b'"temperature_c":-Infinity' in corrupt(READING, "infinity")
    assert b'"event_time":"2026-11-21T06:26:00.123",' in corrupt(READING, "time-without-z")
    assert corrupt(READING, "empty") == b""
    assert len(corrupt(READING, "large")) == LARGE_BYTES
    with pytest.raises(UnicodeDecodeError):
        corrupt(READING, "not-utf8").decode()


def test_each_kind_of_malformed_purchase_is_wrong_only_in_its_amount() -> None:
    for kind, amount in (
        ("negative-amount", b'"amount":-12.50'),
        ("string-for-amount", b'"amount":"12.50"'),
        ("nan-amount", b'"amount":NaN'),
        ("fraction-of-a-cent", b'"amount":12.505'),
        ("missing-amount", b'"device":"tv"'),
    ):
        value = corrupt(EVENTS[USER_ACTIONS], kind)  # type: ignore[arg-type]
        assert value.startswith(
            b'{"event_id":"run-1","event_time":"2026-11-21T06:26:00.123Z",'
            b'"user_id":"u","action":"purchase",'
        )
        assert value.endswith(amount + b"}")
        assert decoded(value.replace(amount, b'"device":"tv","amount":12.50'), UserAction)


def test_malformed_ids_and_times_are_as_their_kind_says() -> None:
    click = EVENTS[AD_CLICKS]
    assert len(msgspec.json.decode(corrupt(click, "huge-id"))["user_id"]) == HUGE_ID_BYTES == 10_000
    assert (
        msgspec.json.decode(corrupt(click, "time-with-offset"))["event_time"]
        == "2026-11-21T06:26:00.123+02:00"
    )


def test_the_kinds_of_readings_keep_their_order() -> None:
    assert default_kinds(RACK_READINGS) == (
        "not-json", "not-an-object", "not-utf8", "empty", "missing-field", "null-field",
        "string-for-number", "number-for-string", "fraction-for-integer", "nan", "infinity",
        "time-without-z", "long-id",
    )  # fmt: skip
