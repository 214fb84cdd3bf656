"""Sliding windows of 10 minutes every 5, on a few readings."""

from events.times import to_ms
from producer.expected.oracles.rack_temperature import temperature_windows, window_starts
from tests.builders import reading

GOLDEN = [
    reading(1, 99.5, "rack1", event_time="2017-06-02T08:01:01.000Z"),
    reading(1, 100.5, "rack1", event_time="2017-06-02T08:06:02.000Z"),
    reading(1, 101.0, "rack1", event_time="2017-06-02T08:11:03.000Z"),
    reading(1, 102.0, "rack1", event_time="2017-06-02T08:16:04.000Z"),
    reading(1, 99.5, "rack2", event_time="2017-06-02T08:01:02.000Z"),
    reading(1, 105.5, "rack2", event_time="2017-06-02T08:06:04.000Z"),
    reading(1, 104.0, "rack2", event_time="2017-06-02T08:11:06.000Z"),
    reading(1, 108.0, "rack2", event_time="2017-06-02T08:16:08.000Z"),
]


def averages(scope: str) -> dict[str, float]:
    rows = temperature_windows(GOLDEN)
    return {
        row["window_start"][11:16]: row["temperature_c_avg"]
        for row in rows
        if row["scope"] == scope
    }


def test_the_golden_readings_give_the_golden_averages() -> None:
    starts = ("07:55", "08:00", "08:05", "08:10", "08:15")
    assert averages("fleet") == dict(
        zip(starts, (99.5, 101.25, 102.75, 103.75, 105.0), strict=True)
    )
    assert averages("rack1") == dict(zip(starts, (99.5, 100.0, 100.75, 101.5, 102.0), strict=True))
    assert averages("rack2") == dict(zip(starts, (99.5, 102.5, 104.75, 106.0, 108.0), strict=True))


def test_a_row_counts_records_with_their_copies_and_keeps_the_extremes() -> None:
    rows = temperature_windows([GOLDEN[0], GOLDEN[0], GOLDEN[5]])
    assert rows[1] == {
        "scope": "fleet",
        "window_start": "2017-06-02T08:00:00.000Z",
        "window_end": "2017-06-02T08:10:00.000Z",
        "reading_count": 3,
        "temperature_c_avg": (99.5 + 99.5 + 105.5) / 3,
        "temperature_c_min": 99.5,
        "temperature_c_max": 105.5,
    }


def test_the_readings_of_a_rack_named_like_the_fleet_count_once() -> None:
    named = reading(1, 99.5, "fleet", event_time="2017-06-02T08:01:01.000Z")
    row, _ = temperature_windows([named])
    assert (row["scope"], row["reading_count"]) == ("fleet", 1)


def test_a_window_includes_its_start_and_excludes_its_end() -> None:
    start, just_before = to_ms("2017-06-02T08:05:00.000Z"), to_ms("2017-06-02T08:04:59.999Z")
    assert window_starts(start) == [
        to_ms("2017-06-02T08:05:00.000Z"),
        to_ms("2017-06-02T08:00:00.000Z"),
    ]
    assert window_starts(just_before) == [
        to_ms("2017-06-02T08:00:00.000Z"),
        to_ms("2017-06-02T07:55:00.000Z"),
    ]
