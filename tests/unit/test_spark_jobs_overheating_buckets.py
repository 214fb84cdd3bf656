"""The overheating rule over buckets of racks, against the oracle, without Spark."""

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.records import RackReading
from events.rules import Overheating, Rules
from events.times import to_ms
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rows import alert_id
from producer.expected.oracles.rule_lookup import rule_lookup
from spark_jobs.rules.framework.bucketed_readings import bucket_of
from spark_jobs.rules.overheating.buckets import (
    EMPTY,
    HISTORY,
    READINGS,
    BucketLimits,
    limits_by_bucket,
    newest_readings,
    update_bucket,
)
from spark_jobs.rules.overheating.limits import Limits, fleet_limits
from spark_jobs.rules.overheating.rack_history import RackHistory, Reading
from tests.builders import T0, rack, reading
from tests.spark.overheating_histories import histories, rules
from tests.spark.rack_histories import COLD, HOT, deliveries, interleaved
from tests.support import examples

Change = tuple[str, list[str]]
"""The alert's id, which depends on trigger, state and severity, and the ids of the evidence."""

randoms = st.randoms(use_true_random=False)
DEFAULTS = BucketLimits(Limits(), {})


def change(rack: str, severity: str | None, trigger_event_id: str, evidence: list[str]) -> Change:
    state = "WARNING" if severity else "NORMAL"
    key = alert_id("rack-overheating", rack, state, severity or "info", trigger_event_id)
    return key, evidence


