"""The figures of the model, own state and the state stores, from their input by plain Python."""

import json
import re
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

from lessons.harness import pages
from lessons.harness.catalogue import CHAPTERS, INTRODUCTIONS, LESSONS, load


def expected(name: str) -> str:
    return load(name).expected.read_text(encoding="utf-8")


def rows(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (LESSONS / "data" / path).read_text().splitlines()]


def test_the_stream_ends_with_the_static_average_and_the_same_schema() -> None:
    readings = defaultdict[str, list[float]](list)
    for row in rows("first_stream/1.json") + rows("first_stream/2.json"):
        readings[row["rack"]].append(row["temperature"])
    averages = [f"  {rack}  {sum(v) / len(v)}" for rack, v in sorted(readings.items())]
    text = expected("first_stream")
    assert averages == ["  rack1  100.0", "  rack2  101.0"]
    assert text.count("\n".join(averages)) == 2  # the static result, and the last batch
    assert text.endswith("\n".join(averages) + "\n")
    static, _, stream = text.partition("stream: isStreaming True\n")
    assert static.startswith("static: isStreaming False\n")
    schema = (
        "root\n |-- rack: string (nullable = true)\n |-- temperature: double (nullable = true)\n"
    )
    assert schema in static
    assert schema in stream
    assert "State" not in static
    assert "StateStoreRestore, HashAggregate, StateStoreSave" in stream


def window_counts(*files: str) -> dict[str, str]:
    """Return readings by start of a window of ten minutes that slides by five."""
    counts: Counter[str] = Counter()
    for row in (row for file in files for row in rows(f"loop/{file}")):
        minute = int(row["ts"][11:13]) * 60 + int(row["ts"][14:16])
        latest = minute // 5 * 5
        counts.update(f"{start // 60:02}:{start % 60:02}" for start in (latest - 5, latest))
    return {start: str(count) for start, count in counts.items()}


def test_the_loop_computes_a_result_table_in_each_batch_not_in_each_slide() -> None:
    batches = re.split(r"^batch \d runs: ", expected("loop"), flags=re.MULTILINE)[1:]
    files = ("1.json", "2.json")
    for number, batch in enumerate(batches):
        table = dict(re.findall(r"^  (\d\d:\d\d)  (\d+)$", batch, re.MULTILINE))
        assert table == window_counts(*files[: number + 1])
        assert "input table so far: True" in batch
    assert len(window_counts("1.json")) == len(window_counts(*files)) == 4
    assert batches[0].startswith("offsets [0], commits [];")
    assert batches[1].startswith("offsets [0, 1], commits [0];")
    assert "nothing new\nno batch\nafterwards: offsets [0, 1], commits [0, 1]\n" in batches[1]
    assert "batches in the progress: [0, 1]" in batches[1]


def test_own_state_gives_the_totals_of_a_group_by() -> None:
    totals, counts = defaultdict[str, Decimal](Decimal), Counter[str]()
    tables = []
    transactions = rows("user_totals/transactions.json")
    for batch in (transactions[:2], transactions[2:]):
        for row in batch:
            totals[row["userId"]] += Decimal(str(row["amount"]))
            counts[row["userId"]] += 1
        users = sorted({row["userId"] for row in batch})
        tables.append("".join(f"  {u}   {totals[u]:<5.2f}  {counts[u]}\n" for u in users))
    assert tables[1] == "  user1   18.75  3\n"
    for name, section in zip(
        ("built_in", "with_group_state", "with_processor"),
        re.split(r"^(?=built_in|with_)", expected("own_totals"), flags=re.MULTILINE)[1:],
        strict=True,
    ):
        heading = "  userId  total  transactions\n"
        first, second = (f"batch {number}\n{heading}{tables[number]}" for number in (0, 1))
        assert section.startswith(f"{name}\n{first}{second}")
        assert "  1      2        none       0        2\n" in section
    assert section.endswith("Exchange, Sort, TransformWithStateInPySpark\n")


def test_rocksdb_counts_its_rows_by_reading_each_before_writing_it() -> None:
    default, _, hdfs, rocksdb, untracked, _ = expected("state_stores").split("StateStoreProvider")
    assert default == "without a setting: HDFSBacked"
    rows_after = "rows after each batch: [500, 10000, 10000]"
    assert rows_after in hdfs
    assert rows_after in rocksdb
    assert "rows after each batch: [0, 0, 0]" in untracked
    assert "10 reads to write 10 rows" in rocksdb
    assert " 0 reads to write 10 rows" in untracked
    assert "20 times the rows: True" in hdfs
    assert "20 times the rows: False" in rocksdb
    assert "batch of 10 rows: True" in hdfs
    assert "the first checkpoint, restarted with RocksDB: 4.delta" in untracked


def test_every_chapter_is_introduced_and_lessons_are_linked() -> None:
    assert list(INTRODUCTIONS) == list(CHAPTERS)
    written = pages.pages()
    index = written[pages.DOCS / "lessons.md"]
    assert f"## Watermarks\n\n{INTRODUCTIONS['Watermarks']}\n" in index
    sensor_sql = written[pages.DOCS / "lessons" / "sensor_sql.md"]
    assert "The files of [lesson sensor_etl](sensor_etl.md)." in sensor_sql
