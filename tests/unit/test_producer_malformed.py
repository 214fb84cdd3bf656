"""Every way to spoil a record makes one that the contract calls a dead letter."""

import msgspec
import pytest

from events.records import MAX_ID_BYTES, RackReading
from events.topics import RACK_READINGS
from producer.malformed import LARGE_BYTES, MalformedKind, spoil, usual_kinds

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
