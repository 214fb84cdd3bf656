"""Lag and its slope, checked against values computed by hand."""

import pytest

from loadtest.measure import lag

T0 = 1_795_000_000  # 2026-11-18T11:06:40Z


def batch(began: str, took_ms: int, *ends: int) -> dict[str, object]:
    offsets = {str(partition): end for partition, end in enumerate(ends)}
    return {
        "timestamp": began,
        "batchDuration": took_ms,
        "sources": [{"endOffset": {"some-topic": offsets}}],
    }


def test_a_batchs_lag_is_what_arrived_while_it_ran() -> None:
    # 100 records/s from T0 on; the first batch took 2 s and read 100, the next 1 s and read 200.
    sizes = [(float(T0 + s), 100.0 * s) for s in range(11)]
    batches = [
        batch("2026-11-18T11:06:41.000Z", 2000, 60, 40),
        batch("2026-11-18T11:06:43.000Z", 1000, 150, 150),
    ]
    assert lag.batch_lag(batches, sizes) == [(T0 + 3, 200.0), (T0 + 4, 100.0)]


def test_without_topic_sizes_there_is_no_lag() -> None:
    assert lag.batch_lag([batch("2026-11-18T11:06:41.000Z", 2000, 1)], []) == []


def test_a_source_without_offsets_counts_as_unread() -> None:
    assert (
        lag.reached(
            {
                "sources": [
                    {"endOffset": None},
                    {"endOffset": {"a": {"0": 3}, "b": {"0": 4, "1": 5}}},
                ]
            }
        )
        == 12
    )


def test_unread_records_are_those_of_the_batchs_own_topics() -> None:
    done = {"sources": [{"endOffset": {"a": {"0": 3, "1": 4}}}, {"endOffset": {"b": {"0": 9}}}]}
    assert lag.unread(done, {"a": 7, "b": 9, "c": 1000}) == 0
    assert lag.unread(done, {"a": 10, "b": 5, "c": 1000}) == 3


def test_half_a_second_of_latency_at_1000_per_second_is_a_lag_of_500() -> None:
    seen = [(T0 + 0.1, 400.0), (T0 + 0.2, 500.0), (T0 + 0.9, 9000.0), (T0 + 2.5, 100.0)]
    assert lag.output_lag(seen, 1000) == [(T0 + 0.5, 500.0), (T0 + 2.5, 100.0)]


SLOPES: list[tuple[lag.Series, float | None]] = [
    ([(0, 5.0), (1, 5.0), (2, 5.0)], 0.0),
    ([(10, 0.0), (11, 20.0), (12, 40.0)], 20.0),
    ([(0, 0.0), (1, 30.0), (2, 0.0)], 0.0),
    ([(0, 1.0), (1, 2.0), (2, 2.0), (3, 3.0)], 0.6),
    ([(0, 0.0), (1, 100.0)], None),
    ([(7, 0.0), (7, 1.0), (7, 2.0)], None),
]


def test_the_slope_is_the_least_squares_lines() -> None:
    slopes = [lag.slope(series) for series, _ in SLOPES]
    assert slopes == [None if slope is None else pytest.approx(slope) for _, slope in SLOPES]


def test_only_points_of_the_interval_remain() -> None:
    assert lag.between([(1, 9.0), (2, 8.0), (3, 7.0)], 2, 2.5) == [(2, 8.0)]
