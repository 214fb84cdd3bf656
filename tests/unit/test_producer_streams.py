"""Several streams in one run: fixed shares of one rate, one clock, and the racks as if they were alone."""

from collections import Counter
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from producer.plan import Plan
from producer.scenario import load_scenario
from producer.schedule import make_schedule
from producer.stream import Mark
from producer.streams import Stream, Streams, clock_rate
from producer.world import make_world
from tests.unit.clickstream import MINUTE, T0, plan_of, sent_by, streams_of

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
def test_streams_share_the_count_as_they_share_the_rate(
    names: list[Stream], count: int, expected: list[int]
) -> None:
    streams = streams_of(names, count=count)
    assert [plan.schedule.count for plan in streams.plans] == expected
    held = Counter(row.topic for row in sent_by(streams)) if count < 10_000 else Counter()
    assert not held or [held[plan.topic.name] for plan in streams.plans] == expected


@pytest.mark.parametrize(("rate", "count"), [(1000.0, 5000), (7.0, 200)])
def test_a_round_holds_the_same_stretch_of_time_of_every_stream(rate: float, count: int) -> None:
    streams = streams_of(["racks", "clicks", "actions"], rate=rate, count=count)
    ends = [-1.0]
    for batches in streams.rounds():
        due = np.concatenate([batch.due_s for batch in batches])
        if len(due):
            assert due.min() >= ends[-1], "nothing waits for a later round of another stream"
            ends.append(float(due.max()))
    assert ends[-1] == pytest.approx(count / rate, rel=0.02)


def test_a_late_click_and_its_impression_have_one_clock() -> None:
    streams = streams_of(["racks", "clicks", "actions"], count=50_000, time_scale=3.0, settling_s=900)
    for plan in streams.plans:
        last = np.array([(plan.schedule.count or 0) - 1])
        assert plan.schedule.event_ms(last)[0] == pytest.approx(T0 - 15 * MINUTE, abs=2 * 60_000)
    assert len({plan.run_id for plan in streams.plans}) == 1


def test_racks_read_once_a_second_at_the_highest_rate_whatever_else_there_is() -> None:
    for names in (["racks"], ["racks", "clicks", "actions"]):
        plan = plan_of(Plan, streams_of(names))  # type: ignore[arg-type]
        assert plan.schedule.per_event_second == pytest.approx(40)


def test_faults_hit_other_numbers_in_each_stream() -> None:
    streams = streams_of(["racks", "clicks", "actions"], "late=0.05", count=25_000)
    hits = [set(np.flatnonzero(plan.marks(np.arange(1000)) & Mark.LATE).tolist()) for plan in streams.plans]
    assert [len(hit) for hit in hits] == [50, 50, 50, 50]
    assert len(set.union(*hits)) > 150


@pytest.mark.parametrize(
    ("scenario", "paced", "digest"),
    [
        ("demo", True, "364d00b47ed961a9d5e0ce7d33c11a63943e762a23707fb50a051316c37f5924"),
        ("demo", False, "e57c8ee8576fd5ab89431e5260db69845628da2a01f13f1499f48b531d9a1ed4"),
        ("everything", True, "ce5cea6e79cd81b011caf386a3163739b854ab87415113fddad6e2b534fb6059"),
        ("everything", False, "a24ab4d1d86d0698305b22017f47f7ba5ed182ea7068609cd4dd2b3c05b3e49c"),
    ],
)
def test_the_racks_of_a_seed_send_what_they_always_sent(scenario: str, paced: bool, digest: str) -> None:
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
        Streams(plan.streams, make_world(plan.seed, plan.racks, plan.sites), schedule, plan.faults)
    ):
        found.update(f"{row.marks}|{row.number}|{row.slot}|".encode() + row.key + b"|" + row.value + b"\n")
    assert found.hexdigest() == digest
