"""What a point found out, and a whole run of a plan: records, kept as JSON in the run's folder."""

from pathlib import Path

import msgspec
from msgspec import Struct

from events.cli import PersonError
from loadtest.measure.gates import Gate, is_valid
from loadtest.measure.latency import Percentiles

RESULT, RUN = "result.json", "run.json"


class Process(Struct, kw_only=True, frozen=True):
    """What one of the programs took while the load was measured."""

    cpu_percent: float
    """Of one processor, on average."""
    rss_mib: float
    """At most."""


class Batches(Struct, kw_only=True, frozen=True):
    """The batches of the jobs' main queries, while the load was measured."""

    count: int
    p50_ms: float
    max_ms: float
    state_rows: int
    state_mib: float
    """In memory at most, as Spark says."""


class PointResult(Struct, kw_only=True, frozen=True):
    """One point. Where a gate failed its numbers are of no use, and no report shows them."""

    label: str
    variant: str
    rate: float
    repeat: int
    jobs: tuple[str, ...]
    trigger: str
    began: str
    """When the point began, in UTC."""
    gates: list[Gate]
    measured_ms: tuple[float, float] = (0.0, float(2**62))
    """From when to when records had to be due to be measured, in epoch milliseconds; of a catch-up, all are."""
    from_schedule: Percentiles | None = None
    """Of outputs whose deciding record was due while the load was measured, as a consumer had them."""
    from_append: Percentiles | None = None
    """The same from when the broker had appended that record."""
    past_window: Percentiles | None = None
    """Of closed windows: past their end and the watermark's delay."""
    racks: int = 0
    sent: int = 0
    in_per_s: float | None = None
    outputs: int = 0
    out_per_s: float | None = None
    again: int = 0
    """Outputs that came more than once: the sink is at least once."""
    lag_max: float | None = None
    lag_slope: float | None = None
    """By how many records a second the lag grew."""
    lag_by: str = ""
    late_per_s: float | None = None
    slip: Percentiles | None = None
    """From scheduled time to append time."""
    generator_slip_ms: float | None = None
    """The most by which the generator was behind its schedule, warm-up included, by its own word."""
    whole_per_s: float | None = None
    """Catch-up: records a second from the start; `warm_per_s` without the first batch, or the first third."""
    warm_per_s: float | None = None
    start_s: float | None = None
    """Catch-up in micro-batches: from the start of the jobs to the end of their first batch."""
    recovery_s: float | None = None
    """The same of the start after a kill, with the state that is there by then."""
    processes: dict[str, Process] = {}
    batches: Batches | None = None
    checkpoint_mib: float = 0.0
    folder: str = ""

    @property
    def valid(self) -> bool:
        """Whether no gate failed."""
        return is_valid(self.gates)

    @property
    def reasons(self) -> list[str]:
        """Why it is not valid."""
        return [f"not so: {gate.name} ({gate.found})" for gate in self.gates if gate.holds is False]


class Run(Struct, kw_only=True, frozen=True):
    """A run of a plan: which, when, where, and how far it came."""

    name: str
    description: str
    began: str
    machine: dict[str, str]
    points: int
    """How many were planned."""
    ended: str = ""
    """Why it ended early, in words; nothing when it did not."""
    capacity: dict[str, float | None] = {}
    """The highest rate that held, by variant; None where not even the lowest did."""


class Saved(Struct, kw_only=True, frozen=True):
    """A run with the points that it came to."""

    run: Run
    points: list[PointResult]
    folder: Path


def save(record: Struct, path: Path) -> None:
    """Write a record, at once or not at all."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    new.replace(path)


def load(folder: Path) -> Saved:
    """Read what a run left in its folder; raise `PersonError` when that is none."""
    try:
        run = msgspec.json.decode((folder / RUN).read_bytes(), type=Run)
        files = sorted(folder.glob(f"points/*/{RESULT}"), key=lambda file: file.stat().st_mtime_ns)
        points = [msgspec.json.decode(file.read_bytes(), type=PointResult) for file in files]
    except FileNotFoundError:
        raise PersonError(f"{folder} holds no load run: make one with python -m loadtest run PLAN.") from None
    except (msgspec.DecodeError, OSError) as error:
        raise PersonError(f"the load run in {folder} cannot be read ({error}): run it again.") from None
    return Saved(run=run, points=points, folder=folder)
