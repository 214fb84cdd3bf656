"""A topic of readings with much in it that nobody can read, and what the jobs must make of the topic."""

import base64
import json
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from events.records import RackReading, encode
from events.times import now_ms, to_ms
from events.topics import ALERTS, DEAD_LETTERS, RACK_READINGS, RACK_TEMPERATURE
from producer.oracle import overheating_alerts, temperature_windows
from tests.spark.histories import by_id, deliveries, facts, interleaved
from tests.support import Kafka, Record

Keyed = tuple[bytes | None, bytes | None]
LETTER_BYTES = 65_536
BROKERS_LIMIT_BYTES = 1_048_588
_FIVE_MINUTES_MS, _THREE_HOURS_MS = 300_000, 3 * 3_600_000

BAD_VALUES: list[bytes | None] = [
    None,
    b"",
    b"{",
    b'{"event_id":"e","rack_id":"rack-0001","sequence":NaN}',
    b"\xff\xfe",
    b"]}",
    b"\x01" * LETTER_BYTES,
    "🔥".encode() * 20_000,
    b'{"event_id":"megabyte"' + b" " * 1_000_000,
    b'["' + b"\xfe" * (BROKERS_LIMIT_BYTES - 500),
]


def topic_contents(seed: int, racks: int, readings: int) -> list[Keyed]:
    """Return keys and values: the mixed histories of racks, and among them values that are no readings."""
    random = Random(seed)
    start_ms = now_ms() - _THREE_HOURS_MS
    names = [f"rack-{seed}-{number:03d}" for number in range(racks)]
    histories = [deliveries(random, name, readings, start_ms) for name in names]
    found: list[Keyed] = [(r.rack_id.encode(), encode(r)) for r in interleaved(random, histories)]
    for bad in BAD_VALUES:
        key = random.choice([None, names[0].encode(), b"\xff"])
        found.insert(random.randrange(len(found)), (key, bad))
    return found


def send(kafka: Kafka, records: Iterable[Keyed]) -> None:
    """Append records in order, also such as the client would not send by default: up to the broker's limit."""
    failed: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,  # a retry would change the order otherwise
            "message.max.bytes": 2 * BROKERS_LIMIT_BYTES,
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


def differences(kafka: Kafka, thresholds: dict[str, float], jobs: Sequence[str]) -> dict[str, list[Any]]:
    """Compare the outputs with what the topic asks for; return what is missing or wrong, nothing if all is right.

    Of records that were written several times the first alert, the first letter and the last window count.
    """
    held = kafka.read_all(RACK_READINGS)
    readings = [(record, reading) for record in held if (reading := _reading(record)) is not None]
    # An event of the future is a letter of the jobs by event time alone.
    punctual = [r for record, r in readings if to_ms(r.event_time) <= record.timestamp_ms + _FIVE_MINUTES_MS]
    expected: dict[str, dict[Any, Any]] = {"alerts": {}, "letters": {}, "windows": {}}
    found: dict[str, dict[Any, Any]] = {"alerts": {}, "letters": {}, "windows": {}}
    if "overheating" in jobs:
        alerts = overheating_alerts([reading for _, reading in readings], thresholds)
        expected["alerts"] = {alert["alert_id"]: facts(alert) for alert in alerts}
        found["alerts"] = by_id(_json(record) for record in kafka.read_all(ALERTS))
    if "rack_temperature" in jobs:
        expected["windows"] = {_window_key(row): _about(row) for row in temperature_windows(punctual)}
        windows = kafka.read_all(RACK_TEMPERATURE)
        found["windows"] = {(record.key or b"").decode(): _json(record) for record in windows}
    read = punctual if "rack_temperature" in jobs else [reading for _, reading in readings]
    kept = {id(reading) for reading in read}
    good = {(record.partition, record.offset) for record, reading in readings if id(reading) in kept}
    expected["letters"] = {
        (record.partition, record.offset): _letter(record)
        for record in held
        if (record.partition, record.offset) not in good
    }
    letters = [_json(record) for record in kafka.read_all(DEAD_LETTERS)]
    assert {letter["source_topic"] for letter in letters} <= {"rack-readings"}
    assert all(letter["error"] and to_ms(letter["seen_time"]) for letter in letters)
    found["letters"] = {(x["partition"], x["offset"]): _letter_facts(x) for x in letters}
    result: dict[str, list[Any]] = {}
    for name, right in expected.items():
        missing = [key for key in right if key not in found[name]]
        wrong = [key for key, value in found[name].items() if key not in right or right[key] != value]
        result |= {f"{name} {how}": keys for how, keys in (("missing", missing), ("wrong", wrong)) if keys}
    return result


def racks_in_warning(kafka: Kafka) -> set[str]:
    """Return the racks whose last alert is a warning."""
    last = {alert["subject"]: alert["state"] for alert in map(_json, kafka.read_all(ALERTS))}
    return {rack for rack, state in last.items() if state == "WARNING"}


def racks_in_warning_by_the_oracle(kafka: Kafka) -> set[str]:
    """Return the racks whose readings end in a warning, in whatever order they were appended."""
    readings = [reading for record in kafka.read_all(RACK_READINGS) if (reading := _reading(record))]
    last = {alert["subject"]: alert["state"] for alert in overheating_alerts(readings, {})}
    return {rack for rack, state in last.items() if state == "WARNING"}


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


def _about(row: dict[str, Any]) -> dict[str, Any]:
    """Return a window whose average may differ in the last digits: readings may be added up in any order."""
    return row | {"temperature_c_avg": pytest.approx(row["temperature_c_avg"], rel=1e-12)}


def _letter(record: Record) -> tuple[int, str | None, str | None]:
    value = record.value
    try:
        text = None if value is None else value.decode()
    except UnicodeDecodeError:
        text = None
    cut = None if text is None else text.encode()[:LETTER_BYTES].decode(errors="ignore")
    encoded = None if value is None else base64.b64encode(value)[:LETTER_BYTES].decode()
    return len(value or b""), cut, encoded


def _letter_facts(letter: dict[str, Any]) -> tuple[int, str | None, str | None]:
    return letter["value_size"], letter["value"], letter["value_base64"]
