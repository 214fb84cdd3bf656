"""Tumbling windows of one minute, per device type and per rack, on a few readings."""

from typing import Any

from producer.expected.oracles.signal_statistics import signal_statistics
from tests.builders import reading

READINGS = [
    reading(1, rack="a", event_time="2026-11-18T10:00:00.000Z", signal_strength=0.5),
    reading(2, rack="a", event_time="2026-11-18T10:00:59.999Z", signal_strength=0.75),
    reading(3, rack="a", event_time="2026-11-18T10:01:00.000Z", signal_strength=0.25),
    reading(4, rack="b", event_time="2026-11-18T10:00:30.000Z", signal_strength=0.25),
]
Statistic = tuple[str, str | None, str | None, int, float, float, float]


def statistic(row: dict[str, Any]) -> Statistic:
    """Return start (as a minute), device type, rack, count, minimum, maximum and average."""
    least, most, mean = (row[f"signal_strength_{name}"] for name in ("min", "max", "avg"))
    group = row["device_type"], row["rack_id"]
    return row["window_start"][11:16], *group, row["reading_count"], least, most, mean


def test_each_reading_counts_once_for_its_type_and_once_for_its_rack() -> None:
    assert [statistic(row) for row in signal_statistics(READINGS)] == [
        ("10:00", "gpu-server", None, 3, 0.25, 0.75, 0.5),
        ("10:00", None, "a", 2, 0.5, 0.75, 0.625),
        ("10:00", None, "b", 1, 0.25, 0.25, 0.25),
        ("10:01", "gpu-server", None, 1, 0.25, 0.25, 0.25),
        ("10:01", None, "a", 1, 0.25, 0.25, 0.25),
    ]


def test_copies_count_and_a_row_has_the_fields_of_the_contract() -> None:
    row, _ = signal_statistics([READINGS[0], READINGS[0]])
    assert row == {
        "window_start": "2026-11-18T10:00:00.000Z",
        "window_end": "2026-11-18T10:01:00.000Z",
        "device_type": "gpu-server",
        "rack_id": None,
        "reading_count": 2,
        "signal_strength_min": 0.5,
        "signal_strength_max": 0.5,
        "signal_strength_avg": 0.5,
    }


def test_a_type_and_a_rack_of_the_same_name_are_two_groups() -> None:
    rows = signal_statistics([reading(1, rack="x", device_type="x"), reading(2, rack="y")])
    groups = {(row["device_type"], row["rack_id"]) for row in rows}
    assert groups == {("x", None), ("gpu-server", None), (None, "x"), (None, "y")}


def test_a_row_that_a_too_late_reading_may_change_is_indeterminate() -> None:
    rows = signal_statistics(READINGS, {READINGS[3].event_id})
    marked = [statistic(row)[:3] for row in rows if row.get("either")]
    assert marked == [("10:00", "gpu-server", None), ("10:00", None, "b")]
