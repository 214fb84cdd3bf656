"""The three ways in which a job runs."""

from enum import StrEnum


class Trigger(StrEnum):
    """When a query reads: all the time, batch after batch, or once all there is."""

    REAL_TIME = "real-time"
    MICRO_BATCH = "micro-batch"
    AVAILABLE_NOW = "available-now"
