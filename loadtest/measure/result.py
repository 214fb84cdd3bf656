"""Store the results of points and runs as JSON in the run's folder."""

from pathlib import Path

import msgspec
from msgspec import Struct

from events.cli import UserFacingError
from events.files import replace_file
from loadtest.measure.gates import Gate, is_valid
from loadtest.measure.latency import Percentiles

RESULT, RUN = "result.json", "run.json"


class Process(Struct, kw_only=True, frozen=True):
    """CPU and memory of one program during the measurement; in a catch-up until its last output."""

    cpu_percent: float
    """Mean over the whole interval, in percent of one processor."""
    rss_mib: float
    """The highest value."""


class Batches(Struct, kw_only=True, frozen=True):
    """Batches of the jobs' main queries during the measurement."""

    count: int
    p50_ms: float
    max_ms: float
    state_rows: int
    state_mib: float
    """The highest size in memory, as reported by Spark."""


class PointResult(Struct, kw_only=True, frozen=True):
    """A point's result; reports hide the numbers of a point that failed a gate."""

    label: str
    variant: str
    rate: float
    repeat: int
    jobs: tuple[str, ...]
    trigger: str
    engine: str = "spark"
    began: str
    """When the point began, in UTC."""
    machine_speed: float | None = None
    """Additions per microsecond of one Python process before the point; None in old results."""
    gates: list[Gate]
    measured_ms: tuple[float, float] = (0.0, float(2**62))
    """Records scheduled in this interval are measured (epoch ms); in a catch-up all are."""
    from_schedule: Percentiles | None = None
    """From the triggering record's scheduled time to the moment a consumer has the output."""
    from_append: Percentiles | None = None
    """The same from that record's append time."""
    window_delay: Percentiles | None = None
    """Of outputs that time triggers: from their deadline (`window_deadlines`)."""
    racks: int = 0
    sent: int = 0
    in_per_s: float | None = None
    outputs: int = 0
    out_per_s: float | None = None
    duplicates: int = 0
    """Repeated outputs: the sink is at-least-once."""
    lag_max: float | None = None
    lag_slope: float | None = None
    """Growth of the lag, in records per second."""
    late_per_s: float | None = None
    """Records that were dropped as late; a catch-up has no rate of them."""
    schedule_lag: Percentiles | None = None
    """From scheduled time to append time."""
    max_schedule_lag_ms: float | None = None
    """The largest schedule lag that the producer reports, warm-up included."""
    throughput_per_s: float | None = None
    """Catch-up: records per second from the start."""
    warm_throughput_per_s: float | None = None
    """The same without the first batch, or without the first third of the outputs."""
    startup_s: float | None = None
    """Catch-up in micro-batches: from the jobs' start to the end of their first batch."""
    work_s: float | None = None
    """Catch-up without a kill: from the jobs' start to their last output or batch."""
    recovery_s: float | None = None
    """The same for the restart after a kill, with the state at that time."""
    processes: dict[str, Process] = {}
    jobs_mib: float | None = None
    """The highest memory of the jobs, Python and JVM together at one moment."""
    batches: Batches | None = None
    checkpoint_mib: float = 0.0
    folder: str = ""
    violated_limits: list[str] = []

    @property
    def valid(self) -> bool:
        """Whether no gate failed."""
        return is_valid(self.gates)

    @property
    def latencies(self) -> dict[str, Percentiles]:
        """Both kinds of latency, by the words that precede their figures; bounds apply to both."""
        kinds = {"": self.from_schedule, "window delay ": self.window_delay}
        return {name: latency for name, latency in kinds.items() if latency is not None}

    @property
    def reasons(self) -> list[str]:
        """Why it is invalid."""
        return [gate.reason for gate in self.gates if gate.passed is False]

    @property
    def errors(self) -> list[str]:
        """The reasons that are errors at any rate."""
        return [gate.reason for gate in self.gates if gate.is_error]


class Run(Struct, kw_only=True, frozen=True):
    """A run of a plan: when, where, and how it ended."""

    name: str
    description: str
    began: str
    machine: dict[str, str]
    points: int
    """Number of planned points."""
    ended: str = ""
    """Why it ended early; empty for a complete run."""
    capacity: dict[str, float | None] = {}
    """The highest sustained rate by variant; None where the lowest was not sustained."""


class SavedRun(Struct, kw_only=True, frozen=True):
    """A run with its finished points."""

    run: Run
    points: list[PointResult]
    folder: Path

    def errors(self, variant: str) -> list[str]:
        """Return the errors in a variant's output, each with its point."""
        own = [point for point in self.points if point.variant == variant]
        return [f"{point.label}: {error}" for point in own for error in point.errors]


def save(record: Struct, path: Path) -> None:
    """Write a record."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(record)))


def load(folder: Path) -> SavedRun:
    """Read a run from its folder; raise `UserFacingError` when it holds none."""
    try:
        run = msgspec.json.decode((folder / RUN).read_bytes(), type=Run)
        files = sorted(folder.glob(f"points/*/{RESULT}"), key=lambda file: file.stat().st_mtime_ns)
        points = [msgspec.json.decode(file.read_bytes(), type=PointResult) for file in files]
    except FileNotFoundError:
        raise UserFacingError(
            f"{folder} holds no load run: create one with python -m loadtest run PLAN."
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise UserFacingError(
            f"the load run in {folder} cannot be read ({error}): run it again."
        ) from None
    return SavedRun(run=run, points=points, folder=folder)
