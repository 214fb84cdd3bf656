"""Golden figures of the sensor chain, computed from its records and stated as literals."""

import json
import re
from collections import Counter, defaultdict
from statistics import mean
from typing import Any

from tests.support import ROOT
from tests.unit.lessons_golden.output import Output, Rows, golden

DATA = ROOT / "lessons" / "data" / "sensor_etl"
FILES = ("1.json", "2.json", "3.json")
DAY = "2019-02-11"
FEW = 5

QUERIES = {
    "total, complete": "SELECT count(*) AS total FROM sensors",
    "per_type, complete": "SELECT deviceType, count(*) AS count, min(signalStrength) AS min,"
    " max(signalStrength) AS max, round(avg(signalStrength), 4) AS avg"
    " FROM sensors GROUP BY deviceType ORDER BY deviceType",
    "per_file, complete": "SELECT INPUT_FILE_NAME, PROCESSED_TIME, count(*) AS rows"
    " FROM sensors GROUP BY 1, 2 ORDER BY 2 DESC",
    "few, complete": "SELECT window(timestamp, '5 seconds').start AS start, deviceId,"
    " count(*) AS count FROM sensors GROUP BY 1, 2 HAVING count(*) < 5 ORDER BY 1 DESC, 2",
    "two_types, append": "SELECT deviceId, deviceType, signalStrength FROM sensors"
    " WHERE deviceType IN ('SensorTypeA', 'SensorTypeD') AND signalStrength < 0.51",
}


def good_records(*files: str) -> list[dict[str, Any]]:
    """Return the records that can be parsed, in order."""
    records = []
    for file in files:
        for line in (DATA / file).read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(record["deviceId"], int):
                records.append(record)
    return records


def counts(*files: str) -> dict[tuple[str, int], int]:
    """Return the records per (start of five seconds, device), ordered."""
    found: Counter[tuple[str, int]] = Counter()
    for record in good_records(*files):
        clock = record["timestamp"][11:19]
        found[f"{clock[:6]}{int(clock[6:]) // 5 * 5:02}", record["deviceId"]] += 1
    return dict(sorted(found.items()))


def alert(start: str, device: int, count: int) -> str:
    """Return the published line."""
    between = f"Between {start} and {start[:6]}{int(start[6:]) + 5:02}"
    return f"  ALERT from Sensors: {between}, device {device} reported only {count} times"


@golden("sensor_etl")
def test_the_sink_has_each_good_record_once_and_foreach_batch_repeats_a_batch(
    output: Output,
) -> None:
    rows = [len(good_records(file)) for file in FILES[:2]]
    assert rows == [8, 10]
    assert output["query etl"].value == "rows per batch [9, 11]"  # with one bad record in each
    assert output["columns"].rows == [("1.json", 8, 1), ("2.json", 10, 1)]
    assert output["the Parquet sink"].value == "18 rows; after a repeated batch 18"
    assert output["foreachBatch"].value == "18 rows; after a repeated batch 28"


@golden("sensor_etl")
def test_bad_records_keep_their_text_and_file(output: Output) -> None:
    (wrong_type, first), (cut_off, second) = output["bad records"].rows
    assert json.loads(str(wrong_type)) == {
        "timestamp": f"{DAY}T10:00:02Z",
        "deviceId": "three",
        "deviceType": "SensorTypeD",
        "signalStrength": 0.9,
    }
    assert cut_off == f'{{"timestamp": "{DAY}T10:00:06Z", "deviceId": 4'
    assert (first, second) == FILES[:2]


@golden("sensor_sql")
def test_live_queries_are_streams_and_sort_only_aggregates(output: Output) -> None:
    assert output["the view is a stream"].value == "True"
    refused = output["ORDER BY without an aggregation"].value
    assert refused.startswith("refused, Sorting is not supported on streaming DataFrames")
    assert refused.endswith("unless it is on aggregated DataFrame/Dataset in Complete output mode")
    for name, sql in QUERIES.items():
        assert output[name].value == sql


