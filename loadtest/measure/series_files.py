"""Write the raw data beside the report: every latency (Parquet), the lag and the batches (CSV)."""

import csv
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loadtest.measure import lag, spark_batches
from loadtest.measure.analysis import Analysis, RawData

LATENCIES, LAG, BATCHES, SAMPLES = "latencies.parquet", "lag.csv", "batches.csv", "samples.csv"


def write_series(folder: Path, done: Analysis, raw: RawData) -> None:
    """Write a point's series; times are epoch milliseconds, or seconds if the name says so."""
    topics, due, append, seen = (
        zip(*done.latencies, strict=True) if done.latencies else ((), (), (), ())
    )
    table = pa.table(
        {
            "topic": pa.array(topics, pa.string()).dictionary_encode(),
            "scheduled_ms": pa.array(due, pa.int64()),
            "append_ms": pa.array(append, pa.int64()),
            "seen_ms": pa.array(seen, pa.int64()),
        }
    )
    pq.write_table(table, folder / LATENCIES, compression="zstd")
    _write(folder / LAG, ("epoch_s", "records_behind"), done.lag)
    rows = [
        (
            *(
                name,
                b["batchId"],
                lag.end_ms(b),
                b["batchDuration"],
                b["numInputRows"],
                b["late_records"],
            ),
            *spark_batches.state_of(b),
        )
        for name, batches in raw.batches.items()
        for b in batches
    ]
    _write(
        folder / BATCHES,
        (
            "query",
            "batch",
            "end_ms",
            "took_ms",
            "records",
            "late_records",
            "state_rows",
            "state_bytes",
        ),
        rows,
    )


def _write(path: Path, names: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(names)
        out.writerows(rows)
