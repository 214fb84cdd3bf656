"""What a frame of the page costs, by Chromium's trace."""

from typing import Any

import msgspec

from tests.browser.tracing import frame_costs_ms, percentile


def event(name: str, ts: int, dur: int, **changes: Any) -> dict[str, Any]:
    """Return a complete event of the page's main thread, in microseconds."""
    return {"name": name, "ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": dur, **changes}


def test_a_frame_costs_its_script_and_layout_each_counted_once() -> None:
    events = [
        event("RunTask", 0, 9_000),
        event("EventDispatch", 0, 4_000),
        event("FunctionCall", 1_000, 2_000),  # inside the one before
        event("UpdateLayoutTree", 5_000, 1_000, tdur=500),
        event("Layout", 6_000, 1_500),
        event("Commit", 8_000, 100),
        event("Commit", 20_000, 100),  # a frame without script and layout
        event("FireAnimationFrame", 30_000, 3_000),
        event("Commit", 34_000, 100),
        event("FunctionCall", 0, 99_000, tid=2),
        event("Commit", 1, 1, tid=2),
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {}},
    ]
    assert frame_costs_ms(msgspec.json.encode({"traceEvents": events})) == [6.0, 3.0]


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.95)) == (50.0, 95.0)
    assert percentile([7.0], 0.95) == 7.0