@golden("sensor_sql")
def test_live_queries_give_the_figures_of_the_files_so_far(output: Output) -> None:
    at = [output.headings.index(f"after {number} file(s)") for number in (1, 2)]
    for number, start in enumerate(at, 1):
        records = good_records(*FILES[:number])
        tables = {section.heading: section.rows for section in output.sections[start + 1 :][:5]}
        assert tables["total"] == [(len(records),)]
        signals = defaultdict[str, list[float]](list)
        for record in records:
            signals[record["deviceType"]].append(record["signalStrength"])
        assert tables["per_type"] == [
            (kind, len(values), min(values), max(values), round(mean(values), 4))
            for kind, values in sorted(signals.items())
        ]
        latest_first = [(file, len(good_records(file))) for file in reversed(FILES[:number])]
        assert tables["per_file"] == latest_first
        few = [(f"{DAY} {s}", d, n) for (s, d), n in counts(*FILES[:number]).items() if n < FEW]
        assert tables["few"] == sorted(few, key=lambda row: row[0], reverse=True)
        weak = sorted(
            (r["deviceId"], r["deviceType"], r["signalStrength"])
            for r in records
            if r["deviceType"] in ("SensorTypeA", "SensorTypeD") and r["signalStrength"] < 0.51
        )
        assert tables["two_types"] == weak
    assert tables["total"] == [(18,)]
    assert ("SensorTypeA", 7, 0.15, 0.54, 0.4157) in tables["per_type"]
    assert ("SensorTypeB", 8, 0.12, 0.36, 0.1975) in tables["per_type"]
    assert len(output.sections) == at[1] + 6


@golden("sensor_counts")
def test_only_a_watermark_on_the_column_of_the_windows_cleans_the_state(output: Output) -> None:
    table: Rows = [(start, device, n) for (start, device), n in counts(*FILES).items()]
    assert len(table) == 6
    published = output["windows on timestamp, watermark on PROCESSED_TIME"]
    assert published.rows == table
    assert published.outcomes["append"] == "refused"
    refused = published.details["append"]
    assert refused.startswith("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION: Invalid")
    right = output["windows on timestamp, watermark on timestamp"]
    assert right.rows == table
    assert right.outcomes == dict.fromkeys(("append", "complete", "update"), "allowed")
    after_each = "  {:<8}  allowed, state rows after each batch: {}".format
    kept = after_each("complete", [3, 5, 6])
    assert kept in published.lines
    assert kept in right.lines
    assert after_each("update", [3, 5, 6, 6]) in published.lines
    assert after_each("update", [3, 5, 6, 1]) in right.lines
    passed = output["windows on PROCESSED_TIME, watermark on PROCESSED_TIME"]
    assert passed.outcomes == {"append": "allowed"}


@golden("sensor_alerts")
def test_update_mode_alerts_on_open_windows_and_append_mode_on_closed_ones(
    output: Output,
) -> None:
    first = [alert(start, device, n) for (start, device), n in counts("1.json").items() if n < FEW]
    assert len(first) == 3  # every device, though device 1 reported five times in the end
    final = counts(*FILES).items()
    closed = [alert(start, d, n) for (start, d), n in final if n < FEW and start < "10:05"]
    assert closed == [
        "  ALERT from Sensors: Between 10:00:00 and 10:00:05, device 2 reported only 2 times",
        "  ALERT from Sensors: Between 10:00:00 and 10:00:05, device 4 reported only 3 times",
        "  ALERT from Sensors: Between 10:00:05 and 10:00:10, device 1 reported only 2 times",
    ]
    update = [first, [alert("10:00:05", 1, 2)], [alert("10:05:00", 4, 1)]]
    append = [["  no alert"], ["  no alert"], closed]
    for file, in_update, in_append in zip(FILES, update, append, strict=True):
        assert output[f"{file}, update mode"].lines == in_update
        assert output[f"{file}, append mode"].lines == in_append
    assert output["append mode"].heading == "append mode: foreach wrote the same 3 lines: True"


@golden("weak_signal")
def test_a_weak_signal_is_one_row_per_record_or_one_per_window(output: Output) -> None:
    records = good_records(*FILES)
    weak = sorted(
        (r["deviceId"], r["signalStrength"]) for r in records if r["signalStrength"] < 0.2
    )
    assert output["the stream, per record"].batches == {0: [], 1: weak, 2: []}
    window = "10:00:05"
    rows = [
        (window, device, n, min(s for d, s in weak if d == device))
        for (start, device), n in counts(*FILES).items()
        if start == window
    ]
    assert rows == [(window, 1, 2, 0.15), (window, 2, 6, 0.12)]
    assert output["counts per closed window"].batches == {0: [], 1: [], 2: [], 3: rows}
    in_table = [(start, device, signal) for start, device, _, signal in rows]
    assert output["the memory table devices"].rows == in_table
    per_device = Counter(device for device, _ in weak)
    assert output["the Parquet folder"].rows == sorted(per_device.items())


def test_every_record_lies_in_one_of_the_three_windows() -> None:
    starts = sorted({start for start, _ in counts(*FILES)})
    assert starts == ["10:00:00", "10:00:05", "10:05:00"]
    assert all(re.fullmatch(rf"{DAY}T10:0\d:\d\dZ", r["timestamp"]) for r in good_records(*FILES))
