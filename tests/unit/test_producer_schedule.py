"""The schedule is absolute, and sending follows it; the tests inject the clock."""

from typing import Any

import numpy as np
import pytest

from events.cli import UserFacingError
from events.topics import AD_CLICKS, RACK_READINGS
from producer.pacing.pacer import ScheduleLag, send_on_schedule
from producer.pacing.schedule import Schedule, make_schedule
from producer.streams.stream_plan import Batch
from tests.builders import T0


class Clock:
    """A clock that moves only while sleeping or sending."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        """Return the seconds since the start."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.waits.append(seconds)
        self.now_s += seconds


def batches(slots: int, size: int, rate: float = 1.0) -> list[Batch]:
    every = np.arange(slots, dtype=np.int64)
    return [
        Batch(
            RACK_READINGS,
            part,
            part / rate,
            part,
            np.zeros(len(part), np.uint8),
            [b"k"] * len(part),
            [b"v"] * len(part),
        )
        for part in np.split(every, range(size, slots, size))
    ]


def sent_at(
    rate: float, slots: int, *, sending_takes: dict[int, float] | None = None
) -> tuple[list[float], ScheduleLag]:
    """Return when each slot was sent, and the lag; sending some slots takes time."""
    clock, times = Clock(), [-1.0] * slots

    def send(batch: Batch, position: int, end: int) -> None:
        for slot in batch.slots[position:end].tolist():
            times[slot] = clock.now_s
        for slot in batch.slots[position:end].tolist():
            clock.now_s += (sending_takes or {}).get(slot, 0.0)

    rounds = [[batch] for batch in batches(slots, 7, rate)]
    lag = send_on_schedule(
        rounds, send, paced=True, since_start=clock, sleep=clock.sleep, idle=lambda _: True
    )
    return times, lag


def test_each_slot_is_sent_when_it_is_due_within_one_short_wait() -> None:
    times, lag = sent_at(200.0, 600)
    for slot, time in enumerate(times):
        assert 0 <= time - slot / 200.0 <= 0.0006
    assert lag.max_s <= 0.0006


def test_the_rate_does_not_drift_over_many_records() -> None:
    times, _ = sent_at(3000.0, 90_000)
    assert times[-1] == pytest.approx(89_999 / 3000, abs=0.001)


def test_after_a_pause_the_producer_catches_up_with_its_schedule() -> None:
    times, lag = sent_at(100.0, 1000, sending_takes={200: 3.0})
    assert times[200] == pytest.approx(2.0, abs=0.001)
    assert times[201] == pytest.approx(5.0, abs=0.001) == times[450]
    assert times[600] == pytest.approx(6.0, abs=0.001)
    assert lag.max_s == pytest.approx(2.99, abs=0.001)
    assert lag.now_s < 0.001


def test_a_producer_is_not_behind_while_nothing_is_due() -> None:
    clock, lags = Clock(), []

    def send(batch: Batch, position: int, _: int) -> None:
        clock.now_s += 1.5 if batch.slots[position] == 0 else 0.0

    def idle(lag: ScheduleLag) -> bool:
        lags.append((clock.now_s, lag.now_s))
        return True

    send_on_schedule(
        [batches(3, 3)], send, paced=True, since_start=clock, sleep=clock.sleep, idle=idle
    )
    sent_late = next(place for place, (_, lag_s) in enumerate(lags) if lag_s == 0.5)
    waiting = [lag_s for at_s, lag_s in lags[sent_late + 1 :] if at_s < 2.0]
    assert waiting and not any(waiting)


def test_a_stop_takes_effect_long_before_the_next_record() -> None:
    clock, sent = Clock(), []
    send_on_schedule(
        [[batch] for batch in batches(3, 1, rate=0.001)],
        lambda batch, *_: sent.append(int(batch.slots[0])),
        paced=True,
        since_start=clock,
        sleep=clock.sleep,
        idle=lambda _: clock.now_s < 5,
    )
    assert sent == [0]
    assert clock.now_s < 5.2


def test_a_stop_takes_effect_while_all_subjects_are_silent() -> None:
    (empty,) = batches(0, 1)
    rounds = iter([[empty]] * 100)
    looks = iter([True, True, False])
    clock = Clock()
    send_on_schedule(
        rounds,
        lambda *_: None,
        paced=True,
        since_start=clock,
        sleep=clock.sleep,
        idle=lambda _: next(looks),
    )
    assert len(list(rounds)) == 97
    assert clock.now_s > 0.1


def test_an_unpaced_run_sends_whole_batches_at_once() -> None:
    clock, sent = Clock(), []
    lag = send_on_schedule(
        [[batch] for batch in batches(20, 7)],
        lambda _, position, end: sent.append((position, end)),
        paced=False,
        since_start=clock,
        sleep=clock.sleep,
        idle=lambda _: True,
    )
    assert sent == [(0, 7), (0, 7), (0, 6)]
    assert clock.waits == [] and lag.max_s == 0


