"""Durations as people write and read them."""

import pytest

from alerting.durations import to_duration_ms, to_duration_text


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("90", 90_000),
        ("0.5", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
    ],
)
def test_a_duration_is_a_number_with_units_and_seconds_without(text: str, expected_ms: int) -> None:
    assert to_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "soon", "-5m", "5 minutes", "m5", "5m1h", "4000d"])
def test_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} is "):
        to_duration_ms(text)


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [(0, "0s"), (59_999, "59s"), (300_000, "5m00s"), (7_500_000, "2h05m"), (90_061_000, "1d01h"), (-5, "0s")],
)
def test_it_is_shown_in_its_two_largest_units(duration_ms: int, expected: str) -> None:
    assert to_duration_text(duration_ms) == expected
