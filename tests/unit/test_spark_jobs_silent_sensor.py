"""The state of `silent_sensor`: how long a rack may send nothing, to the millisecond."""

from types import SimpleNamespace

import pytest

from spark_jobs.rules.silent_sensor import SilentSensorState
from tests.builders import T0

AFTER_MS = 30_000


def states_after(*appended_ms: int) -> list[str]:
    """Return the states that a rack's records lead to, appended so long after `T0`."""
    state = SilentSensorState(silent_after_ms=AFTER_MS, grace_ms=250, severity="error")
    rows = [
        SimpleNamespace(
            append_ms=T0 + append_ms,
            sequence=number,
            event_id=f"rack-0001/{number}",
            event_time=(T0 + append_ms) * 1000,
            temperature_c=70.0,
            signal_strength=0.9,
            site_id="site-a",
        )
        for number, append_ms in enumerate(appended_ms)
    ]
    return [
        "WARNING" if decision.severity else "NORMAL"
        for row in rows
        for decision in state.on_row("rack-0001", row)
    ]


@pytest.mark.parametrize(
    ("gap_ms", "states"), [(AFTER_MS, []), (AFTER_MS + 1, ["WARNING", "NORMAL"])]
)
def test_a_gap_as_long_as_the_limit_is_no_silence_and_a_longer_one_is(
    gap_ms: int, states: list[str]
) -> None:
    assert states_after(0, gap_ms) == states