def test_the_batches_of_a_round_are_sent_side_by_side_at_their_own_rates() -> None:
    clock = Clock()
    sent: list[tuple[str, int, float]] = []
    fast, slow = batches(100, 100, rate=10.0)[0], batches(10, 10, rate=1.0)[0]
    slow.topic = AD_CLICKS

    def send(batch: Batch, position: int, end: int) -> None:
        sent.extend(
            (batch.topic.name, slot, clock.now_s) for slot in batch.slots[position:end].tolist()
        )

    send_on_schedule(
        [[fast, slow], [batches(0, 1)[0], slow]],
        send,
        paced=True,
        since_start=clock,
        sleep=clock.sleep,
        idle=lambda _: True,
    )
    assert len(sent) == 100 + 10 + 10
    for name, slot, time in sent[:110]:
        assert 0 <= time - slot / (1.0 if name == "ad-clicks" else 10.0) <= 0.0011
    assert {name for name, *_ in sent[110:]} == {"ad-clicks"}


def test_due_times_lie_on_the_grid_of_the_rate() -> None:
    schedule = Schedule(rate=3.0, paced=True, start_wall_ms=T0, start_event_ms=T0)
    assert schedule.scheduled_ms(np.arange(5)).tolist() == [
        T0,
        T0 + 333,
        T0 + 666,
        T0 + 1000,
        T0 + 1333,
    ]


def test_without_a_time_scale_event_time_is_the_due_time() -> None:
    schedule = make_schedule(rate=200.0, clock_rate=40, now_ms=T0, lead_ms=200)
    numbers = np.arange(10_000)
    assert schedule.start_wall_ms == T0 + 200
    assert np.array_equal(schedule.event_ms(numbers), schedule.scheduled_ms(numbers))


def test_scaled_time_starts_in_the_past_so_that_no_event_is_ahead_of_the_clock() -> None:
    schedule = make_schedule(rate=200.0, clock_rate=40, now_ms=T0, duration_s=60, time_scale=3600)
    numbers = np.arange(schedule.count or 0)
    offset_ms = schedule.event_ms(numbers) - schedule.scheduled_ms(numbers)
    assert schedule.count == 12_000
    assert offset_ms.max() <= 0
    assert offset_ms[-1] > -60_000, "the run should end close to now"
    span_ms = int(schedule.event_ms(numbers[-1:])[0] - schedule.event_ms(numbers[:1])[0])
    assert span_ms == pytest.approx(60 * 3600 * 1000, rel=0.001)


def test_an_unpaced_run_has_a_reading_per_rack_and_second_and_none_ahead() -> None:
    schedule = make_schedule(rate=None, clock_rate=50, now_ms=T0, lead_ms=200, count=100_000)
    times = schedule.event_ms(np.arange(100_000))
    assert not schedule.paced
    assert (times[50:] - times[:-50]).tolist() == [1000] * (100_000 - 50)
    assert times.max() <= T0


def test_a_run_with_events_in_the_future_or_before_1970_is_refused() -> None:
    endless = "must end, or its events would lie in the future"
    too_short = {"rate": 10.0, "duration_s": 60, "time_scale": 60.0, "start_event_ms": T0 - 1000}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"rate": 10.0, "time_scale": 2.0}, endless),
        ({"rate": None}, endless),
        ({"rate": 10.0, "start_event_ms": T0 + 1}, "would be ahead of the clock"),
        (too_short, "start at 2026-11-18T10:07:40.000Z or before"),
        ({"rate": None, "clock_rate": 1, "count": 10**10}, "would start before 1970"),
    ]
    errors = []
    for options, _ in cases:
        with pytest.raises(UserFacingError) as error:
            make_schedule(**{"clock_rate": 40, "now_ms": T0, **options})
        errors.append(str(error.value))
    missing = [
        (part, text) for (_, part), text in zip(cases, errors, strict=True) if part not in text
    ]
    assert missing == []


def test_before_a_flush_the_last_event_is_old_enough_to_close_all_state() -> None:
    schedule = make_schedule(
        rate=10.0, clock_rate=1, now_ms=T0, duration_s=60, time_scale=60, flush_delay_s=900
    )
    last_ms = int(schedule.event_ms(np.array([599]))[0])
    assert 900_000 <= T0 + 60_000 - last_ms < 900_000 + 60_000
    with pytest.raises(UserFacingError, match="or less than 15 minutes before --flush: start at"):
        make_schedule(rate=10.0, clock_rate=1, now_ms=T0, flush_delay_s=900, start_event_ms=T0)


def test_the_smaller_of_duration_and_count_ends_the_run() -> None:
    assert make_schedule(rate=10.0, clock_rate=1, now_ms=T0, duration_s=2, count=100).count == 20
    assert make_schedule(rate=10.0, clock_rate=1, now_ms=T0, duration_s=20, count=100).count == 100
