"""A shape spreads the same events over the same time, another number of them into each second."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from events.cli import PersonError
from producer.schedule import Schedule, make_schedule
from producer.shape import AnyShape, Burst, Daily, Ramp, SingleBurst

T0 = 1_795_000_000_000


def schedule(shape: AnyShape | None, rate: float, seconds: float) -> Schedule:
    return make_schedule(rate=rate, clock_rate=1, now_ms=T0, duration_s=seconds, shape=shape)


def per_second(shape: AnyShape | None, rate: float, seconds: int) -> Sequence[int]:
    """Return how many events are due in each second of the run."""
    due = schedule(shape, rate, seconds).due_s(np.arange(int(rate * seconds)))
    counts = Counter(int(moment) for moment in due.tolist())
    assert sum(counts.values()) == rate * seconds
    return [counts[second] for second in range(seconds)]


def near(expected: Sequence[float]) -> object:
    return pytest.approx(expected, abs=2)


def test_without_a_shape_every_second_has_as_many() -> None:
    assert per_second(None, 100, 4) == [100, 100, 100, 100]


def test_a_burst_of_one_second_in_five_holds_half_of_all_when_it_is_four_times_as_heavy() -> None:
    # Weights 4, 1, 1, 1, 1 of 100 a second: 250 in the burst, 62.5 in each other second.
    wanted = [250, 62.5, 62.5, 62.5, 62.5] * 2
    assert per_second(Burst(times=4, length_s=1, every_s=5), 100, 10) == near(wanted)


def test_a_single_burst_comes_once_after_its_start() -> None:
    shape = SingleBurst(times=7, start_s=2, length_s=1)
    assert per_second(shape, 100, 6) == near([50, 50, 350, 50, 50, 50])


def test_a_ramp_grows_evenly() -> None:
    # The mean of the first quarter of a line from 0 to 2 is 0.25, and so on.
    assert per_second(Ramp(begin=0, end=2), 100, 4) == near([25, 75, 125, 175])


def test_a_day_is_quiet_at_its_ends_and_busy_in_the_middle() -> None:
    # The mean of a cosine over half a period is 2 / pi; the quiet half has 1 - 0.5 * 2 / pi of the mean.
    quiet = 100 * (1 - 1 / np.pi)
    assert per_second(Daily(day_s=4, swing=0.5), 100, 4) == near([quiet, 200 - quiet, 200 - quiet, quiet])


@pytest.mark.parametrize("shape", [Ramp(), Burst(), SingleBurst(start_s=1, length_s=2), Daily(day_s=7)])
def test_event_time_follows_the_schedule_and_leads_back_to_the_number(shape: AnyShape) -> None:
    bent = schedule(shape, 1000, 20)
    numbers = np.arange(20_000)
    since_ms = bent.event_ms(numbers) - bent.start_event_ms
    assert (np.diff(since_ms) >= 0).all()
    assert since_ms[-1] <= 20_000
    assert np.array_equal(bent.due_ms(numbers) - T0, since_ms)
    # Events of the same millisecond cannot be told apart: at most those lie between a number and what it leads to.
    again = bent.by_then(since_ms)
    assert (bent.event_ms(np.minimum(again, 19_999)) - bent.start_event_ms <= since_ms).all()


def test_an_hour_of_event_time_a_second_bends_with_the_shape() -> None:
    scaled = make_schedule(
        rate=100, clock_rate=1, now_ms=T0, duration_s=10, time_scale=3600, shape=Burst(times=4, every_s=5)
    )
    first_burst = scaled.event_ms(np.array([0, 249])) - scaled.start_event_ms
    assert first_burst.tolist() == [0, pytest.approx(3_600_000 * 249 / 250, abs=20_000)]


def test_a_run_without_a_rate_or_an_end_has_no_shape() -> None:
    for rate, seconds in ((None, 10.0), (100.0, None)):
        with pytest.raises(PersonError, match="a shape is of a rate and of a run that ends"):
            make_schedule(rate=rate, clock_rate=1, now_ms=T0, duration_s=seconds, shape=Ramp())
