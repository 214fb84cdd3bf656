"""Define the three ways in which a job runs."""

from enum import StrEnum


class Trigger(StrEnum):
    """When a query reads: continuously, in micro-batches, or once until the end of its topics.

    The most urgent one comes first.
    """

    REAL_TIME = "real-time"
    MICRO_BATCH = "micro-batch"
    AVAILABLE_NOW = "available-now"
