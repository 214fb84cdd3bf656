"""Sliding windows of 10 minutes every 5, on readings written by hand."""

from events.records import RackReading
from events.times import to_ms
from producer.oracle import temperature_windows, window_starts


def reading(rack: str, event_time: str, temperature_c: float) -> RackReading:
    return RackReading(
        event_id=f"{rack}-{event_time}",
        event_time=event_time,
        rack_id=rack,
        sequence=1,
        site_id="site-a",
        device_type="gpu-server",
        temperature_c=temperature_c,
        signal_strength=1.0,
    )


GOLDEN = [
    reading("rack1", "2017-06-02T08:01:01.000Z", 99.5),
    reading("rack1", "2017-06-02T08:06:02.000Z", 100.5),
    reading("rack1", "2017-06-02T08:11:03.000Z", 101.0),
    reading("rack1", "2017-06-02T08:16:04.000Z", 102.0),
    reading("rack2", "2017-06-02T08:01:02.000Z", 99.5),
    reading("rack2", "2017-06-02T08:06:04.000Z", 105.5),
    reading("rack2", "2017-06-02T08:11:06.000Z", 104.0),
    reading("rack2", "2017-06-02T08:16:08.000Z", 108.0),
]


def averages(scope: str) -> dict[str, float]:
    rows = temperature_windows(GOLDEN)
    return {row["window_start"][11:16]: row["temperature_c_avg"] for row in rows if row["scope"] == scope}


def test_the_golden_readings_give_the_golden_averages() -> None:
    starts = ("07:55", "08:00", "08:05", "08:10", "08:15")
    assert averages("fleet") == dict(zip(starts, (99.5, 101.25, 102.75, 103.75, 105.0), strict=True))
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


def test_a_window_holds_its_start_and_not_its_end() -> None:
    start, just_before = to_ms("2017-06-02T08:05:00.000Z"), to_ms("2017-06-02T08:04:59.999Z")
    assert window_starts(start) == [to_ms("2017-06-02T08:05:00.000Z"), to_ms("2017-06-02T08:00:00.000Z")]
    assert window_starts(just_before) == [
        to_ms("2017-06-02T08:00:00.000Z"),
        to_ms("2017-06-02T07:55:00.000Z"),
    ]