def table(
    topic: list[RackReading], first_offset: int = 0, append_ms: int | None = None
) -> pa.Table:
    """Return part of a topic as a bucket takes it; three records share an append time."""
    rows = [
        {
            "rack_id": taken.rack_id,
            "sequence": taken.sequence,
            "event_id": taken.event_id,
            "event_time": to_ms(taken.event_time) * 1000,
            "temperature_c": taken.temperature_c,
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


def by_rack_of(found: list[dict[str, Any]]) -> dict[str, list[Change]]:
    """Return the changes of each rack in their order; the order of the racks does not matter."""
    racks: dict[str, list[Change]] = {}
    for row in found:
        evidence = [of["event_id"] for of in row["evidence"]]
        changed = change(row["subject"], row["severity"], row["trigger_event_id"], evidence)
        racks.setdefault(row["subject"], []).append(changed)
    return racks


@st.composite
def topics(draw: st.DrawFn) -> list[RackReading]:
    """Return the readings of some racks in the order of a topic."""
    random = draw(randoms)
    # Long cold spells too, in which racks are handled together.
    steady = [reading(n, COLD, "rack-cold") for n in range(draw(st.integers(0, 80)))]
    return interleaved(
        random,
        [
            steady,
            *(draw(histories(f"rack-{n:04d}")) for n in range(draw(st.integers(1, 2)))),
            *(deliveries(random, f"rack-{n:04d}", readings=14) for n in range(2, 5)),
        ],
    )


def batches(topic: list[RackReading], random: Random, cuts: list[int]) -> list[pa.Table]:
    bounds = [0, *sorted(min(cut, len(topic)) for cut in cuts), len(topic)]
    return [
        shuffled(table(topic[start:end], start), random)
        for start, end in pairwise(sorted(set(bounds)))
    ]


@examples(400)
@given(topics(), randoms, st.lists(st.integers(0, 250), max_size=12), st.lists(rules(), max_size=3))
def test_a_bucket_continues_from_its_state_in_the_topics_order(
    topic: list[RackReading], random: Random, cuts: list[int], own: list[Overheating]
) -> None:
    """Racks have rules of their own, or the contract's; so the bucket has both kinds of state."""
    names = ("rack-0000", "rack-0001", "rack-cold")
    by_rack = Rules(
        tuple(
            Overheating(racks=(name,), **{
                option: getattr(rule, option)
                for option in Overheating.__struct_fields__
                if option not in ("racks", "device_types")
            })
            for name, rule in zip(names, own, strict=False)
        )
    )  # fmt: skip
    inventory = [rack(name, threshold_c=100.0) for name in names]
    fleet = fleet_limits(inventory, by_rack)
    limits = BucketLimits(fleet.default, fleet.by_rack)
    bucket, found = EMPTY, []
    for batch in batches(topic, random, cuts):
        bucket, changed = update_bucket(bucket, batch, limits)
        found += changed
    expected: dict[str, list[Change]] = {}
    for alert in overheating_alerts(topic, rule_lookup(Overheating, by_rack)):
        evidence = [one["event_id"] for one in alert["evidence"]]
        expected.setdefault(alert["subject"], []).append((alert["alert_id"], evidence))
    assert by_rack_of(found) == expected
    assert bucket.history.schema == HISTORY
    for name in {taken.rack_id for taken in topic}:
        size = fleet.by_rack.get(name, fleet.default).history_size
        distinct = {(t.sequence, t.event_id) for t in topic if t.rack_id == name}
        kept = bucket.history.filter(pa.compute.equal(bucket.history["rack_id"], name)).to_pylist()
        assert [(row["sequence"], row["event_id"]) for row in kept] == sorted(distinct)[-size:]


def test_racks_whose_state_cannot_change_are_handled_together(monkeypatch: Any) -> None:
    """Racks in `NORMAL` without hot readings, and in `WARNING` with none but hot ones, or none."""
    taken: list[str] = []
    original = RackHistory.add

    def add(self: RackHistory, one: Reading) -> bool:
        taken.append(one.event_id)
        return original(self, one)

    monkeypatch.setattr(RackHistory, "add", add)
    limits = BucketLimits(Limits(), {"rack-0003": Limits(clear_below_c=80.0)})
    hot = [reading(n, HOT, name) for name in ("rack-0001", "rack-0003") for n in (1, 2, 3)]
    bucket, _ = update_bucket(EMPTY, table(hot), limits)
    assert sorted(taken) == sorted(one.event_id for one in hot)
    taken.clear()
    cold = [reading(n, COLD, "rack-0002") for n in range(5)]
    bucket, none = update_bucket(bucket, table(cold, 6), limits)
    hotter = [reading(n, HOT, "rack-0001") for n in (9, 8, 7, 7)]
    bucket, none_either = update_bucket(bucket, table(hotter, 30), limits)
    assert (none, none_either, taken) == ([], [], [])
    coldest = [reading(10, COLD, name) for name in ("rack-0001", "rack-0003")]
    bucket, found = update_bucket(bucket, table(coldest, 40), limits)
    assert (len(found), len(taken)) == (2, 2)
    assert len(bucket.history) == 3 + 3 + 4
    assert bucket.memories == {}


@pytest.mark.parametrize("before", [Limits(count=5), Limits(clear_below_c=80.0)])
def test_a_rack_that_moves_to_a_shorter_history_is_alerted_about_its_hot_readings(
    before: Limits,
) -> None:
    """A device's new type may have another rule; of the old history, the newest three count."""
    earlier = [reading(n, celsius) for n, celsius in enumerate((HOT, HOT, HOT, COLD, COLD))]
    bucket, _ = update_bucket(EMPTY, table(earlier), BucketLimits(before, {}))
    hot = [reading(n, HOT) for n in (5, 6, 7)]
    bucket, found = update_bucket(bucket, table(hot, 5), DEFAULTS)
    evidence = [one.event_id for one in hot]
    assert by_rack_of(found)["rack-0001"][-1] == change("rack-0001", "error", evidence[2], evidence)
    assert len(bucket.history) == 3


@pytest.mark.parametrize("after", [Limits(), Limits(count=5)])
def test_a_rack_whose_rule_required_a_shorter_time_is_alerted_about_its_next_hot_reading(
    after: Limits,
) -> None:
    hot = [reading(n, HOT) for n in range(41)]
    before = BucketLimits(Limits(count=2, within_us=1), {})
    bucket, none = update_bucket(EMPTY, table(hot[:40]), before)
    bucket, found = update_bucket(bucket, table(hot[40:], 40), BucketLimits(after, {}))
    assert (none, [row["severity"] for row in found]) == ([], ["error"])
    assert bucket.memories == {}


def test_a_hot_reading_that_is_no_longer_kept_still_counts_for_a_late_one() -> None:
    limits = BucketLimits(Limits(clear_below_c=80.0), {})
    celsius = [HOT, HOT, *[90.0] * 31]
    bucket, found = EMPTY, []
    for n, each in enumerate(celsius):
        bucket, changed = update_bucket(bucket, table([reading(10 * n, each)], n), limits)
        found += changed
    assert bucket.history["sequence"].to_pylist() == [10 * n for n in range(1, 33)]
    _, changed = update_bucket(bucket, table([reading(15, HOT)], 33), limits)
    assert (found, [row["severity"] for row in changed]) == ([], ["error"])


@examples(300)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.sampled_from("abc")), max_size=30)
)
def test_the_newest_readings_are_the_last_distinct_ones_of_each_rack(
    readings: list[tuple[int, int, str]],
) -> None:
    sizes = np.array([3, 5, 1])
    racks, sequences, ids = map(list, zip(*readings, strict=True)) if readings else ([], [], [])
    rows = pa.table(
        {"sequence": pa.array(sequences, pa.int64()), "event_id": pa.array(ids, pa.string())}
    )
    expected = [
        readings.index(reading)
        for rack in sorted(set(racks))
        for reading in sorted({other for other in readings if other[0] == rack})[-sizes[rack] :]
    ]
    rack = np.array(racks, np.int64)
    assert newest_readings(rack, rows, sizes[rack]).tolist() == expected


