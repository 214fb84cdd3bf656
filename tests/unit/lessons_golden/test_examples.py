"""Golden figures of the two longer examples: the sensor ETL and the streaming sum."""

import json
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from tests.support import ROOT
from tests.unit.lessons_golden.output import Output, golden, modes

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
    assert output["query etl"].value == "rows per batch [9, 11]"
    assert output["columns"].rows == [("1.json", 8, 1), ("2.json", 10, 1)]
    (wrong_type, file), cut_off = output["bad records"].rows
    assert json.loads(str(wrong_type)) == WRONG_TYPE
    assert file == "1.json"
    assert cut_off == (CUT_OFF, "2.json")


@golden("sensor_etl")
def test_a_repeated_batch_is_written_again_by_foreach_batch_and_not_by_the_sink(
    output: Output,
) -> None:
    assert output["the Parquet sink"].value == "18 rows; after a repeated batch 18"
    assert output["foreachBatch"].value == "18 rows; after a repeated batch 28"


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


@golden("sensor_sql")
def test_live_sql_gives_the_totals_so_far_after_each_file(output: Output) -> None:
    places = [output.headings.index(f"after {files} file(s)") for files in (1, 2)]
    after_one, after_two = (
        {section.heading: section.rows for section in output.sections[start + 1 : end]}
        for start, end in zip(places, (places[1], None), strict=True)
    )
    type_d = ("SensorTypeD", 3, 0.97, 0.99, 0.98)
    assert after_one == {
        "total": [(8,)],
        "per_type": [
            ("SensorTypeA", 3, 0.5, 0.52, 0.51),
            ("SensorTypeB", 2, 0.35, 0.36, 0.355),
            type_d,
        ],
        "per_file": [("1.json", 8)],
        "few": [
            ("2019-02-11 10:00:00", device, count) for device, count in ((1, 3), (2, 2), (4, 3))
        ],
        "two_types": [(1, "SensorTypeA", 0.5)],
    }
    assert after_two == {
        "total": [(18,)],
        "per_type": [
            ("SensorTypeA", 7, 0.15, 0.54, 0.4157),
            ("SensorTypeB", 8, 0.12, 0.36, 0.1975),
            type_d,
        ],
        "per_file": [("2.json", 10), ("1.json", 8)],
        "few": [
            ("2019-02-11 10:00:05", 1, 2),
            ("2019-02-11 10:00:00", 2, 2),
            ("2019-02-11 10:00:00", 4, 3),
        ],
        "two_types": [(1, "SensorTypeA", strength) for strength in (0.15, 0.16, 0.5)],
    }


@golden("sensor_sql")
def test_live_sql_is_over_a_stream_and_sorts_only_what_it_aggregates(output: Output) -> None:
    assert output["the view is a stream"].value == "True"
    assert output.outcomes == {"ORDER BY without an aggregation": "refused"}
    figures = {
        heading.partition(",")[0]: re.findall(r"\d[\d.]*", heading)
        for heading in output.headings
        if ": SELECT " in heading
    }
    assert figures == {
        "total": [],
        "per_type": ["4"],
        "per_file": ["1", "2", "2"],
        "few": ["5", "1", "2", "5", "1", "2"],
        "two_types": ["0.51"],
    }


@golden("sensor_counts")
def test_only_a_watermark_on_the_windows_own_column_cleans_the_state(output: Output) -> None:
    on_processed = output["windows on timestamp, watermark on PROCESSED_TIME"]
    on_timestamp = output["windows on timestamp, watermark on timestamp"]
    for windows, append, state_rows in (
        (on_processed, "refused", [3, 5, 6, 6]),
        (on_timestamp, "allowed", [3, 5, 6, 1]),
    ):
        assert windows.outcomes == modes(append, "allowed", "allowed")
        assert windows.details["complete"] == "state rows after each batch: [3, 5, 6]"
        assert windows.details["update"] == f"state rows after each batch: {state_rows}"
        assert windows.rows == [
            ("10:00:00", 1, 5),
            ("10:00:00", 2, 2),
            ("10:00:00", 4, 3),
            ("10:00:05", 1, 2),
            ("10:00:05", 2, 6),
            ("10:05:00", 4, 1),
        ]
    both_processed = output["windows on PROCESSED_TIME, watermark on PROCESSED_TIME"]
    assert both_processed.outcomes == {"append": "allowed"}


@golden("sensor_alerts")
def test_update_mode_alerts_on_windows_still_filling_and_append_mode_on_closed_ones(
    output: Output,
) -> None:
    first, second = ("10:00:00", "10:00:05"), ("10:00:05", "10:00:10")
    last = ("10:05:00", "10:05:05")
    alerts = {
        "1.json, update mode": [(first, 1, 3), (first, 2, 2), (first, 4, 3)],
        "1.json, append mode": [],
        "2.json, update mode": [(second, 1, 2)],
        "2.json, append mode": [],
        "3.json, update mode": [(last, 4, 1)],
        "3.json, append mode": [(first, 2, 2), (first, 4, 3), (second, 1, 2)],
    }
    for heading, found in alerts.items():
        lines = [
            f"ALERT from Sensors: Between {start} and {end}, device {device} reported only"
            f" {count} times"
            for (start, end), device, count in found
        ]
        assert [line.strip() for line in output[heading].lines] == (lines or ["no alert"])
    assert output["update mode"].heading == "update mode: foreach wrote the same 5 lines: True"
    assert output["append mode"].heading == "append mode: foreach wrote the same 3 lines: True"


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


@golden("steps")
def test_the_first_two_events_are_as_published(output: Output) -> None:
    (*first, watch), (*second, phone) = output["the first two events"].rows
    assert first == [950_000, 24, 5, 5_014, 2.507, 250.7, "2018-07-22 06:44:25.732"]
    assert second == [950_001, 24, 13, 2_536, 1.268, 126.8, "2018-07-22 06:44:26.732"]
    assert json.loads(str(watch)) == {"source": "watch", "battery": 81}
    assert json.loads(str(phone)) == {"source": "phone", "battery": 64}


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
