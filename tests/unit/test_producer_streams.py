"""Streams of one run have fixed shares of one rate, and one clock."""

import re
from collections import Counter
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from events.records import RackReading
from producer.pacing.schedule import make_schedule
from producer.scenario import load_scenario
from producer.streams.reading_plan import ReadingPlan
from producer.streams.stream_plan import FaultFlag
from producer.streams.stream_set import Stream, StreamSet, clock_rate
from producer.world.racks import make_world
from tests.builders import T0
from tests.unit.clickstream import MINUTE, plan_of, sent_by, streams_of

SCENARIOS = Path(__file__).parents[2] / "producer" / "scenarios"


@pytest.mark.parametrize(
    ("names", "count", "expected"),
    [
        (["racks"], 1000, [1000]),
        (["clicks"], 220_000, [200_000, 20_000]),
        (["actions", "racks"], 1400, [1000, 400]),
        (["racks", "clicks", "actions"], 2500, [1000, 1000, 100, 400]),
        (["racks", "clicks", "actions"], 2503, [1002, 1001, 100, 400]),
        (["clicks"], 5, [5, 0]),
    ],
)
def test_streams_share_the_count_like_the_rate(
    names: list[Stream], count: int, expected: list[int]
) -> None:
    streams = streams_of(names, count=count)
    assert [plan.schedule.count for plan in streams.plans] == expected
    contents = Counter(row.topic for row in sent_by(streams)) if count < 10_000 else Counter()
    assert not contents or [contents[plan.topic.name] for plan in streams.plans] == expected


@pytest.mark.parametrize(
    ("rate", "count", "expected"), [(10.0, 10, [5, 4, 0, 1]), (50.0, 49, [22, 19, 1, 7])]
)
def test_chunks_of_a_paced_run_have_no_more_than_the_count(
    rate: float, count: int, expected: list[int]
) -> None:
    streams = streams_of(["racks", "clicks", "actions"], rate=rate, count=count)
    assert [plan.schedule.count for plan in streams.plans] == expected
    contents = Counter(row.topic for row in sent_by(streams))
    assert [contents[plan.topic.name] for plan in streams.plans] == expected


@pytest.mark.parametrize(("rate", "count"), [(1000.0, 5000), (7.0, 200)])
def test_a_round_has_the_same_time_of_each_stream(rate: float, count: int) -> None:
    streams = streams_of(["racks", "clicks", "actions"], rate=rate, count=count)
    ends = [-1.0]
    for batches in streams.rounds():
        due = np.concatenate([batch.scheduled_s for batch in batches])
        if len(due):
            assert due.min() >= ends[-1], "no stream waits for a later round"
            ends.append(float(due.max()))
    assert ends[-1] == pytest.approx(count / rate, rel=0.02)


def test_all_streams_have_one_clock() -> None:
    streams = streams_of(
        ["racks", "clicks", "actions"], count=50_000, time_scale=3.0, flush_delay_s=900
    )
    for plan in streams.plans:
        last = np.array([(plan.schedule.count or 0) - 1])
        assert plan.schedule.event_ms(last)[0] == pytest.approx(T0 - 15 * MINUTE, abs=2 * 60_000)
    assert len({plan.run_id for plan in streams.plans}) == 1


def test_at_the_highest_rate_each_rack_reads_once_per_second_beside_any_stream() -> None:
    for names in (["racks"], ["racks", "clicks", "actions"]):
        plan = plan_of(ReadingPlan, streams_of(names))  # type: ignore[arg-type]
        assert plan.schedule.event_time_rate == pytest.approx(40)


def test_faults_affect_different_numbers_in_each_stream() -> None:
    streams = streams_of(["racks", "clicks", "actions"], "late=0.05", count=25_000)
    hits = [
        set(np.flatnonzero(plan.flags(np.arange(1000)) & FaultFlag.LATE).tolist())
        for plan in streams.plans
    ]
    assert [len(affected) for affected in hits] == [50, 50, 50, 50]
    assert len(set.union(*hits)) > 150


CONTRACT_FIELDS = {"event_id", "event_time", "rack_id", "sequence", "site_id", "device_type"} | {
    "temperature_c",
    "signal_strength",
    "scheduled_time",
}
ADDED = "|".join(sorted({*RackReading.__struct_fields__} - CONTRACT_FIELDS)) or "none"
ADDED_FIELDS = re.compile(rf',"(?:{ADDED})":[^,}}]*'.encode())


@pytest.mark.parametrize(
    ("scenario", "paced", "digest"),
    [
        ("demo", True, "0c1c04bd8245c797f505506a52c0e81ad56db171684e7a08fe0d54eec1ddf0eb"),
        ("demo", False, "1bb657011ba7aae521d67daf271010529b68fb3eefb37cff19ab71fd8a6b559c"),
        ("everything", True, "3bd6ea251e4812da48f869d15a60df5fac2a2441047f1aa74f946d944ce2b619"),
        ("everything", False, "96d47e668e2314e56a0a6c81e29e06546f107ad800f9e99a0e052cb891126d61"),
    ],
)
def test_the_readings_of_a_seed_never_change(scenario: str, paced: bool, digest: str) -> None:
    """A field that is added later is left out, and of a value cut short what may hold it."""
    plan = load_scenario(SCENARIOS / f"{scenario}.yaml", {}, [])
    assert isinstance(plan.rate, float)
    schedule = make_schedule(
        rate=plan.rate if paced else None,
        clock_rate=clock_rate(plan.streams, plan.racks),
        now_ms=T0,
        count=20_000,
    )
    found = sha256()
    for row in sent_by(
        StreamSet(
            plan.streams, make_world(plan.seed, plan.racks, plan.sites), schedule, plan.faults
        )
    ):
        value = ADDED_FIELDS.sub(b"", row.value)
        value = value if value.endswith(b"}") else value[:100]
        found.update(
            f"{row.flags}|{row.number}|{row.slot}|".encode() + row.key + b"|" + value + b"\n"
        )
    assert found.hexdigest() == digest
