"""Each fault does what its name says, as often as requested, and nothing else."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from events.cli import UserFacingError
from events.records import RackReading
from events.times import to_ms
from events.topics import RACK_READINGS
from producer.faults import FAULT_TYPES, AnyFault
from producer.malformed import default_kinds
from producer.pacing.schedule import make_schedule
from producer.scenario import parse_fault
from producer.streams.reading_plan import ReadingPlan
from producer.streams.stream_plan import FaultFlag
from producer.world.racks import make_world
from tests.builders import T0
from tests.unit.clickstream import batch_rows, decoded

RACKS, RATE, SECONDS = 20, 100.0, 100
COUNT = int(RATE * SECONDS)


@dataclass(frozen=True)
class SentRecord:
    """One record in the order of sending; `reading` is None if it cannot be read."""

    slot: int
    number: int
    flags: int
    value: bytes
    reading: RackReading | None


def plan_of(
    *faults: str, seed: int = 1, racks: int = RACKS, time_scale: float = 1.0
) -> ReadingPlan:
    parsed: list[AnyFault] = [parse_fault(fault) for fault in faults]
    schedule = make_schedule(
        rate=RATE, clock_rate=racks, now_ms=T0, count=COUNT, time_scale=time_scale
    )
    return ReadingPlan(make_world(seed, racks), schedule, parsed, 1)


def sent_by(plan: ReadingPlan) -> list[SentRecord]:
    records = []
    for batch in plan.batches():
        for row in batch_rows(batch):
            reading = decoded(row.value, RackReading)
            records.append(SentRecord(row.slot, row.number, row.flags, row.value, reading))
    return records


def flagged(records: list[SentRecord], flag: FaultFlag) -> list[SentRecord]:
    return [record for record in records if record.flags & flag]


def good(records: list[SentRecord]) -> list[RackReading]:
    return [record.reading for record in records if record.reading is not None]


def test_without_faults_each_reading_is_sent_once_in_its_own_slot() -> None:
    records = sent_by(plan_of())
    assert [record.number for record in records] == list(range(COUNT))
    assert [record.slot for record in records] == list(range(COUNT))
    assert {record.flags for record in records} == {0}
    times = [(reading.event_time, reading.scheduled_time) for reading in good(records)]
    assert all(event_time == scheduled_time for event_time, scheduled_time in times)


def test_the_seed_determines_the_bytes_and_the_order_of_faults_does_not_matter() -> None:
    faults = ["late=0.02", "duplicate=0.02", "out-of-order=0.02", "malformed=0.01", "overheating=2"]
    one, again, turned = (sent_by(plan_of(*order)) for order in (faults, faults, faults[::-1]))
    assert one == again == turned
    assert sent_by(plan_of(*faults, seed=2)) != one


def test_records_do_not_depend_on_the_size_of_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = ["late=0.05", "duplicate=0.05", "out-of-order=0.05", "malformed=0.01"]
    whole = sent_by(plan_of(*faults))
    monkeypatch.setattr("producer.streams.stream_plan.MAX_CHUNK_EVENTS", 13)
    assert sent_by(plan_of(*faults)) == whole


def test_a_share_is_exact_starts_soon_and_affects_most_racks() -> None:
    flags = {
        "late": FaultFlag.LATE,
        "out-of-order": FaultFlag.OUT_OF_ORDER,
        "duplicate": FaultFlag.COPY,
        "too-late": FaultFlag.TOO_LATE,
        "future": FaultFlag.FUTURE,
        "malformed": FaultFlag.MALFORMED,
    }
    found = {}
    for name, flag in flags.items():
        affected = sorted({r.number for r in flagged(sent_by(plan_of(f"{name}=0.01")), flag)})
        racks = {number % RACKS for number in affected}
        found[name] = (len(affected), affected[0] < 100, len(racks) >= RACKS * 0.8)
    assert found == dict.fromkeys(flags, (COUNT // 100, True, True))


def test_late_readings_are_sent_after_their_event_time_within_the_bound() -> None:
    records = sent_by(plan_of("late=0.02,min_s=2,max_s=10"))
    late = [record for record in flagged(records, FaultFlag.LATE) if record.slot < COUNT - 1]
    delays = [(record.slot - record.number) / RATE for record in late]
    assert min(delays) >= 1.99
    assert max(delays) <= 10
    assert max(delays) - min(delays) > 5
    for record in late:
        assert record.reading is not None
        assert to_ms(record.reading.event_time) == T0 + record.number * 10
        assert to_ms(record.reading.scheduled_time or "") == T0 + record.slot * 10, (
            "the time of sending"
        )
        assert record.reading.sequence == record.number // RACKS + 1


def test_lateness_is_in_event_time_when_time_is_scaled() -> None:
    plan = plan_of("late=0.02,min_s=60,max_s=500", time_scale=60)
    records = sent_by(plan)
    newest, lateness = 0, []
    for record in records:
        assert record.reading is not None
        event_ms = to_ms(record.reading.event_time)
        newest = max(newest, event_ms)
        lateness.append((newest - event_ms) / 1000)
    assert 400 < max(lateness) <= 500


def test_late_readings_due_after_the_end_are_sent_at_the_end() -> None:
    records = sent_by(plan_of("late=1,min_s=500,max_s=580"))
    assert Counter(record.number for record in records) == Counter(range(COUNT))
    assert {record.slot for record in records} == {COUNT - 1}


def test_out_of_order_readings_follow_one_to_three_successors_of_their_rack() -> None:
    records = sent_by(plan_of("out-of-order=0.02"))
    place = {record.number: at for at, record in enumerate(records)}
    moved = {record.number for record in flagged(records, FaultFlag.OUT_OF_ORDER)}
    overtaken: Counter[int] = Counter()
    for number in moved:
        later = range(number + RACKS, number + 4 * RACKS, RACKS)
        if later.stop < COUNT and moved.isdisjoint(later):
            overtaken[sum(place[successor] < place[number] for successor in later)] += 1
    assert set(overtaken) == {1, 2, 3}


def test_duplicates_are_one_or_two_later_copies_with_the_same_bytes() -> None:
    records = sent_by(plan_of("duplicate=0.02,max_s=3"))
    by_number: dict[int, list[SentRecord]] = {}
    for record in records:
        by_number.setdefault(record.number, []).append(record)
    counts = Counter(len(copies) for copies in by_number.values())
    assert counts[2] + counts[3] == COUNT * 0.02
    assert set(counts) == {1, 2, 3}
    assert min(counts[2], counts[3]) > 60
    for copies in by_number.values():
        assert len({record.value for record in copies}) == 1
        assert [bool(record.flags & FaultFlag.COPY) for record in copies] == [False] + [True] * (
            len(copies) - 1
        )
        assert max(record.slot for record in copies) - copies[0].slot <= 3 * RATE


def test_records_are_sent_in_the_order_of_their_slots() -> None:
    slots = [
        record.slot for record in sent_by(plan_of("late=0.1", "duplicate=0.1", "out-of-order=0.1"))
    ]
    assert slots == sorted(slots)


def test_malformed_records_cannot_be_read_and_the_kinds_take_turns() -> None:
    plan = plan_of("malformed=0.01")
    records = sent_by(plan)
    bad = flagged(records, FaultFlag.MALFORMED)
    assert {record.number for record in bad} == {r.number for r in records if r.reading is None}
    kinds = plan.malformed_kinds(np.array([record.number for record in bad]))
    assert min(Counter(kinds).values()) >= 7
    assert set(kinds) == set(default_kinds(RACK_READINGS))
    only = plan_of("malformed=0.01,kinds=[nan]")
    assert all(
        b'"temperature_c":NaN' in record.value
        for record in flagged(sent_by(only), FaultFlag.MALFORMED)
    )


def test_future_and_too_late_change_only_the_event_time() -> None:
    clean = {reading.event_id: reading for reading in good(sent_by(plan_of()))}
    records = sent_by(plan_of("future=0.01", "too-late=0.01"))
    assert [record.slot for record in records] == list(range(COUNT))
    for record in records:
        assert record.reading is not None
        was = clean[record.reading.event_id]
        moved_s = (to_ms(record.reading.event_time) - to_ms(was.event_time)) / 1000
        if record.flags & FaultFlag.FUTURE:
            assert 3600 <= moved_s <= 5 * 3600
        elif record.flags & FaultFlag.TOO_LATE:
            assert -3600 <= moved_s <= -900
        else:
            assert moved_s == 0
        assert msgspec.structs.replace(record.reading, event_time=was.event_time) == was


def test_future_events_are_ahead_of_the_wall_clock_even_with_a_time_scale() -> None:
    plan = plan_of("future=0.01", time_scale=1000)
    for record in flagged(sent_by(plan), FaultFlag.FUTURE):
        assert record.reading is not None
        assert to_ms(record.reading.event_time) >= T0 + record.slot * 10 + 3_600_000


def thresholds(plan: ReadingPlan) -> dict[str, float]:
    return {rack.rack_id: rack.threshold_c for rack in plan.world.inventory(1.0)}


def test_overheating_racks_are_hot_during_their_episodes_only() -> None:
    plan = plan_of("overheating=[rack-0003,rack-0011],start_s=3,length_s=3,every_s=6,stagger_s=1")
    limit = thresholds(plan)
    for reading in good(sent_by(plan)):
        since_ms = (
            to_ms(reading.event_time) - T0 - 3000 - (1000 if reading.rack_id == "rack-0011" else 0)
        )
        episode = since_ms >= 0 and since_ms % 6000 < 3000
        hot = reading.rack_id in ("rack-0003", "rack-0011") and episode
        assert (reading.temperature_c >= limit[reading.rack_id]) == hot
        assert reading.temperature_c <= limit[reading.rack_id] + 6


def test_the_seed_chooses_the_requested_number_of_racks() -> None:
    for seed in (1, 2, 3):
        plan = plan_of("overheating=3,start_s=0,length_s=1000", seed=seed)
        limit = thresholds(plan)
        hot = {r.rack_id for r in good(sent_by(plan)) if r.temperature_c >= limit[r.rack_id]}
        assert len(hot) == 3


def test_an_episode_without_repetition_happens_once() -> None:
    plan = plan_of("overheating=1,start_s=10,length_s=5,every_s=null")
    limit = thresholds(plan)
    hot = [
        to_ms(r.event_time) - T0 for r in good(sent_by(plan)) if r.temperature_c >= limit[r.rack_id]
    ]
    assert len(hot) == 25
    assert min(hot) >= 10_000
    assert max(hot) < 15_000


def test_hovering_racks_are_near_their_threshold_on_both_sides() -> None:
    plan = plan_of("hovering=[rack-0001],within_c=1")
    limit = thresholds(plan)["rack-0001"]
    near = [r.temperature_c - limit for r in good(sent_by(plan)) if r.rack_id == "rack-0001"]
    assert max(abs(celsius) for celsius in near) <= 1.001
    assert 0.4 < sum(celsius >= 0 for celsius in near) / len(near) < 0.6


def test_silent_racks_send_nothing_and_leave_a_gap_in_the_sequence() -> None:
    records = sent_by(plan_of("silence=[rack-0005],start_s=20,length_s=10,every_s=50"))
    numbers = {record.number for record in records}
    missing = set(range(COUNT)) - numbers
    assert len(missing) == 2 * 10 * RATE / RACKS
    for number in missing:
        assert number % RACKS == 4
        assert 20 <= number / RATE % 50 < 30
    sequences = [r.sequence for r in good(records) if r.rack_id == "rack-0005"]
    assert sequences == sorted(sequences)
    assert max(b - a for a, b in pairwise(sequences)) == 51


def test_a_share_of_a_lossy_racks_readings_arrives() -> None:
    records = sent_by(
        plan_of("lossy=[rack-0005],start_s=10,length_s=40,every_s=null,arriving=0.25")
    )
    missing = set(range(COUNT)) - {record.number for record in records}
    assert {number % RACKS for number in missing} == {4}
    assert all(10 <= number / RATE < 50 for number in missing)
    due = 40 * RATE / RACKS
    assert 0.65 < len(missing) / due < 0.85


def test_only_affected_racks_have_a_weak_signal() -> None:
    records = good(sent_by(plan_of("weak-signal=[rack-0002],start_s=0,length_s=50,every_s=null")))
    for reading in records:
        weak = reading.rack_id == "rack-0002" and to_ms(reading.event_time) - T0 < 50_000
        assert (reading.signal_strength <= 0.15) == weak
        assert weak or reading.signal_strength >= 0.6


def test_faults_also_affect_hot_racks() -> None:
    plan = plan_of("overheating=[rack-0003],start_s=0,length_s=1000", "duplicate=0.05", "late=0.05")
    numbers = [record.number % RACKS for record in sent_by(plan) if record.flags]
    assert numbers.count(2) > 10


def test_faults_of_racks_that_do_not_exist_are_refused() -> None:
    world = make_world(1, 3)
    for text, complaint in (
        ("overheating=4", "asks for 4 of 3 racks"),
        ("silence=[rack-0009]", "names 'rack-0009'; the racks are rack-0001 to rack-0003"),
    ):
        with pytest.raises(UserFacingError, match=complaint):
            ReadingPlan(
                world, make_schedule(rate=1.0, clock_rate=3, now_ms=T0), [parse_fault(text)], 1
            )


def test_each_fault_has_a_description_for_the_list() -> None:
    assert set(FAULT_TYPES) == {
        "overheating", "hovering", "silence", "lossy", "weak-signal", "late", "too-late",
        "out-of-order", "duplicate", "malformed", "future", "orphan",
    }  # fmt: skip
    assert all((fault.__doc__ or "").rstrip().endswith(".") for fault in FAULT_TYPES.values())
