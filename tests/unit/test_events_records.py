"""Records, the Spark schemas derived from them, and the topics: the contract, written by hand once more."""

from decimal import Decimal

import msgspec
import pytest
from pyspark.sql.types import ArrayType

from events import records, topics
from events.records import encode
from events.spark_schemas import choices, is_id, spark_schema

TEXT, INSTANT, WHOLE, NUMBER, MONEY = "string", "timestamp", "bigint", "double", "decimal(18,2)"
EVIDENCE = (
    "array<struct<event_id:string,sequence:bigint,event_time:timestamp,temperature_c:double,"
    "signal_strength:double>>"
)

CONTRACT: dict[type[msgspec.Struct], dict[str, str]] = {
    records.RackReading: {
        "event_id": TEXT,
        "event_time": INSTANT,
        "rack_id": TEXT,
        "sequence": WHOLE,
        "site_id": TEXT,
        "device_type": TEXT,
        "temperature_c": NUMBER,
        "signal_strength": NUMBER,
        "scheduled_time?": INSTANT,
    },
    records.AdImpression: {
        "event_id": TEXT,
        "event_time": INSTANT,
        "impression_id": TEXT,
        "ad_id": TEXT,
        "user_id": TEXT,
        "page": TEXT,
        "scheduled_time?": INSTANT,
    },
    records.AdClick: {
        "event_id": TEXT,
        "event_time": INSTANT,
        "click_id": TEXT,
        "impression_id": TEXT,
        "ad_id": TEXT,
        "user_id": TEXT,
        "scheduled_time?": INSTANT,
    },
    records.UserAction: {
        "event_id": TEXT,
        "event_time": INSTANT,
        "user_id": TEXT,
        "action": TEXT,
        "page": TEXT,
        "amount?": MONEY,
        "device": TEXT,
        "scheduled_time?": INSTANT,
    },
    records.AlertCommand: {
        "command_id": TEXT,
        "command": TEXT,
        "rule": TEXT,
        "subject": TEXT,
        "until?": INSTANT,
        "by": TEXT,
        "event_time": INSTANT,
        "alert_id?": TEXT,
        "severity?": TEXT,
    },
    records.RackTemperature: {
        "scope": TEXT,
        "window_start": INSTANT,
        "window_end": INSTANT,
        "reading_count": WHOLE,
        "temperature_c_avg": NUMBER,
        "temperature_c_min": NUMBER,
        "temperature_c_max": NUMBER,
    },
    records.Alert: {
        "alert_id": TEXT,
        "rule": TEXT,
        "subject": TEXT,
        "site_id": TEXT,
        "state": TEXT,
        "severity": TEXT,
        "event_time": INSTANT,
        "detected_time": INSTANT,
        "summary": TEXT,
        "evidence": EVIDENCE,
    },
    records.AdAttribution: {
        "impression_id": TEXT,
        "ad_id": TEXT,
        "user_id": TEXT,
        "impression_time": INSTANT,
        "click_id?": TEXT,
        "click_time?": INSTANT,
        "seconds_to_click?": NUMBER,
    },
    records.ActionCount: {
        "window_start": INSTANT,
        "window_end": INSTANT,
        "action?": TEXT,
        "user_id?": TEXT,
        "action_count": WHOLE,
    },
    records.UserSession: {
        "user_id": TEXT,
        "session_start": INSTANT,
        "session_end": INSTANT,
        "action_count": WHOLE,
        "amount_total": MONEY,
    },
    records.UserTotal: {
        "user_id": TEXT,
        "event_time": INSTANT,
        "amount_total": MONEY,
        "purchase_count": WHOLE,
    },
    records.DeadLetter: {
        "source_topic": TEXT,
        "partition": WHOLE,
        "offset": WHOLE,
        "value?": TEXT,
        "value_base64?": TEXT,
        "value_size": WHOLE,
        "error": TEXT,
        "seen_time": INSTANT,
    },
}


@pytest.mark.parametrize("record", CONTRACT, ids=lambda record: record.__name__)
def test_a_records_spark_schema_has_the_fields_of_the_contract_and_no_other(
    record: type[msgspec.Struct],
) -> None:
    found = {
        field.name + "?" * field.nullable: field.dataType.simpleString()
        for field in spark_schema(record).fields
    }
    assert found == CONTRACT[record]


def test_every_topic_has_the_contracts_name_record_and_partitions() -> None:
    assert {topic.name: (topic.record, topic.partitions) for topic in topics.ALL} == {
        "rack-readings": (records.RackReading, 4),
        "ad-impressions": (records.AdImpression, 4),
        "ad-clicks": (records.AdClick, 4),
        "user-actions": (records.UserAction, 4),
        "alert-commands": (records.AlertCommand, 4),
        "rack-temperature": (records.RackTemperature, 4),
        "alerts": (records.Alert, 4),
        "ad-attribution": (records.AdAttribution, 4),
        "action-counts": (records.ActionCount, 4),
        "user-sessions": (records.UserSession, 4),
        "user-totals": (records.UserTotal, 4),
        "distinct-events": (None, 4),
        "dead-letters": (records.DeadLetter, 1),
    }


