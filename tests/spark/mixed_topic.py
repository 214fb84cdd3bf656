"""Build a topic of readable and unreadable records, and compare the jobs' outputs with it."""

import base64
import json
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from random import Random
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from events.records import RackReading, encode
from events.rules import Overheating, Rules, WeakSignal
from events.times import now_ms, to_ms
from events.topics import (
    ALERTS,
    DEAD_LETTERS,
    RACK_READINGS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
)
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rack_temperature import temperature_windows
from producer.expected.oracles.rule_lookup import rule_lookup
from producer.expected.oracles.signal_statistics import signal_statistics
from producer.expected.oracles.weak_signal import weak_signal_alerts
from tests.builders import rack
from tests.spark.rack_histories import alerts_by_id, deliveries, interleaved, stable_fields
from tests.support import Kafka, Record

KeyedValue = tuple[bytes | None, bytes | None]
NO_RULES = Rules()
DEAD_LETTER_BYTES = 65_536
BROKER_LIMIT_BYTES = 1_048_588
FIVE_MINUTES_MS, _THREE_HOURS_MS = 300_000, 3 * 3_600_000

BAD_VALUES: list[bytes | None] = [
    None,
    b"",
    b"{",
    b'{"event_id":"e","rack_id":"rack-0001","sequence":NaN}',
    b"\xff\xfe",
    b"]}",
    b"\x01" * DEAD_LETTER_BYTES,
    "🔥".encode() * 20_000,
    b'{"event_id":"megabyte"' + b" " * 1_000_000,
    b'["' + b"\xfe" * (BROKER_LIMIT_BYTES - 500),
]


def mixed_records(seed: int, racks: int, readings: int, *, weak: bool = False) -> list[KeyedValue]:
    """Return keys and values: the mixed histories of racks, with unreadable values among them.

    No signal is weak, unless `weak` says that some are.
    """
    random = Random(seed)
    start_ms = now_ms() - _THREE_HOURS_MS
    names = [f"rack-{seed}-{number:03d}" for number in range(racks)]
    histories = [deliveries(random, name, readings, start_ms) for name in names]
    for each in chain.from_iterable(histories):
        each.signal_strength = (0.1 if weak else 0.4) + each.sequence % 6 / 10
    found: list[KeyedValue] = [
        (r.rack_id.encode(), encode(r)) for r in interleaved(random, histories)
    ]
    for bad in BAD_VALUES:
        key = random.choice([None, names[0].encode(), b"\xff"])
        found.insert(random.randrange(len(found)), (key, bad))
    return found


def send(kafka: Kafka, records: Iterable[KeyedValue]) -> None:
    """Append records in order, up to the broker's size limit, which is above the client's."""
    failed: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,  # a retry would change the order otherwise
            "message.max.bytes": 2 * BROKER_LIMIT_BYTES,
        }
    )
    for key, value in records:
        producer.produce(
            kafka.name(RACK_READINGS),
            key=key,
            value=value,
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )
    assert producer.flush(30) == 0
    assert not failed


