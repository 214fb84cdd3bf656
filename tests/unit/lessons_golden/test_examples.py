"""Golden figures of the two longer examples: the sensor ETL and the streaming sum."""

import json
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
    bad_values = [row[2] for row in kept]
    assert bad_values[:2] == [None, None]
    assert json.loads(str(bad_values[2])) == WRONG_TYPE
    assert bad_values[3:] == ["not JSON at all", CUT_OFF]
    outcomes = dict.fromkeys(output.outcomes, "allowed") | {"FAILFAST": "refused"}
    assert output.outcomes == outcomes
    assert output["a folder for bad records was made"].value == "False"


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
