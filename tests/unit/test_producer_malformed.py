"""Every way to spoil a record makes one that the contract calls a dead letter."""

import msgspec
import pytest

from events.records import MAX_ID_BYTES, AdClick, AdImpression, Event, RackReading, UserAction
from events.topics import AD_CLICKS, AD_IMPRESSIONS, RACK_READINGS, USER_ACTIONS, Topic
from producer.malformed import HUGE_ID_BYTES, LARGE_BYTES, MalformedKind, spoil, usual_kinds
from tests.unit.clickstream import decoded

READING = RackReading(
    event_id="run-1",
    event_time="2026-11-21T06:26:00.123Z",
    rack_id="rack-0007",
    sequence=7,
    site_id="site-a",
    device_type="gpu-server",
    temperature_c=71.25,
    signal_strength=0.5,
)


@pytest.mark.parametrize("kind", (*usual_kinds(RACK_READINGS), "large"))
def test_no_kind_can_be_read_strictly(kind: MalformedKind) -> None:
    value = spoil(READING, kind)
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        msgspec.json.decode(value, type=RackReading, strict=True)


def test_each_kind_has_the_one_mistake_that_it_is_named_for() -> None:
    fields = {"sequence": 7, "rack_id": "rack-0007", "temperature_c": 71.25, "site_id": "site-a"}
    for kind, field, wrong in (
        ("null-field", "sequence", None),
        ("string-for-number", "temperature_c", "71.5"),
        ("number-for-string", "rack_id", 7),
        ("fraction-for-integer", "sequence", 7.5),
        ("long-id", "site_id", "s" * (MAX_ID_BYTES + 44)),
    ):
        decoded = msgspec.json.decode(spoil(READING, kind))  # type: ignore[arg-type]
        assert {name: decoded[name] for name in fields} == {**fields, field: wrong}
    assert "temperature_c" not in msgspec.json.decode(spoil(READING, "missing-field"))
    assert b'"temperature_c":NaN' in spoil(READING, "nan")
    assert b'"temperature_c":-Infinity' in spoil(READING, "infinity")
    assert b'"event_time":"2026-11-21T06:26:00.123",' in spoil(READING, "time-without-z")
    assert spoil(READING, "empty") == b""
    assert len(spoil(READING, "large")) == LARGE_BYTES
    with pytest.raises(UnicodeDecodeError):
        spoil(READING, "not-utf8").decode()


CLICKSTREAM: dict[str, Event] = {
    AD_IMPRESSIONS.name: AdImpression(
        event_id="run-1",
        event_time="2026-11-21T06:26:00.123Z",
        impression_id="i",
        ad_id="a",
        user_id="u",
        page="/",
    ),
    AD_CLICKS.name: AdClick(
        event_id="run-1",
        event_time="2026-11-21T06:26:00.123Z",
        click_id="c",
        impression_id="i",
        ad_id="a",
        user_id="u",
    ),
    USER_ACTIONS.name: UserAction(
        event_id="run-1",
        event_time="2026-11-21T06:26:00.123Z",
        user_id="u",
        action="view",
        page="/",
        device="tv",
    ),
}


@pytest.mark.parametrize(
    ("topic", "kind"),
    [(t, kind) for t in (AD_IMPRESSIONS, AD_CLICKS, USER_ACTIONS) for kind in (*usual_kinds(t), "large")],
    ids=lambda value: getattr(value, "name", value),
)
def test_no_kind_of_the_clickstream_can_be_read(topic: Topic, kind: MalformedKind) -> None:
    assert topic.record is not None
    assert decoded(spoil(CLICKSTREAM[topic.name], kind), topic.record) is None


def test_every_kind_of_a_purchase_is_wrong_in_its_amount_only() -> None:
    for kind, amount in (
        ("negative-amount", b'"amount":-12.50'),
        ("string-for-amount", b'"amount":"12.50"'),
        ("nan-amount", b'"amount":NaN'),
        ("fraction-of-a-cent", b'"amount":12.505'),
        ("missing-amount", b'"device":"tv"'),
    ):
        value = spoil(CLICKSTREAM[USER_ACTIONS.name], kind)  # type: ignore[arg-type]
        assert value.startswith(
            b'{"event_id":"run-1","event_time":"2026-11-21T06:26:00.123Z","user_id":"u","action":"purchase",'
        )
        assert value.endswith(amount + b"}")
        assert decoded(value.replace(amount, b'"device":"tv","amount":12.50'), UserAction)


def test_ids_and_zones_are_as_wrong_as_their_kind_says() -> None:
    click = CLICKSTREAM[AD_CLICKS.name]
    assert len(msgspec.json.decode(spoil(click, "huge-id"))["user_id"]) == HUGE_ID_BYTES == 10_000
    assert (
        msgspec.json.decode(spoil(click, "time-with-offset"))["event_time"] == "2026-11-21T06:26:00.123+02:00"
    )


def test_racks_keep_their_kinds_in_their_order() -> None:
    assert usual_kinds(RACK_READINGS) == (
        "not-json", "not-an-object", "not-utf8", "empty", "missing-field", "null-field", "string-for-number",
        "number-for-string", "fraction-for-integer", "nan", "infinity", "time-without-z", "long-id",
    )  # fmt: skip
