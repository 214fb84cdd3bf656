"""The schedule is absolute, and sending follows it by an injected clock."""

import numpy as np
import pytest

from events.cli import PersonError
from events.topics import AD_CLICKS, RACK_READINGS
from producer.pacing import Slip, send_on_schedule
from producer.plan import Batch
from producer.schedule import Schedule, make_schedule

T0 = 1_795_000_000_000


class Clock:
    """A clock that moves only when somebody sleeps, or when sending takes time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        """Return the seconds since the start."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let the seconds go by."""
        self.naps.append(seconds)
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
) -> tuple[list[float], Slip]:
    """Return when each slot was sent, and the slip; sending some slots takes time."""
    clock, times = Clock(), [-1.0] * slots

    def send(batch: Batch, position: int, end: int) -> None:
        for slot in batch.slots[position:end].tolist():
            times[slot] = clock.now_s
        for slot in batch.slots[position:end].tolist():
            clock.now_s += (sending_takes or {}).get(slot, 0.0)

    rounds = [[batch] for batch in batches(slots, 7, rate)]
    slip = send_on_schedule(
        rounds, send, paced=True, since_start=clock, sleep=clock.sleep, idle=lambda _: True
    )
    return times, slip


def test_nothing_is_sent_before_it_is_due_nor_more_than_a_nap_after() -> None:
    times, slip = sent_at(200.0, 600)
    for slot, time in enumerate(times):
        assert 0 <= time - slot / 200.0 <= 0.0006
    assert slip.most_s <= 0.0006


def test_the_rate_does_not_drift_over_many_records() -> None:
    times, _ = sent_at(3000.0, 90_000)
    assert times[-1] == pytest.approx(89_999 / 3000, abs=0.001)


def test_after_a_pause_the_producer_catches_up_and_is_on_its_schedule_again() -> None:
    times, slip = sent_at(100.0, 1000, sending_takes={200: 3.0})
    assert times[200] == pytest.approx(2.0, abs=0.001)
    assert times[201] == pytest.approx(5.0, abs=0.001) == times[450]
    assert times[600] == pytest.approx(6.0, abs=0.001)
    assert slip.most_s == pytest.approx(2.99, abs=0.001)
    assert slip.now_s < 0.001


def test_a_stop_ends_the_sending_even_far_from_the_next_record() -> None:
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


def test_without_a_pace_whole_batches_go_at_once() -> None:
    clock, sent = Clock(), []
    slip = send_on_schedule(
        [[batch] for batch in batches(20, 7)],
        lambda _, position, end: sent.append((position, end)),
        paced=False,
        since_start=clock,
        sleep=clock.sleep,
        idle=lambda _: True,
    )
    assert sent == [(0, 7), (0, 7), (0, 6)]
    assert clock.naps == [] and slip.most_s == 0


def test_the_batches_of_a_round_go_side_by_side_each_by_its_own_rate() -> None:
    clock = Clock()
    sent: list[tuple[str, int, float]] = []
    fast, slow = batches(100, 100, rate=10.0)[0], batches(10, 10, rate=1.0)[0]
    slow.topic = AD_CLICKS

    def send(batch: Batch, position: int, end: int) -> None:
        sent.extend((batch.topic.name, slot, clock.now_s) for slot in batch.slots[position:end].tolist())

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
    assert schedule.due_ms(np.arange(5)).tolist() == [T0, T0 + 333, T0 + 666, T0 + 1000, T0 + 1333]


def test_event_time_is_the_due_time_when_time_is_not_scaled() -> None:
    schedule = make_schedule(rate=200.0, clock_rate=40, now_ms=T0, lead_ms=200)
    numbers = np.arange(10_000)
    assert schedule.start_wall_ms == T0 + 200
    assert np.array_equal(schedule.event_ms(numbers), schedule.due_ms(numbers))


def test_scaled_time_starts_in_the_past_so_that_no_event_is_ahead_of_the_clock() -> None:
    schedule = make_schedule(rate=200.0, clock_rate=40, now_ms=T0, duration_s=60, time_scale=3600)
    numbers = np.arange(schedule.count or 0)
    ahead = schedule.event_ms(numbers) - schedule.due_ms(numbers)
    assert schedule.count == 12_000
    assert ahead.max() <= 0
    assert ahead[-1] > -60_000, "the run should end close to now"
    span_ms = int(schedule.event_ms(numbers[-1:])[0] - schedule.event_ms(numbers[:1])[0])
    assert span_ms == pytest.approx(60 * 3600 * 1000, rel=0.001)


def test_as_fast_as_possible_each_rack_reads_once_a_second_and_no_event_is_ahead() -> None:
    schedule = make_schedule(rate=None, clock_rate=50, now_ms=T0, lead_ms=200, count=100_000)
    times = schedule.event_ms(np.arange(100_000))
    assert not schedule.paced
    assert (times[50:] - times[:-50]).tolist() == [1000] * (100_000 - 50)
    assert times.max() <= T0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rate": 10.0, "time_scale": 2.0}, "must know its end"),
        ({"rate": None}, "must know its end"),
        ({"rate": 10.0, "start_event_ms": T0 + 1}, "would be ahead of the clock"),
        (
            {"rate": 10.0, "duration_s": 60, "time_scale": 60.0, "start_event_ms": T0 - 1000},
            "start at 2026-11-18T10:07:40.000Z or before",
        ),
        ({"rate": None, "clock_rate": 1, "count": 10**10}, "would start before 1970"),
    ],
)
def test_a_run_that_would_overtake_the_clock_is_refused(options: dict[str, float], complaint: str) -> None:
    with pytest.raises(PersonError, match=complaint):
        make_schedule(**{"clock_rate": 40, "now_ms": T0, **options})  # type: ignore[arg-type]


def test_before_a_flush_the_last_event_lies_as_far_back_as_it_takes_to_close_all() -> None:
    schedule = make_schedule(rate=10.0, clock_rate=1, now_ms=T0, duration_s=60, time_scale=60, settling_s=900)
    last_ms = int(schedule.event_ms(np.array([599]))[0])
    assert 900_000 <= T0 + 60_000 - last_ms < 900_000 + 60_000
    with pytest.raises(PersonError, match="or --flush less than 15 minutes after them: start at"):
        make_schedule(rate=10.0, clock_rate=1, now_ms=T0, settling_s=900, start_event_ms=T0)


def test_duration_and_count_together_end_with_the_first() -> None:
    assert make_schedule(rate=10.0, clock_rate=1, now_ms=T0, duration_s=2, count=100).count == 20
    assert make_schedule(rate=10.0, clock_rate=1, now_ms=T0, duration_s=20, count=100).count == 100
