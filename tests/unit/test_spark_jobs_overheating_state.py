"""The Python state of the overheating rule against the oracle, without Spark."""

from itertools import pairwise
from random import Random
from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.tws_tester import TwsTester

from events.records import RackReading
from events.times import to_ms
from producer.oracle import alert_id, overheating_alerts
from spark_jobs.overheating_state import OverheatingProcessor, RackHistory, Reading
from tests.spark.histories import AT, BELOW, COLD, HOT, T0, deliveries, reading

Change = tuple[str, str, list[str]]
"""The alert's id, which tells its decider, the new state, and the ids of the evidence."""

THRESHOLD = 100.0
randoms = st.randoms(use_true_random=False)


def seen(taken: RackReading) -> Reading:
    """Return a reading as the state sees it."""
    return Reading(
        taken.sequence,
        taken.event_id,
        to_ms(taken.event_time) * 1000,
        taken.temperature_c,
        taken.temperature_c >= THRESHOLD,
    )


def change(rack: str, warning: bool, decider: str, evidence: list[str]) -> Change:
    state, severity = ("WARNING", "error") if warning else ("NORMAL", "info")
    return alert_id("rack-overheating", rack, state, severity, decider), state, evidence


def changes(history: list[RackReading]) -> list[Change]:
    """Return the changes by the state under test."""
    rack, found = RackHistory(), []
    for taken in history:
        if rack.take(seen(taken)):
            evidence = [kept.event_id for kept in rack.last]
            found.append(change(taken.rack_id, rack.warning, taken.event_id, evidence))
    return found


def expected_changes(history: list[RackReading]) -> list[Change]:
    """Return the changes by the oracle."""
    return [
        (alert["alert_id"], alert["state"], [of["event_id"] for of in alert["evidence"]])
        for alert in overheating_alerts(history, {})
    ]


LATE_CORRECTION = [
    change("rack-0001", True, "rack-0001/4", ["rack-0001/1", "rack-0001/2", "rack-0001/4"]),
    change("rack-0001", False, "rack-0001/3", ["rack-0001/2", "rack-0001/3", "rack-0001/4"]),
]


def test_three_at_the_threshold_are_a_warning_and_one_just_below_ends_it() -> None:
    history = [reading(n, celsius) for n, celsius in enumerate([AT, AT, AT, BELOW])]
    assert changes(history) == [
        change("rack-0001", True, "rack-0001/2", ["rack-0001/0", "rack-0001/1", "rack-0001/2"]),
        change("rack-0001", False, "rack-0001/3", ["rack-0001/1", "rack-0001/2", "rack-0001/3"]),
    ]


def test_a_copy_is_no_third_reading() -> None:
    one, two = reading(1, HOT), reading(2, HOT)
    assert changes([one, two, two, one, one]) == []


def test_a_late_reading_corrects_the_state() -> None:
    history = [reading(1, HOT), reading(2, HOT), reading(4, HOT), reading(3, COLD)]
    assert changes(history) == LATE_CORRECTION


def test_a_reading_older_than_the_last_three_is_forgotten_at_once() -> None:
    rack = RackHistory(seen(reading(n, HOT)) for n in (5, 6, 7))
    assert not rack.take(seen(reading(4, COLD)))
    assert [kept.sequence for kept in rack.last] == [5, 6, 7]


@settings(max_examples=1000, deadline=None)
@given(randoms, st.integers(1, 30))
def test_any_history_gives_the_changes_of_the_oracle(random: Random, readings: int) -> None:
    history = deliveries(random, readings=readings)
    assert changes(history) == expected_changes(history)


@settings(max_examples=300, deadline=None)
@given(randoms, st.integers(1, 10))
def test_any_order_gives_the_changes_of_the_oracle(random: Random, readings: int) -> None:
    history = deliveries(random, readings=readings)
    random.shuffle(history)
    assert changes(history) == expected_changes(history)


@settings(deadline=None)
@given(randoms)
def test_three_readings_are_all_that_is_kept(random: Random) -> None:
    rack = RackHistory()
    for taken in deliveries(random, readings=20):
        rack.take(seen(taken))
        assert len(rack.last) <= 3
        assert rack.last == sorted(rack.last)


def batch(history: list[RackReading], first_offset: int) -> pd.DataFrame:
    """Return a part of a rack's history, a reading a row."""
    rows = [
        ((1_000_000 + (first_offset + at) // 3), 0, first_offset + at, *seen(taken), taken.site_id)
        for at, taken in enumerate(history)
    ]
    names = ["append_ms", "partition", "offset", *Reading._fields, "site_id"]
    return pd.DataFrame(rows, columns=names)


def packed(rows: pd.DataFrame, size: int = 5) -> pd.DataFrame:
    """Return rows as the processor gets them: each holds several readings, as arrays."""
    parts = [rows.iloc[at : at + size] for at in range(0, len(rows), size)]
    lists = [{name: part[name].to_numpy() for name in rows} for part in parts]
    return pd.DataFrame(lists).assign(threshold_c=THRESHOLD)


def by_processor(tester: TwsTester, rack: str, rows: pd.DataFrame) -> list[Change]:
    found: Any = tester.testInPandas(rack, packed(rows))
    return [
        change(rack, row["warning"], row["decider"], [of["event_id"] for of in row["evidence"]])
        for row in found.to_dict("records")
    ]


@settings(max_examples=60, deadline=None)
@given(randoms, st.lists(st.integers(0, 40), max_size=4))
def test_the_processor_goes_on_from_its_state_and_takes_a_batch_in_the_topics_order(
    random: Random, cuts: list[int]
) -> None:
    tester = TwsTester(OverheatingProcessor(), outputMode="Update")
    for rack in ("rack-0001", "rack-0002"):
        history = deliveries(random, rack, readings=14)
        bounds = [0, *sorted(min(cut, len(history)) for cut in cuts), len(history)]
        found = []
        for start, end in pairwise(bounds):
            if start < end:
                rows = batch(history[start:end], start)
                found += by_processor(tester, rack, rows.sample(frac=1, random_state=random.randrange(1000)))
        assert found == expected_changes(history)


def test_a_row_of_the_processor_has_everything_that_an_alert_needs() -> None:
    tester = TwsTester(OverheatingProcessor(), outputMode="Update")
    tester.testInPandas("rack-0007", packed(batch([reading(n, HOT, "rack-0007") for n in (1, 2)], 0)))
    found: Any = tester.testInPandas("rack-0007", packed(batch([reading(3, HOT, "rack-0007")], 2)))
    assert found.to_dict("records") == [
        {
            "letter_key": None,
            "letter": None,
            "subject": "rack-0007",
            "site_id": "site-a",
            "warning": True,
            "event_time": 1_795_000_003_000_000,
            "decider": "rack-0007/3",
            "threshold_c": 100.0,
            "evidence": [
                {
                    "sequence": n,
                    "event_id": f"rack-0007/{n}",
                    "event_time": 1_795_000_000_000_000 + 1_000_000 * n,
                    "temperature_c": HOT,
                }
                for n in (1, 2, 3)
            ],
        }
    ]


def test_offsets_of_one_append_time_order_what_the_clock_cannot() -> None:
    history = [reading(1, HOT), reading(2, HOT), reading(4, HOT), reading(3, COLD)]
    rows = batch(history, 0).assign(append_ms=T0).iloc[::-1]
    found = by_processor(TwsTester(OverheatingProcessor(), outputMode="Update"), "rack-0001", rows)
    assert found == LATE_CORRECTION