def test_every_record_of_a_topic_is_in_this_files_contract() -> None:
    assert {topic.record for topic in topics.ALL if topic.record} == set(CONTRACT)


def test_the_elements_of_evidence_are_never_null() -> None:
    evidence = spark_schema(records.Alert)["evidence"].dataType
    assert isinstance(evidence, ArrayType)
    assert not evidence.containsNull


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("event_id", True),
        ("rack_id", True),
        ("device_type", True),
        ("event_time", False),
        ("sequence", False),
    ],
)
def test_the_ids_of_a_reading_are_known_as_ids(field: str, expected: bool) -> None:
    assert is_id(records.RackReading, field) is expected


def test_free_text_is_no_id() -> None:
    assert not is_id(records.AdImpression, "page")


def test_an_optional_id_is_an_id() -> None:
    assert is_id(records.AdAttribution, "click_id")
    assert not is_id(records.AdAttribution, "click_time")


def test_the_choices_of_a_field_are_known_and_other_text_is_free() -> None:
    assert choices(records.UserAction, "action") == ("close", "open", "purchase", "view")
    assert choices(records.UserAction, "page") == ()
    assert choices(records.UserAction, "no such field") == ()


def test_a_type_that_has_no_spark_type_is_refused() -> None:
    class Odd(msgspec.Struct):
        flags: set[str]

    with pytest.raises(TypeError, match="no Spark type is defined for"):
        spark_schema(Odd)


def test_money_is_written_as_a_json_number_and_an_absent_field_is_left_out() -> None:
    action = records.UserAction(
        event_id="e1",
        event_time="2026-11-21T06:26:00.123Z",
        user_id="u1",
        action="purchase",
        page="/",
        device="phone",
        amount=Decimal("12.50"),
    )
    assert encode(action) == (
        b'{"event_id":"e1","event_time":"2026-11-21T06:26:00.123Z","user_id":"u1","action":"purchase",'
        b'"page":"/","device":"phone","amount":12.50}'
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"event_time": "2026-11-21T06:26:00.123"}, "Expected `str` matching regex"),
        ({"event_time": "2026-11-21T06:26:00.123+00:00"}, "Expected `str` matching regex"),
        ({"event_time": "2026-11-21T06:26:00.123Z\n"}, "Expected `str` matching regex"),
        ({"event_time": "٢٠٢٦-11-21T06:26:00.123Z"}, "Expected `str` matching regex"),
        ({"rack_id": 7}, "Expected `str`, got `int`"),
        ({"sequence": "7"}, "Expected `int`, got `str`"),
        ({"temperature_c": "71.5"}, "Expected `float`, got `str`"),
        ({"site_id": None}, "Expected `str`, got `null`"),
    ],
)
def test_a_decoder_refuses_what_the_contract_forbids(changes: dict[str, object], complaint: str) -> None:
    reading = {
        "event_id": "e1",
        "event_time": "2026-11-21T06:26:00.123Z",
        "rack_id": "rack-0001",
        "sequence": 1,
        "site_id": "site-1",
        "device_type": "gpu",
        "temperature_c": 71.5,
        "signal_strength": 1.0,
    }
    msgspec.convert(reading, records.RackReading)
    with pytest.raises(msgspec.ValidationError, match=complaint):
        msgspec.convert(reading | changes, records.RackReading)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"amount": None}, "amount is missing"),
        ({"amount": Decimal("-0.01")}, "amount is negative"),
        ({"amount": Decimal("-1e40")}, "amount is negative"),
        ({"amount": Decimal("0.001")}, "amount is not money"),
        ({"amount": Decimal("1e16")}, "amount is not money"),
        ({"amount": Decimal("NaN")}, "amount is not money"),
        ({"amount": Decimal("Infinity")}, "amount is not money"),
        ({"action": "view", "amount": Decimal(-1)}, "amount is negative"),
        ({"action": "steal"}, "Invalid enum value 'steal'"),
    ],
)
def test_an_action_with_an_amount_that_is_not_money_is_refused(
    changes: dict[str, object], complaint: str
) -> None:
    action = {
        "event_id": "e1",
        "event_time": "2026-11-21T06:26:00.123Z",
        "user_id": "u1",
        "action": "purchase",
        "page": "/",
        "device": "phone",
        "amount": Decimal("9999999999999999.99"),
    }
    for fine in ({}, {"amount": 0}, {"amount": Decimal("1.250e1")}, {"action": "view", "amount": None}):
        msgspec.convert(action | fine, records.UserAction)
    with pytest.raises(msgspec.ValidationError, match=complaint):
        msgspec.convert(action | changes, records.UserAction)
