"""Summaries of readings by pane, without Spark."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.runtime.panes import summarise

PANE_US = 300_000_000
SCHEMA = pa.schema(
    {
        "rack_id": pa.string(),
        "device_type": pa.string(),
        "event_time": pa.timestamp("us", "UTC"),
        "temperature_c": pa.float64(),
    }
)
KEYS = ("rack_id", "device_type")
Reading = tuple[str, str, int, float]

times_us = st.one_of(
    st.integers(-2 * PANE_US, 2 * PANE_US),
    # At and beside the edges of panes, before 1970 too.
    st.builds(lambda pane, beside: pane * PANE_US + beside, st.integers(-2, 2), st.integers(-1, 1)),
)
readings = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["a", "b"]),
        times_us,
        st.integers(-1000, 1000).map(lambda tenths: tenths / 8),  # their sums are exact
    ),
    max_size=40,
)


@given(readings)
def test_each_key_and_pane_has_one_summary_of_its_readings(rows: list[Reading]) -> None:
    batch = (
        pa.record_batch([list(column) for column in zip(*rows, strict=True)], SCHEMA)
        if rows
        else (pa.RecordBatch.from_pylist([], SCHEMA))
    )
    found = summarise(batch, KEYS, "temperature_c", PANE_US)
    assert found.schema.names == [
        *KEYS, "event_time", "event_count", "total", "lowest", "highest",
    ]  # fmt: skip
    groups = defaultdict[tuple[str, str, int], list[Reading]](list)
    for row in rows:
        groups[row[0], row[1], row[2] // PANE_US].append(row)
    expected = [
        (
            rack_id,
            device_type,
            max(time for *_, time, _ in group),
            len(group),
            sum(value for *_, value in group),
            min(value for *_, value in group),
            max(value for *_, value in group),
        )
        for (rack_id, device_type, _), group in groups.items()
    ]
    as_numbers = found.set_column(2, "event_time", found["event_time"].cast(pa.int64()))
    assert sorted(map(tuple, (row.values() for row in as_numbers.to_pylist()))) == sorted(expected)
