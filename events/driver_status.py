"""Define the status of a driver and its queries: `spark_jobs` writes it, everything else reads it.

Health checks run every few seconds, so this module loads nothing of Spark.
"""

import msgspec

from events.status_file import ProgramStatus

PROGRAM = "spark_jobs"


class TopicStatus(msgspec.Struct, kw_only=True):
    """A topic that the queries read: how many records it has ever held, over all partitions."""

    end_offset: int


class QueryStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known about a query. Absent: it is unknown, or the trigger does not report it.

    - `active`: the query runs. `finished`: it has read everything, with available-now.
    - `batch_s`: a real-time batch's length, or the least time between two micro-batches.
    - `started_time`: its latest start. `last_progress_time`: the end of its latest batch.
    - `input_rows_per_second`, `processed_rows_per_second`: of the latest batch, while it is recent.
      A real-time batch has none.
    - `records_behind`: what the topics hold beyond the latest batch; unknown in Real-time Mode.
    - `waiting_since`: since when records have waited without a batch that ended.
      `waiting_records`: how many waited then, at most; before the first batch all of the topics.
    - `worked`: it has ended a batch since its latest start.
    - `without_batch_s`: how long it has ended no batch while records wait, or in Real-time Mode
      since its latest batch. By the monotonic clock, without pauses of the driver.
    - `watermark_delay_s`: by how much the watermark is behind the clock.
    - `late_records`, `records_left_out`: since the driver started, up to the latest batch.
    - `state_rows`, `state_bytes`: after the latest batch; not every query counts its rows.
    - `batch_duration_ms`: of the latest batch by phase; `triggerExecution` is the whole.
    - `restarts`: since the driver started. `last_error`: why the query failed last, as a sentence.
    """

    name: str
    job: str
    trigger: str
    topics: list[str]
    batch_s: float
    active: bool
    started_time: str
    finished: bool
    restarts: int
    batch_id: int | None = None
    last_progress_time: str | None = None
    last_progress_age_s: float | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    records_behind: int | None = None
    waiting_since: str | None = None
    waiting_records: int | None = None
    worked: bool = False
    without_batch_s: float | None = None
    watermark: str | None = None
    watermark_delay_s: float | None = None
    late_records: int | None = None
    records_left_out: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    batch_duration_ms: dict[str, int] | None = None
    last_error: str | None = None
    last_error_time: str | None = None


class DriverStatus(ProgramStatus, kw_only=True, omit_defaults=True):
    """What a driver says about itself; `topics` are by their names on the broker.

    `jobs` are its task: a job that only reads topics because the others do is not among them.
    """

    jobs: list[str]
    checkpoint_root: str
    topics: dict[str, TopicStatus]
    queries: list[QueryStatus]
