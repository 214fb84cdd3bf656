"""The state of `silent_sensor`: how long a rack may send nothing, to the millisecond."""

from itertools import accumulate
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.rules import SilentSensor
from producer.expected.oracles.rows import alert_id
from producer.expected.oracles.silent_sensor import silent_sensor_alerts
from spark_jobs.rules.framework.stateful_rule import Decision
from spark_jobs.rules.silent_sensor import SilentSensorState
from tests.builders import T0, reading

AFTER_MS = 30_000


def decisions_after(*records: tuple[int, int]) -> list[Decision]:
    """Return what a rack's records decide: each its number, and how long after `T0` it came."""
    state = SilentSensorState(silent_after_ms=AFTER_MS, grace_ms=250, severity="error")
    rows = [
        SimpleNamespace(
            append_ms=T0 + append_ms,
            sequence=number,
            event_id=f"rack-0001/{number}",
            event_time=(T0 + number) * 1000,
            temperature_c=70.0,
            signal_strength=0.9,
            site_id="site-a",
        )
        for number, append_ms in records
    ]
    return [decision for row in rows for decision in state.on_row("rack-0001", row)]


@pytest.mark.parametrize(
    ("gap_ms", "states"), [(AFTER_MS, []), (AFTER_MS + 1, ["WARNING", "NORMAL"])]
)
def test_a_gap_as_long_as_the_limit_is_no_silence_and_a_longer_one_is(
    gap_ms: int, states: list[str]
) -> None:
    decided = decisions_after((1, 0), (2, gap_ms))
    assert ["WARNING" if each.severity else "NORMAL" for each in decided] == states


def test_the_sentences_say_since_when_and_for_how_long() -> None:
    sentences = [each.summary for each in decisions_after((1, 0), (2, AFTER_MS + 1_250))]
    never_seen = SilentSensorState(silent_after_ms=AFTER_MS, grace_ms=250, severity="error")
    never_seen.on_start(T0)
    sentences += [
        each.summary for each in never_seen.on_timer("rack-0002", T0 + AFTER_MS + 250 + 1)
    ]
    assert sentences == [
        "Rack rack-0001 is silent: nothing came for 30 s after 2026-11-18T11:06:40.000Z.",
        "Rack rack-0001 sends again, after 31.2 s of silence.",
        "Rack rack-0002 has sent nothing since the start, 2026-11-18T11:06:40.000Z.",
    ]


COPIES = st.lists(st.tuples(st.integers(1, 3), st.sampled_from((1_000, AFTER_MS + 1))), max_size=9)
"""A reading's number, and the milliseconds since the record before: without and with a silence."""


@given(COPIES)
def test_silences_between_copies_have_the_ids_of_the_oracle_each_its_own(
    steps: list[tuple[int, int]],
) -> None:
    """At most eight silences, as many as the state remembers."""
    appended_ms = list(accumulate(gap_ms for _, gap_ms in steps))
    numbers = [number for number, _ in steps]
    decided = decisions_after(*zip(numbers, appended_ms, strict=True))
    ids = [
        alert_id("silent-sensor", "rack-0001", state, severity, each.trigger_event_id)
        for each in decided
        for state, severity in [("WARNING", "error") if each.severity else ("NORMAL", "info")]
    ]
    records = [(reading(n), T0 + ms) for n, ms in zip(numbers, appended_ms, strict=True)]
    due = silent_sensor_alerts(
        records, lambda _: SilentSensor(), until_ms=T0 + max(appended_ms, default=0)
    )
    assert ids == [row["alert_id"] for row in due]
    assert len({*ids}) == len(ids)
