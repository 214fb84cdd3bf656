"""The figures of the sensor chain, computed from its records by plain Python, and as literals."""

import json
import re
from collections import Counter, defaultdict
from statistics import mean

from lessons.harness.catalogue import LESSONS, load

FEW = 5
FILES = ("1.json", "2.json", "3.json")


def expected(name: str) -> str:
    return load(name).expected.read_text(encoding="utf-8")


def good_records(*files: str) -> list[dict[str, object]]:
    records = []
    for file in files:
        for line in (LESSONS / "data/sensor_etl" / file).read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(record["deviceId"], int):
                records.append(record)
    return records


def counts(*files: str) -> Counter[tuple[str, int]]:
    """Return the records per (start of five seconds, device)."""
    found: Counter[tuple[str, int]] = Counter()
    for record in good_records(*files):
        clock, device = str(record["timestamp"])[11:19], record["deviceId"]
        assert isinstance(device, int)
        found[f"{clock[:6]}{int(clock[6:]) // 5 * 5:02}", device] += 1
    return found


def alert(start: str, device: int, count: int) -> str:
    end = f"{start[:6]}{int(start[6:]) + 5:02}"
    between = f"Between {start} and {end}"
    return f"  ALERT from Sensors: {between}, device {device} reported only {count} times"


def test_the_sink_has_each_good_record_once_and_foreach_batch_repeats_a_batch() -> None:
    first, second = len(good_records("1.json")), len(good_records("2.json"))
    assert (first, second) == (8, 10)
    text = expected("sensor_etl")
    assert f"  1.json  {first}     1\n  2.json  {second}    1\n" in text
    assert "the Parquet sink: 18 rows; after a repeated batch 18\n" in text
    assert "foreachBatch: 18 rows; after a repeated batch 28\n" in text
    assert '"deviceId": "three"' in text.partition("bad records")[2]


def test_the_live_queries_give_the_totals_of_the_files() -> None:
    first, _, both = expected("sensor_sql").partition("after 2 file(s)")
    for text, files in ((first, FILES[:1]), (both, FILES[:2])):
        records = good_records(*files)
        assert f"total\n  total\n  {len(records)}\n" in text
        signals = defaultdict[str, list[float]](list)
        for record in records:
            signals[str(record["deviceType"])].append(float(str(record["signalStrength"])))
        for kind, values in signals.items():
            row = [kind, len(values), min(values), max(values), round(mean(values), 4)]
            assert [str(cell) for cell in row] in [line.split() for line in text.splitlines()]
        few = sorted((key for key, n in counts(*files).items() if n < FEW), key=lambda k: k[1])
        rows = [
            f"  2019-02-11 {start}  {device}         {counts(*files)[start, device]}"
            for start, device in sorted(few, key=lambda key: key[0], reverse=True)
        ]
        heading = "few\n  start                deviceId  count\n"
        assert heading + "\n".join(rows) + "\ntwo_types\n" in text
    assert "total\n  total\n  18\n" in both
    assert "SensorTypeA  7      0.15  0.54  0.4157\n" in both
    assert "SensorTypeB  8      0.12  0.36  0.1975\n" in both
    assert "  file    rows\n  2.json  10\n  1.json  8\n" in both  # the latest first
    assert "ORDER BY without an aggregation: refused, Sorting is not supported" in first


def test_only_the_watermark_on_the_windows_own_column_cleans_the_state() -> None:
    published, _, right = expected("sensor_counts").partition("watermark on timestamp")
    assert "append    refused, STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION" in published
    assert "update    allowed, state rows after each batch: [3, 5, 6, 6]\n" in published
    assert "  append    allowed\n" in right
    assert "update    allowed, state rows after each batch: [3, 5, 6, 1]\n" in right
    rows = [f"  {start}  {device}         {n}" for (start, device), n in counts(*FILES).items()]
    table = "\n".join(["  start     deviceId  count", *sorted(rows)])
    assert len(rows) == 6
    assert table in published
    assert table in right


def test_update_mode_alerts_on_open_windows_and_append_mode_on_closed_ones() -> None:
    text = expected("sensor_alerts")
    sections = re.split(r"^\d\.json, \w+ mode\n|^append mode: .*\n", text, flags=re.MULTILINE)
    lines = [section.splitlines() for section in sections[1:7]]
    update, append = lines[::2], lines[1::2]
    after_first = sorted(alert(*key, n) for key, n in counts("1.json").items() if n < FEW)
    assert update[0] == after_first
    assert update[1:] == [[alert("10:00:05", 1, 2)], [alert("10:05:00", 4, 1)]]
    assert len(after_first) == 3  # every device, though device 1 reported five times in the end
    closed = sorted(
        alert(*key, n) for key, n in counts(*FILES).items() if n < FEW and key[0] < "10:05"
    )
    assert append == [["  no alert"], ["  no alert"], closed]
    assert closed == [
        "  ALERT from Sensors: Between 10:00:00 and 10:00:05, device 2 reported only 2 times",
        "  ALERT from Sensors: Between 10:00:00 and 10:00:05, device 4 reported only 3 times",
        "  ALERT from Sensors: Between 10:00:05 and 10:00:10, device 1 reported only 2 times",
    ]
    assert "append mode: foreach wrote the same 3 lines: True" in text


def test_a_weak_signal_is_one_row_per_record_or_one_per_window() -> None:
    weak = [r for r in good_records(*FILES) if float(str(r["signalStrength"])) < 0.2]
    assert len(weak) == 8
    records, _, rest = expected("weak_signal").partition("counts per closed window")
    rows = [f"  {r['deviceId']}         {r['signalStrength']}" for r in weak]
    assert sorted(line for line in records.splitlines() if line in rows) == sorted(rows)
    assert "  10:00:05  1         2      0.15\n  10:00:05  2         6      0.12\n" in rest
    assert rest.endswith("the Parquet folder\n  deviceId  count\n  1         2\n  2         6\n")