def output_differences(
    kafka: Kafka, thresholds: dict[str, float], jobs: Sequence[str], rules: Rules = NO_RULES
) -> dict[str, list[Any]]:
    """Compare the jobs' outputs with the expected ones; return the keys that are missing or wrong.

    The result is empty if all is right. Of records that were written several times the first alert,
    the last dead letter and the last window count.
    """
    records = kafka.read_all(RACK_READINGS)
    readings = [
        (record, reading) for record in records if (reading := _reading(record)) is not None
    ]
    punctual = [
        (record, reading)
        for record, reading in readings
        if to_ms(reading.event_time) <= record.timestamp_ms + FIVE_MINUTES_MS
    ]
    names = ("alerts", "dead letters", "windows", "statistics")
    expected: dict[str, dict[Any, Any]] = {name: {} for name in names}
    found: dict[str, dict[Any, Any]] = {name: {} for name in names}
    if rule_jobs := {"overheating", "weak_signal"}.intersection(jobs):
        alerts = _expected_alerts([one for _, one in readings], thresholds, rules, rule_jobs)
        expected["alerts"] = {alert["alert_id"]: stable_fields(alert) for alert in alerts}
        found["alerts"] = alerts_by_id(_json(record) for record in kafka.read_all(ALERTS))
    if "rack_temperature" in jobs:
        expected["windows"] = {
            _window_key(row): _about(row, "temperature_c_avg")
            for row in temperature_windows([reading for _, reading in punctual])
        }
        windows = kafka.read_all(RACK_TEMPERATURE)
        found["windows"] = {(record.key or b"").decode(): _json(record) for record in windows}
    if "signal_statistics" in jobs:
        expected["statistics"] = {
            _statistic_key(row): _about(row, "signal_strength_avg")
            for row in signal_statistics([reading for _, reading in punctual])
        }
        statistics = kafka.read_all(SIGNAL_STATISTICS)
        found["statistics"] = {(record.key or b"").decode(): _json(record) for record in statistics}
    accepted = {(record.partition, record.offset) for record, _ in punctual}
    parsed = {(record.partition, record.offset) for record, _ in readings}
    expected["dead letters"] = {
        place: (
            "future" if place in parsed else "unreadable",
            *_expected_dead_letter(record),
        )
        for record in records
        if (place := (record.partition, record.offset)) not in accepted
    }
    rows = [_json(record) for record in kafka.read_all(DEAD_LETTERS)]
    dead_letters = [row for row in rows if row["source_topic"] == RACK_READINGS.name]
    assert all(row["error"] and to_ms(row["seen_time"]) for row in dead_letters)
    found["dead letters"] = {
        (x["partition"], x["offset"]): _dead_letter_fields(x) for x in dead_letters
    }
    result: dict[str, list[Any]] = {}
    for name, right in expected.items():
        missing = [key for key in right if key not in found[name]]
        wrong = [
            key for key, value in found[name].items() if key not in right or right[key] != value
        ]
        result |= {
            f"{name} {how}": keys for how, keys in (("missing", missing), ("wrong", wrong)) if keys
        }
    return result


def in_warning(alerts: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return rule and rack where the last alert is a `WARNING`."""
    last = {(alert["rule"], alert["subject"]): alert["state"] for alert in alerts}
    return {about for about, state in last.items() if state == "WARNING"}


def warnings_due(
    kafka: Kafka, thresholds: dict[str, float], jobs: Collection[str], rules: Rules = NO_RULES
) -> set[tuple[str, str]]:
    """Return rule and rack where the oracles say that the state ends in `WARNING`."""
    readings = [
        reading for record in kafka.read_all(RACK_READINGS) if (reading := _reading(record))
    ]
    return in_warning(_expected_alerts(readings, thresholds, rules, jobs))


def _expected_alerts(
    readings: Sequence[RackReading],
    thresholds: dict[str, float],
    rules: Rules,
    jobs: Collection[str],
) -> list[dict[str, Any]]:
    racks = {name: rack(name, threshold_c=degrees) for name, degrees in thresholds.items()}
    alerts = []
    if "overheating" in jobs:
        alerts += overheating_alerts(readings, rule_lookup(Overheating, rules, racks))
    if "weak_signal" in jobs:
        alerts += weak_signal_alerts(readings, rule_lookup(WeakSignal, rules, racks))
    return alerts


def _json(record: Record) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(record.value or b"")
    return value


def _reading(record: Record) -> RackReading | None:
    try:
        return msgspec.json.decode(record.value or b"", type=RackReading)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _window_key(row: dict[str, Any]) -> str:
    return f"{row['scope']}|{row['window_start']}|{row['window_end']}"


def _statistic_key(row: dict[str, Any]) -> str:
    group = "device_type" if row["device_type"] is not None else "rack_id"
    return f"{row['window_start']}|{row['window_end']}|{group}|{row[group]}"


def _about(row: dict[str, Any], average: str) -> dict[str, Any]:
    """Return a window whose average may differ in the last digits.

    Readings may be added up in any order.
    """
    return row | {average: pytest.approx(row[average], rel=1e-12)}


def _expected_dead_letter(record: Record) -> tuple[int, str | None, str | None]:
    value = record.value
    try:
        text = None if value is None else value.decode()
    except UnicodeDecodeError:
        text = None
    cut = None if text is None else text.encode()[:DEAD_LETTER_BYTES].decode(errors="ignore")
    encoded = None if value is None else base64.b64encode(value)[:DEAD_LETTER_BYTES].decode()
    return len(value or b""), cut, encoded


def _dead_letter_fields(dead_letter: dict[str, Any]) -> tuple[str, int, str | None, str | None]:
    names = ("reason", "value_size", "value", "value_base64")
    reason, size, text, encoded = (dead_letter[name] for name in names)
    return reason, size, text, encoded
