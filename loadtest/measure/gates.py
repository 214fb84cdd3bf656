"""Check the conditions that make a point a valid measurement: its gates.

As in Spark's own benchmark: all sent records were read, the output equals the truth, the producer
kept its schedule, and the last output came soon. A point that fails one reports only the reason.
"""

from msgspec import Struct

from loadtest.plan import Gates

TAIL_S = {"real-time": 10.0, "micro-batch": 90.0}


class Gate(Struct, frozen=True):
    """One condition and its result."""

    name: str
    passed: bool | None
    """None where it could not be checked."""
    detail: str
    failure: str = ""
    """What a failure means, in words."""
    is_error: bool = False
    """Whether the failure is one at any rate: wrong or lost output."""

    @property
    def reason(self) -> str:
        """Why the point is invalid: `producer fell behind schedule (p99 19.1 s, limit 250 ms)`."""
        return f"{self.failure or self.name} ({self.detail})"


class Compared(Struct, frozen=True):
    """How one output compares with the truth, in numbers of rows."""

    name: str
    expected: int
    missing: int
    wrong: int
    is_result: bool = True
    """Whether the jobs compute it: dead letters beside their output do not prove that output."""

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.expected:,} expected, {self.missing:,} missing, "
            f"{self.wrong:,} wrong"
        )


class Findings(Struct, kw_only=True, frozen=True):
    """The measured values that gates check."""

    sent: int
    """Records that the producer handed to its client."""
    acknowledged: int
    stored: int
    """Records in the input topics at the end."""
    flushes: int = 0
    """How many of them only moved watermarks."""
    unread: int | None = None
    """Records that the jobs did not read; None in Real-time Mode, which reports no offsets."""
    catch_up: bool = False
    """Whether no schedule, tail and latencies show that the jobs processed the records."""
    idle: bool = True
    """Whether the jobs wrote nothing more: otherwise missing outputs may only be late."""
    compared: tuple[Compared, ...] = ()
    """The outputs that were compared; none without a truth."""
    schedule_lag_p99_ms: float | None = None
    """From scheduled time to append time; None in a catch-up."""
    tail_s: float | None = None
    """From the last record's append to the last output."""
    latencies: int | None = None
    """Number of measured latencies; None where the job has none."""

    @property
    def results(self) -> list[Compared]:
        """The compared outputs that the jobs compute."""
        return [each for each in self.compared if each.is_result]


def gates(found: Findings, limits: Gates, trigger: str) -> list[Gate]:
    """Check the findings against the limits; the trigger sets the default for the last output."""
    checks = [_stored_once(found), _all_read(found), _output_matches(found)]
    if found.schedule_lag_p99_ms is not None:
        checks.append(
            Gate(
                "producer on schedule",
                found.schedule_lag_p99_ms <= limits.schedule_lag_ms,
                f"p99 {duration(found.schedule_lag_p99_ms)}, "
                f"limit {duration(limits.schedule_lag_ms)}",
                "producer fell behind schedule",
            )
        )
        checks.append(_last_output_in_time(found.tail_s, limits.tail_s or TAIL_S[trigger]))
    if found.latencies is not None:
        checks.append(
            Gate(
                "enough latencies",
                found.latencies >= limits.min_latencies,
                f"{found.latencies:,}, at least {limits.min_latencies:,} needed",
                "too few latencies",
            )
        )
    return checks


def is_valid(checks: list[Gate]) -> bool:
    """Return whether no gate failed."""
    return all(gate.passed is not False for gate in checks)


def duration(ms: float) -> str:
    """Return milliseconds as a person reads them: `250 ms`, `19.1 s`."""
    return f"{ms:.4g} ms" if ms < 1000 else f"{ms / 1000:,.1f} s"


def _stored_once(found: Findings) -> Gate:
    stored = found.stored - found.flushes
    return Gate(
        "each record stored once",
        found.sent == found.acknowledged == stored > 0,
        f"{found.sent:,} sent, {found.acknowledged:,} acknowledged, {stored:,} stored",
        "the topics do not hold each record once",
    )


def _all_read(found: Findings) -> Gate:
    name, failure = "all records read", "the jobs did not read all records"
    if found.unread is not None:
        detail = f"{found.unread:,} of {found.stored:,} unread"
        return Gate(name, found.unread == 0, detail, failure)
    if found.results:
        missing = sum(each.missing for each in found.results)
        expected = sum(each.expected for each in found.results)
        return Gate(name, missing == 0, f"{missing:,} of {expected:,} outputs missing", failure)
    detail = "the job reports no offsets, and no output was compared"
    if found.catch_up:
        return Gate(name, False, detail, "nothing shows that all records were read")
    return Gate(name, None, detail, failure)


def _output_matches(found: Findings) -> Gate:
    name, failure = "output matches the truth", "output differs from the truth"
    detail = "; ".join(map(str, found.compared))
    if any(each.missing or each.wrong for each in found.compared):
        all_came = found.idle and not found.unread
        is_error = all_came or any(each.wrong for each in found.compared)
        return Gate(name, False, detail, failure, is_error)
    if not found.results:
        return Gate(name, None, f"not compared; {detail}".removesuffix("; "), failure)
    return Gate(name, any(each.expected for each in found.results), detail, failure)


def _last_output_in_time(tail_s: float | None, limit_s: float) -> Gate:
    name, failure = "last output in time", "the last output came too late"
    if tail_s is None:
        return Gate(name, False, "no output", "no output came")
    return Gate(
        name,
        tail_s <= limit_s,
        f"{tail_s:,.1f} s after the last record, limit {limit_s:g} s",
        failure,
    )
