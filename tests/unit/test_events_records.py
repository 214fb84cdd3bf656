"""Records, their Spark schemas and the topics are those of the contract, written by hand here."""

import re
from decimal import Decimal

import msgspec
import pytest
from pyspark.sql.types import ArrayType

from events import records, topics
from events.ids import id_fields, long_id
from events.records import INSTANT_PATTERN, encode
from events.spark_schemas import choices, spark_schema

TEXT, INSTANT, WHOLE, NUMBER, MONEY = "string", "timestamp", "bigint", "double", "decimal(18,2)"

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
    records.SignalStatistics: {
        "window_start": INSTANT,
        "window_end": INSTANT,
        "device_type?": TEXT,
        "rack_id?": TEXT,
        "reading_count": WHOLE,
        "signal_strength_min": NUMBER,
        "signal_strength_max": NUMBER,
        "signal_strength_avg": NUMBER,
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
        "evidence": f"array<{spark_schema(records.Evidence).simpleString()}>",
    },
    records.Incident: {
        "alert_id": TEXT,
        "status": TEXT,
        "severity": TEXT,
        "rule": TEXT,
        "subject": TEXT,
        "site_id": TEXT,
        "start_time": INSTANT,
        "end_time?": INSTANT,
        "repeats": WHOLE,
        "acknowledged_by?": TEXT,
        "silenced_until?": INSTANT,
        "inhibited": "boolean",
        "flapping": "boolean",
        "summary": TEXT,
        "last_alert_id": TEXT,
    },
    records.Evidence: {
        "event_id": TEXT,
        "sequence": WHOLE,
        "event_time": INSTANT,
        "temperature_c": NUMBER,
        "signal_strength?": NUMBER,
    },
    records.AdAttribution: {
        "impression_id": TEXT,
        "ad_id": TEXT,
        "user_id": TEXT,
        "impression_time?": INSTANT,
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
        "reason": TEXT,
        "value?": TEXT,
        "value_base64?": TEXT,
        "value_size": WHOLE,
        "error": TEXT,
        "seen_time": INSTANT,
    },
}


def test_the_spark_schemas_have_the_fields_of_the_contract_and_others_only_as_optional() -> None:
    found = {
        record: {
            field.name + "?" * field.nullable: field.dataType.simpleString()
            for field in spark_schema(record).fields
        }
        for record in CONTRACT
    }
    optional = {
        record: {
            name: kind
            for name, kind in fields.items()
            if name.endswith("?") and name.removesuffix("?") not in CONTRACT[record]
        }
        for record, fields in found.items()
    }
    assert found == {record: optional[record] | CONTRACT[record] for record in CONTRACT}


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
        "signal-statistics": (records.SignalStatistics, 4),
        "incidents": (records.Incident, 4),
        "dead-letters": (records.DeadLetter, 1),
    }


def test_every_record_of_a_topic_is_in_this_files_contract() -> None:
    of_topics = {topic.record for topic in topics.ALL if topic.record}
    assert of_topics | {records.Evidence} == set(CONTRACT)


def test_the_elements_of_evidence_are_never_null() -> None:
    evidence = spark_schema(records.Alert)["evidence"].dataType
    assert isinstance(evidence, ArrayType)
    assert not evidence.containsNull


def test_ids_are_known_as_ids_and_other_fields_are_not() -> None:
    assert {
        record: id_fields(record)
        for record in (records.RackReading, records.AdImpression, records.AdAttribution)
    } == {
        records.RackReading: ("event_id", "rack_id", "site_id", "device_type"),
        records.AdImpression: ("event_id", "impression_id", "ad_id", "user_id"),
        records.AdAttribution: ("impression_id", "ad_id", "user_id", "click_id"),
    }


@pytest.mark.parametrize(
    ("user_id", "found"),
    [("x" * 256, None), ("x" * 257, "user_id"), ("é" * 128, None), ("é" * 129, "user_id")],
)
def test_an_id_is_limited_in_bytes(user_id: str, found: str | None) -> None:
    total = records.UserTotal(
        user_id=user_id,
        event_time="2026-11-21T06:26:00Z",
        amount_total=Decimal("1.00"),
        purchase_count=1,
    )
    assert long_id(total) == found


def test_a_field_has_the_choices_that_its_record_lists() -> None:
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


def problem_of(value: object, record: type[msgspec.Struct]) -> str:
    """Return the decoder's error for a value, cut before its path; empty if it accepts it."""
    try:
        msgspec.convert(value, record)
    except msgspec.ValidationError as error:
        return re.split(" - at |\\[0-9\\] ", str(error))[0].removesuffix(f" {INSTANT_PATTERN!r}")
    return ""


def test_a_decoder_refuses_what_the_contract_forbids() -> None:
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
    no_instant = "Expected `str` matching regex"
    cases: list[tuple[dict[str, object], str]] = [
        ({}, ""),
        ({"event_time": "2026-11-21T06:26:00.123"}, no_instant),
        ({"event_time": "2026-11-21T06:26:00.123+00:00"}, no_instant),
        ({"event_time": "2026-11-21T06:26:00.123Z\n"}, no_instant),
        ({"event_time": "٢٠٢٦-11-21T06:26:00.123Z"}, no_instant),
        ({"rack_id": 7}, "Expected `str`, got `int`"),
        ({"sequence": "7"}, "Expected `int`, got `str`"),
        ({"temperature_c": "71.5"}, "Expected `float`, got `str`"),
        ({"site_id": None}, "Expected `str`, got `null`"),
    ]
    found = [(changes, problem_of(reading | changes, records.RackReading)) for changes, _ in cases]
    assert found == cases


def test_an_action_is_refused_unless_its_amount_is_money() -> None:
    action = {
        "event_id": "e1",
        "event_time": "2026-11-21T06:26:00.123Z",
        "user_id": "u1",
        "action": "purchase",
        "page": "/",
        "device": "phone",
        "amount": Decimal("9999999999999999.99"),
    }
    cases: list[tuple[dict[str, object], str]] = [
        ({}, ""),
        ({"amount": 0}, ""),
        ({"amount": Decimal("1.250e1")}, ""),
        ({"action": "view", "amount": None}, ""),
        ({"amount": None}, "amount is missing"),
        ({"amount": Decimal("-0.01")}, "amount is negative"),
        ({"amount": Decimal("-1e40")}, "amount is negative"),
        ({"amount": Decimal("0.001")}, "amount is not money"),
        ({"amount": Decimal("1e16")}, "amount is not money"),
        ({"amount": Decimal("NaN")}, "amount is not money"),
        ({"amount": Decimal("Infinity")}, "amount is not money"),
        ({"action": "view", "amount": Decimal(-1)}, "amount is negative"),
        ({"action": "steal"}, "Invalid enum value 'steal'"),
    ]
    found = [problem_of(action | changes, records.UserAction) for changes, _ in cases]
    assert found == [problem for _, problem in cases]
