"""The machine's speed by a clock that the test sets."""

import pytest

from loadtest import machine_speed


def test_the_speed_is_that_of_the_median_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    # In seconds; 200,000 additions in the median of 0.02 s are 10 per microsecond.
    lengths = iter((0.01, 0.02, 0.9, 0.02, 0.05))
    now_s = 0.0

    def loop() -> None:
        nonlocal now_s
        now_s += next(lengths)

    monkeypatch.setattr(machine_speed, "loop", loop)
    monkeypatch.setattr("time.perf_counter", lambda: now_s)
    assert machine_speed.additions_per_us(measure_s=1.0) == pytest.approx(10.0)


def test_the_real_loop_takes_time() -> None:
    assert 0.1 < machine_speed.additions_per_us(measure_s=0.01) < 1000