def test_a_change_has_all_columns_that_an_alert_needs() -> None:
    bucket, none = update_bucket(
        EMPTY, table([reading(n, HOT, "rack-0007") for n in (1, 2)]), DEFAULTS
    )
    _, found = update_bucket(bucket, table([reading(3, HOT, "rack-0007")], 2), DEFAULTS)
    assert none == []
    assert found == [
        {
            "subject": "rack-0007",
            "site_id": "site-a",
            "severity": "error",
            "event_time": 1_795_000_003_000_000,
            "trigger_event_id": "rack-0007/3",
            "threshold_c": 100.0,
            "count": 3,
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


def test_offsets_order_readings_with_one_append_time() -> None:
    history = [reading(1, HOT), reading(2, HOT), reading(4, HOT), reading(3, COLD)]
    rows = table(history, append_ms=T0)
    _, found = update_bucket(EMPTY, rows.take([3, 2, 1, 0]), DEFAULTS)
    assert by_rack_of(found) == {
        "rack-0001": [
            change("rack-0001", "error", "rack-0001/4", [f"rack-0001/{n}" for n in (1, 2, 4)]),
            change("rack-0001", None, "rack-0001/3", [f"rack-0001/{n}" for n in (2, 3, 4)]),
        ]
    }


def test_a_rack_has_its_own_threshold_and_a_hot_reading_stays_hot() -> None:
    inventory = [
        rack(name, threshold_c=celsius)
        for name, celsius in (("rack-0001", COLD), ("rack-0002", HOT + 1), ("rack-0003", 100.0))
    ]
    own = limits_by_bucket(fleet_limits(inventory, Rules()))
    bucket, found = EMPTY, []
    for name in ("rack-0001", "rack-0002", "rack-0003"):
        topic = [reading(n, COLD if name == "rack-0001" else HOT, name) for n in (1, 2, 3)]
        bucket, changed = update_bucket(bucket, table(topic), own[bucket_of(name)])
        found += changed
    assert [(row["subject"], row["threshold_c"]) for row in found] == [
        ("rack-0001", COLD),
        ("rack-0003", 100.0),
    ]
    _, found = update_bucket(bucket, table([reading(4, COLD, "rack-0001")]), DEFAULTS)
    assert [(row["subject"], row["severity"]) for row in found] == [("rack-0001", None)]
