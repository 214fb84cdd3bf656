"""A shape changes how many of the same events fall into each second of the same time."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from events.cli import UserFacingError
from producer.pacing.schedule import Schedule, make_schedule
from producer.pacing.shape import AnyShape, Burst, Daily, Ramp, SingleBurst
from tests.builders import T0


def schedule(shape: AnyShape | None, rate: float, seconds: float) -> Schedule:
    return make_schedule(rate=rate, clock_rate=1, now_ms=T0, duration_s=seconds, shape=shape)


def per_second(shape: AnyShape | None, rate: float, seconds: int) -> Sequence[int]:
    """Return how many events are due in each second of the run."""
    due = schedule(shape, rate, seconds).scheduled_s(np.arange(int(rate * seconds)))
    counts = Counter(int(moment) for moment in due.tolist())
    assert sum(counts.values()) == rate * seconds
    return [counts[second] for second in range(seconds)]


def near(expected: Sequence[float]) -> object:
    return pytest.approx(expected, abs=2)


def test_without_a_shape_the_rate_is_constant() -> None:
    assert per_second(None, 100, 4) == [100, 100, 100, 100]


def test_a_burst_of_four_times_the_rate_for_one_second_in_five_has_half_of_the_events() -> None:
    # Weights 4, 1, 1, 1, 1 at 100 per second: 250 in the burst, 62.5 in each other second.
    expected = [250, 62.5, 62.5, 62.5, 62.5] * 2
    assert per_second(Burst(times=4, length_s=1, every_s=5), 100, 10) == near(expected)


def test_a_single_burst_happens_once() -> None:
    shape = SingleBurst(times=7, start_s=2, length_s=1)
    assert per_second(shape, 100, 6) == near([50, 50, 350, 50, 50, 50])


def test_a_ramp_grows_evenly() -> None:
    # The mean of the first quarter of a line from 0 to 2 is 0.25, and so on.
    assert per_second(Ramp(begin=0, end=2), 100, 4) == near([25, 75, 125, 175])


def test_a_day_has_its_peak_in_the_middle() -> None:
    # A cosine's mean over half a period is 2 / pi; the quiet half has 1 - 0.5 * 2 / pi.
    quiet = 100 * (1 - 1 / np.pi)
    assert per_second(Daily(day_s=4, swing=0.5), 100, 4) == near(
        [quiet, 200 - quiet, 200 - quiet, quiet]
    )


@pytest.mark.parametrize(
    "shape", [Ramp(), Burst(), SingleBurst(start_s=1, length_s=2), Daily(day_s=7)]
)
def test_event_time_follows_the_schedule_and_can_be_inverted(shape: AnyShape) -> None:
    shaped = schedule(shape, 1000, 20)
    numbers = np.arange(20_000)
    since_ms = shaped.event_ms(numbers) - shaped.start_event_ms
    assert (np.diff(since_ms) >= 0).all()
    assert since_ms[-1] <= 20_000
    assert np.array_equal(shaped.scheduled_ms(numbers) - T0, since_ms)
    # The inverse may be off by the events of the same millisecond.
    again = shaped.events_by(since_ms)
    assert (shaped.event_ms(np.minimum(again, 19_999)) - shaped.start_event_ms <= since_ms).all()


def test_a_shape_also_applies_to_scaled_event_time() -> None:
    scaled = make_schedule(
        rate=100,
        clock_rate=1,
        now_ms=T0,
        duration_s=10,
        time_scale=3600,
        shape=Burst(times=4, every_s=5),
    )
    first_burst = scaled.event_ms(np.array([0, 249])) - scaled.start_event_ms
    assert first_burst.tolist() == [0, pytest.approx(3_600_000 * 249 / 250, abs=20_000)]


def test_a_shape_without_a_rate_or_an_end_is_refused() -> None:
    for rate, seconds in ((None, 10.0), (100.0, None)):
        with pytest.raises(UserFacingError, match="a shape needs a rate and an end"):
            make_schedule(rate=rate, clock_rate=1, now_ms=T0, duration_s=seconds, shape=Ramp())
