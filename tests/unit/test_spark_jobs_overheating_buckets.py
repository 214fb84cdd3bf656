"""The overheating rule over racks and over buckets of racks, against the oracle, without Spark."""

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from events.records import InventoryRack, RackReading
from events.times import to_ms
from producer.oracle import alert_id, overheating_alerts
from spark_jobs.overheating_buckets import (
    HISTORY,
    READINGS,
    RackHistory,
    Reading,
    bucket_of,
    follow,
    newest_readings,
    thresholds_by_bucket,
)
from tests.spark.histories import AT, BELOW, COLD, HOT, T0, deliveries, interleaved, reading

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


def table(topic: list[RackReading], first_offset: int = 0, append_ms: int | None = None) -> pa.Table:
    """Return a part of a topic as it is handed to a bucket; three records share an append time."""
    rows = [
        {
            "rack_id": taken.rack_id,
            **seen(taken)._asdict(),
            "site_id": taken.site_id,
            "append_ms": T0 + (first_offset + at) // 3 if append_ms is None else append_ms,
            "partition": 0,
            "offset": first_offset + at,
        }
        for at, taken in enumerate(topic)
    ]
    return pa.Table.from_pylist(rows, READINGS)


def shuffled(rows: pa.Table, random: Random) -> pa.Table:
    return rows.take(random.sample(range(len(rows)), len(rows)))


def by_rack(found: list[dict[str, Any]]) -> dict[str, list[Change]]:
    """Return what was found of each rack, in its order: that of racks among each other tells nothing."""
    racks: dict[str, list[Change]] = {}
    for row in found:
        evidence = [of["event_id"] for of in row["evidence"]]
        told = change(row["subject"], row["warning"], row["decider"], evidence)
        racks.setdefault(row["subject"], []).append(told)
    return racks


@settings(max_examples=200, deadline=None)
@given(randoms, st.integers(1, 6), st.lists(st.integers(0, 120), max_size=4))
def test_a_bucket_goes_on_from_its_history_and_takes_a_batch_in_the_topics_order(
    random: Random, racks: int, cuts: list[int]
) -> None:
    histories = {
        rack: deliveries(random, rack, readings=14) for rack in (f"rack-{n:04d}" for n in range(racks))
    }
    topic = interleaved(random, histories.values())
    bounds = [0, *sorted(min(cut, len(topic)) for cut in cuts), len(topic)]
    bucket, found = HISTORY.empty_table(), []
    for start, end in pairwise(sorted(set(bounds))):
        bucket, changed = follow(bucket, shuffled(table(topic[start:end], start), random))
        found += changed
    expected = {
        rack: changes for rack, history in histories.items() if (changes := expected_changes(history))
    }
    assert by_rack(found) == expected
    assert bucket.schema == HISTORY
    for rack, history in histories.items():
        last = RackHistory()
        for taken in history:
            last.take(seen(taken))
        kept = bucket.filter(pa.compute.equal(bucket["rack_id"], rack)).drop_columns("rack_id").to_pylist()
        assert [Reading(**row) for row in kept] == last.last


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from("abc")), max_size=30))
def test_the_newest_readings_are_the_last_three_distinct_ones_of_each_rack(
    readings: list[tuple[int, int, str]],
) -> None:
    racks, sequences, ids = map(list, zip(*readings, strict=True)) if readings else ([], [], [])
    rows = pa.table({"sequence": pa.array(sequences, pa.int64()), "event_id": pa.array(ids, pa.string())})
    expected = [
        readings.index(reading)
        for rack in sorted(set(racks))
        for reading in sorted({other for other in readings if other[0] == rack})[-3:]
    ]
    assert newest_readings(np.array(racks, np.int64), rows).tolist() == expected


def test_a_change_has_everything_that_an_alert_needs() -> None:
    history, none = follow(HISTORY.empty_table(), table([reading(n, HOT, "rack-0007") for n in (1, 2)]))
    _, found = follow(history, table([reading(3, HOT, "rack-0007")], 2))
    assert none == []
    assert found == [
        {
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
    rows = table(history, append_ms=T0)
    _, found = follow(HISTORY.empty_table(), rows.take([3, 2, 1, 0]))
    assert by_rack(found) == {"rack-0001": LATE_CORRECTION}


def test_a_rack_has_its_own_threshold_and_what_was_hot_stays_so() -> None:
    inventory = [
        InventoryRack(
            rack_id=rack, site_id="site-a", device_type="gpu", threshold_c=celsius, readings_per_second=1.0
        )
        for rack, celsius in (("rack-0001", COLD), ("rack-0002", HOT + 1), ("rack-0003", 100.0))
    ]
    own = thresholds_by_bucket(inventory)
    assert sorted(own) == sorted({bucket_of("rack-0001"), bucket_of("rack-0002")})
    history, found = HISTORY.empty_table(), []
    for rack in ("rack-0001", "rack-0002", "rack-0003"):
        topic = [reading(n, COLD if rack == "rack-0001" else HOT, rack) for n in (1, 2, 3)]
        history, changed = follow(history, table(topic), own.get(bucket_of(rack)))
        found += changed
    assert [(row["subject"], row["threshold_c"]) for row in found] == [
        ("rack-0001", COLD),
        ("rack-0003", 100.0),
    ]
    _, found = follow(history, table([reading(4, COLD, "rack-0001")]))
    assert [(row["subject"], row["warning"]) for row in found] == [("rack-0001", False)]
