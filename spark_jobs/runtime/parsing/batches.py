"""Describe the batches of records that a plan may take instead of a row per record."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T

POSITION = ("timestamp", "partition", "offset")
"""Kafka's columns that order the records of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """How valid records become rows that each stand for many records.

    - `fields` are those of the record that are needed, and `position` such columns of Kafka.
    - `convert` takes both as the columns of an Arrow batch of records. It returns at most as many
      rows, of the type `row`.
    """

    fields: tuple[str, ...]
    convert: Callable[[pa.RecordBatch], pa.RecordBatch]
    row: T.StructType
    position: tuple[str, ...] = POSITION
