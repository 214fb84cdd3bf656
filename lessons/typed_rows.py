"""Python has no typed Dataset: use columns, or record classes in `mapInPandas`.

Scala maps a Dataset of case classes with a typed function. In Python, prefer columns, because Spark
can optimize them. Where only code will do, `mapInPandas` or `mapInArrow` hands over whole batches,
which the function can turn into typed records. The declared schema describes the result, and rows
that do not match it end the query.

Notice: Both ways give the same rows, but Spark cannot look into Python: it moves no filter and
drops no unused column through the function, and every row travels to a worker and back.
In production: The jobs use columns where they can. `user_totals` needs code, and takes rows, not
frames. So do the rules by rack, such as `lost_signal`, but each of their rows has many readings, as
an Arrow stream. Only `overheating` takes pandas frames, of such rows.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext

SCHEMA = "device string, deviceType string, signal double"


@dataclass
class Device:
    """One row, typed."""

    device: str
    deviceType: str  # noqa: N815 - the data's name
    signal: float

    def amplified(self) -> "Device":
        """Return the device with twice the signal."""
        return Device(self.device.upper(), self.deviceType, 2 * self.signal)


def with_records(devices: DataFrame) -> DataFrame:
    """Return the amplified devices, row by row in Python."""

    def amplify(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame(
                [asdict(Device(*row).amplified()) for row in frame.itertuples(index=False)]
            )

    return devices.mapInPandas(amplify, SCHEMA)


def with_columns(devices: DataFrame) -> DataFrame:
    """Return the amplified devices, as columns."""
    return devices.select(
        F.upper("device").alias("device"), "deviceType", (2 * F.col("signal")).alias("signal")
    )


def run(context: LessonContext) -> Iterator[str]:
    """Run the same query in both ways."""
    devices = context.stream(SCHEMA, "devices.json")
    for query in (with_records, with_columns):
        yield query.__name__
        yield from context.run_batches(query(devices), checkpoint=query.__name__)
