"""Parsing and formatting of durations."""

import pytest

from events.durations import to_duration_ms, to_duration_text


def test_a_duration_is_numbers_with_units_or_a_number_of_seconds() -> None:
    expected_ms = {
        "90": 90_000,
        "0.5": 500,
        "30s": 30_000,
        "5m": 300_000,
        "1h30m": 5_400_000,
        "2d": 172_800_000,
    }
    assert {text: to_duration_ms(text) for text in expected_ms} == expected_ms


@pytest.mark.parametrize(
    "text", ["", "soon", "-5m", "5 minutes", "m5", "5m1h", "4000d", "9" * 400, "9" * 400 + "d"]
)
def test_an_invalid_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} is "):
        to_duration_ms(text)


def test_a_duration_is_formatted_in_its_two_largest_units() -> None:
    expected = {
        0: "0s",
        59_999: "59s",
        300_000: "5m00s",
        7_500_000: "2h05m",
        90_061_000: "1d01h",
        -5: "0s",
    }
    assert {each_ms: to_duration_text(each_ms) for each_ms in expected} == expected
