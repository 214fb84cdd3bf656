"""Golden figures of the two longer examples: the sensor ETL and the streaming sum."""

import json
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from tests.support import ROOT
from tests.unit.lessons_golden.output import Output, golden

WRONG_TYPE = {
    "timestamp": "2019-02-11T10:00:02Z",
    "deviceId": "three",
    "deviceType": "SensorTypeD",
    "signalStrength": 0.9,
}
CUT_OFF = '{"timestamp": "2019-02-11T10:00:06Z", "deviceId": 4'
FIRST_STEPS = ROOT / "lessons" / "data" / "steps" / "first.json"


@golden("sensor_etl")
def test_the_etl_adds_two_columns_and_sets_bad_records_apart_as_text(output: Output) -> None:
    columns = "timestamp, deviceId, deviceType, signalStrength, INPUT_FILE_NAME, PROCESSED_TIME"
    assert output["columns"].value == columns
    (wrong_type, file), cut_off = output["bad records"].rows
    assert json.loads(str(wrong_type)) == WRONG_TYPE
    assert file == "1.json"
    assert cut_off == (CUT_OFF, "2.json")


@golden("bad_records")
def test_each_parse_mode_treats_the_same_bad_records_in_its_own_way(output: Output) -> None:
    good = [(1, 0.5), (2, 0.1)]
    with_nulls = [*good, (None, 0.9), (None, None), (None, None)]
    assert output["PERMISSIVE"].rows == with_nulls
    assert output["DROPMALFORMED"].rows == good
    assert output["FAILFAST"].rows == []
    assert output["badRecordsPath"].rows == with_nulls
    kept = output["PERMISSIVE with _corrupt_record"].rows
    assert [row[:2] for row in kept] == with_nulls
    texts = [row[2] for row in kept]
    assert texts[:2] == [None, None]
    assert json.loads(str(texts[2])) == WRONG_TYPE
    assert texts[3:] == ["not JSON at all", CUT_OFF]
    outcomes = dict.fromkeys(output.outcomes, "allowed") | {"FAILFAST": "refused"}
    assert output.outcomes == outcomes
    assert output["a folder for bad records was made"].value == "False"


@golden("sensor_counts")
def test_records_per_device_and_five_seconds(output: Output) -> None:
    found = re.findall(r"(\d\d:\d\d:\d\d) +(\d) +(\d)$", output.text, re.MULTILINE)
    assert {(start, int(device), int(count)) for start, device, count in found} == {
        ("10:00:00", 1, 5),
        ("10:00:00", 2, 2),
        ("10:00:00", 4, 3),
        ("10:00:05", 1, 2),
        ("10:00:05", 2, 6),
        ("10:05:00", 4, 1),
    }


@golden("sensor_alerts")
def test_a_closed_window_with_too_few_records_gives_the_published_line(output: Output) -> None:
    line = "ALERT from Sensors: Between {} and {}, device {} reported only {} times"
    alert = line.format("10:00:00", "10:00:05", 2, 2)
    appended = [s for s in output.sections if "append mode" in s.heading]
    assert [line.strip() for section in appended for line in section.lines].count(alert) == 1


@golden("weak_signal")
def test_the_stream_shows_each_weak_record_and_a_window_its_weakest(output: Output) -> None:
    weak = [(1, 0.15), (1, 0.16), *((2, strength / 100) for strength in range(12, 18))]
    assert output.sections[0].batches == {0: [], 1: weak, 2: []}
    windows = [("10:00:05", 1, 2, 0.15), ("10:00:05", 2, 6, 0.12)]
    assert output["counts per closed window"].batches == {0: [], 1: [], 2: [], 3: windows}
    in_memory = [("10:00:05", 1, 0.15), ("10:00:05", 2, 0.12)]
    assert output["the memory table devices"].rows == in_memory
    assert output["the Parquet folder"].rows == [(1, 2), (2, 6)]


@golden("steps")
def test_1450_windows_close_and_half_is_lost_when_each_file_spans_all_days(
    output: Output,
) -> None:
    for files, steps in (
        ("at once", 47_835_971),
        ("file by file", 47_835_971),
        ("mixed", 23_914_489),
    ):
        assert output[files].value == f"1450 windows closed, {steps:,} of 47,922,235 steps"
        assert output[files].columns == ("window", "sum(num_steps)")
    windows = (
        "{2018-07-22 06:40:00, 2018-07-22 06:45:00}",
        "{2018-07-22 06:45:00, 2018-07-22 06:50:00}",
        "{2018-07-22 06:50:00, 2018-07-22 06:55:00}",
    )
    sums, in_time = (7_550, 30_813, 36_897), (7_550, 10_271, 21_598)
    assert output["at once"].rows == list(zip(windows, sums, strict=True))
    assert output["file by file"].rows == list(zip(windows, sums, strict=True))
    assert output["mixed"].rows == list(zip(windows, in_time, strict=True))


def test_the_first_two_events_are_as_published() -> None:
    first, second = map(json.loads, FIRST_STEPS.read_text(encoding="utf-8").splitlines())
    published = {
        "id": 950_000,
        "user_id": 24,
        "device_id": 5,
        "num_steps": 5_014,
        "miles_walked": 2.507,
        "calories_burnt": 250.7,
        "timestamp": "2018-07-22T06:44:25.732",
    }
    assert first | published == first
    published = {"id": 950_001, "user_id": 24, "device_id": 13, "num_steps": 2_536}
    published |= {"miles_walked": 1.268, "calories_burnt": 126.8}
    assert second | published == second


@golden("steps")
def test_plain_python_computes_the_same_step_sums(output: Output) -> None:
    first = [json.loads(line) for line in FIRST_STEPS.read_text(encoding="utf-8").splitlines()]
    moments = [datetime.fromisoformat(event["timestamp"]).replace(tzinfo=UTC) for event in first]
    steps = [event["num_steps"] for event in first]
    for at in range(2, 8_712):
        moments.append(moments[1] + timedelta(seconds=50 * (at - 1)))
        steps.append(1_000 + at * 7_919 % 9_000)
    sums: dict[datetime, int] = defaultdict(int)
    for moment, number in zip(moments, steps, strict=True):
        sums[moment - timedelta(seconds=moment.timestamp() % 300)] += number
    watermark = max(moments) - timedelta(minutes=10)
    five_minutes = timedelta(minutes=5)
    closed = {start: sums[start] for start in sorted(sums) if start + five_minutes <= watermark}
    for files in ("at once", "file by file"):
        total = f"{sum(closed.values()):,} of {sum(steps):,} steps"
        assert output[files].value == f"{len(closed)} windows closed, {total}"
        assert output[files].rows == [
            (f"{{{start:%Y-%m-%d %H:%M:%S}, {start + five_minutes:%Y-%m-%d %H:%M:%S}}}", number)
            for start, number in list(closed.items())[:3]
        ]
