"""Moments: epoch milliseconds to the contract's text and back; durations as intervals."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.times import duration_ms, interval_ms, now_ms, to_interval, to_ms, to_text

FIRST_MS = to_ms("0001-01-01T00:00:00.000Z")
LAST_MS = to_ms("9999-12-31T23:59:59.999Z")


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_795_242_360_123, "2026-11-21T06:26:00.123Z"),
        (951_825_600_000, "2000-02-29T12:00:00.000Z"),
    ],
)
def test_a_moment_is_written_in_utc_with_milliseconds_and_z(epoch_ms: int, text: str) -> None:
    assert to_text(epoch_ms) == text
    assert to_ms(text) == epoch_ms


@given(st.integers(FIRST_MS, LAST_MS))
def test_milliseconds_survive_conversion_to_text_and_back(epoch_ms: int) -> None:
    assert to_ms(to_text(epoch_ms)) == epoch_ms


@pytest.mark.parametrize(
    ("text", "epoch_ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T00:00:01.123999Z", 1123),
        ("1969-12-31T23:59:59.999900Z", -1),
    ],
)
def test_fewer_or_more_digits_of_a_second_are_read_as_milliseconds(
    text: str, epoch_ms: int
) -> None:
    assert to_ms(text) == epoch_ms


@pytest.mark.parametrize(
    "text",
    ["", "Z", "2026-11-21T06:26:00", "2026-11-21T06:26:00+00:00", "2026-02-30T00:00:00Z", "now"],
)
def test_a_text_that_is_not_a_moment_in_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        to_ms(text)


def test_now_is_after_this_was_written() -> None:
    assert now_ms() > to_ms("2025-01-01T00:00:00Z")


def test_a_duration_is_an_interval_in_its_largest_whole_unit() -> None:
    durations = {
        "10 minutes": timedelta(minutes=10),
        "1 hour": timedelta(hours=1),
        "90 minutes": timedelta(minutes=90),
        "1 second": timedelta(seconds=1),
        "1500 milliseconds": timedelta(seconds=1.5),
        "0 milliseconds": timedelta(0),
    }
    assert [to_interval(duration) for duration in durations.values()] == list(durations)
    assert duration_ms(timedelta(seconds=1.5)) == 1500


def test_an_interval_is_read_in_milliseconds_and_another_form_is_refused() -> None:
    intervals = {
        "10 minutes": 600_000,
        "1 second": 1000,
        "3 hours": 3 * 3_600_000,
        "2 days": 48 * 3_600_000,
        "1500 milliseconds": 1500,
        "1 Week": 7 * 24 * 3_600_000,
        "1 hour 30 minutes": 90 * 60_000,
    }
    assert [interval_ms(text) for text in intervals] == list(intervals.values())
    for text in ("", "ten minutes", "10", "10 fortnights", "-5 minutes", "1 hour 30"):
        with pytest.raises(ValueError, match=f"^{text!r} is not of the form '10 minutes'$"):
            interval_ms(text)


@given(st.integers(0, 10**12))
def test_a_duration_survives_conversion_to_an_interval_and_back(ms: int) -> None:
    assert interval_ms(to_interval(timedelta(milliseconds=ms))) == ms
