"""What stands in for typed Datasets in Python: a record class and `mapInPandas`, or columns.

Scala maps a Dataset of case classes with a typed function. Python has no Dataset. Columns are the way, since Spark
sees into them; where only code will do, `mapInPandas` or `mapInArrow` hands over whole batches, from which typed
records are a line away. A schema says what comes out, and wrong rows end the query.

Notice: The same rows come out, but the plan shows the difference: Spark cannot look into Python, so neither filters
nor unused columns move through it, and every row travels to a worker and back.
In production: The jobs use columns; `overheating_state` and `user_totals`, which need code, hand over pandas frames.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab

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
            yield pd.DataFrame([asdict(Device(*row).amplified()) for row in frame.itertuples(index=False)])

    return devices.mapInPandas(amplify, SCHEMA)


def with_columns(devices: DataFrame) -> DataFrame:
    """Return the amplified devices, as columns."""
    return devices.select(
        F.upper("device").alias("device"), "deviceType", (2 * F.col("signal")).alias("signal")
    )


def run(lab: Lab) -> Iterator[str]:
    """Do the same in both ways."""
    devices = lab.stream(SCHEMA, "devices.json")
    for way in (with_records, with_columns):
        yield way.__name__
        yield from lab.batches(way(devices), checkpoint=way.__name__)
