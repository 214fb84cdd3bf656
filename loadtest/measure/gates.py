"""Was it a measurement? What a point must hold; where it does not, it has no numbers, only the reason.

As in Spark's own benchmark: all that was sent was drained, the counts equal the truth, the generator kept its
schedule, and the tail is short.
"""

from msgspec import Struct

from loadtest.plan import Gates

TAIL_S = {"real-time": 10.0, "micro-batch": 90.0}


class Gate(Struct, frozen=True):
    """One condition: whether it holds (None: it could not be asked here), and what was found, in words."""

    name: str
    holds: bool | None
    found: str


class Findings(Struct, kw_only=True, frozen=True):
    """What the gates look at."""

    sent: int
    """Records that the producer handed over."""
    acknowledged: int
    held: int
    """Records in the input topics at the end."""
    flushes: int = 0
    """Records among them that only moved watermarks."""
    unread: int | None = None
    """Records that the jobs have not read, by their own word; None where they give none (Real-time Mode)."""
    missing: int | None = None
    """Outputs that were due and did not come; None where there is no truth."""
    wrong: int | None = None
    expected: int = 0
    slip_p99_ms: float | None = None
    """From scheduled time to append time; None in catch-up."""
    tail_s: float | None = None
    """From the last record's append to the last output's."""
    latencies: int | None = None
    """How many were measured; None where the job has none to measure."""


def gates(found: Findings, bounds: Gates, trigger: str) -> list[Gate]:
    """Hold the findings against the bounds; the trigger says how long a tail may be."""
    longest = bounds.tail_s or TAIL_S[trigger]
    checks = [_all_sent(found), _drained(found), _counts(found)]
    if found.slip_p99_ms is not None:
        checks.append(
            Gate(
                "the generator kept its schedule",
                found.slip_p99_ms <= bounds.slip_ms,
                f"99 of 100 records were in the topic {found.slip_p99_ms:,.1f} ms after their time, "
                f"of at most {bounds.slip_ms:g}",
            )
        )
        checks.append(_tail(found.tail_s, longest))
    if found.latencies is not None:
        checks.append(
            Gate(
                "there is a distribution",
                found.latencies >= bounds.outputs,
                f"{found.latencies:,} latencies, of at least {bounds.outputs:,}",
            )
        )
    return checks


def is_valid(checks: list[Gate]) -> bool:
    """Tell whether no gate failed."""
    return all(gate.holds is not False for gate in checks)


def _all_sent(found: Findings) -> Gate:
    held = found.held - found.flushes
    return Gate(
        "all sent records are in the topics, once",
        found.sent == found.acknowledged == held > 0,
        f"{found.sent:,} sent, {found.acknowledged:,} acknowledged, {held:,} held",
    )


def _drained(found: Findings) -> Gate:
    name = "all that was sent was drained"
    if found.unread is not None:
        return Gate(name, found.unread == 0, f"{found.unread:,} of {found.held:,} records were not read")
    if found.missing is not None:
        return Gate(name, found.missing == 0, f"{found.missing:,} of {found.expected:,} outputs did not come")
    return Gate(name, None, "the job tells no offsets, and there is no truth")


def _counts(found: Findings) -> Gate:
    name = "the outputs are those of the truth"
    if found.missing is None or found.wrong is None:
        return Gate(name, None, "not compared")
    return Gate(
        name,
        found.missing == 0 and found.wrong == 0 and found.expected > 0,
        f"{found.expected:,} expected, {found.missing:,} missing, {found.wrong:,} wrong",
    )


def _tail(tail_s: float | None, longest_s: float) -> Gate:
    name = "the tail is short"
    if tail_s is None:
        return Gate(name, False, "nothing came out")
    return Gate(
        name,
        tail_s <= longest_s,
        f"the last output {tail_s:,.1f} s after the last record, of at most {longest_s:g}",
    )
