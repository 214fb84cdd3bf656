"""Read what a page cost from Chromium's trace: script and layout per frame, on the main thread."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

CATEGORIES = ("devtools.timeline", "disabled-by-default-devtools.timeline")
FRAME_END = "Commit"
"""The main thread hands a frame to the compositor."""
SCRIPT = frozenset(
    {
        "EvaluateScript",
        "EventDispatch",
        "FireAnimationFrame",
        "FunctionCall",
        "RunMicrotasks",
        "TimerFire",
    }
)
LAYOUT = frozenset({"Layout", "PrePaint", "UpdateLayerTree", "UpdateLayoutTree"})
Event = Mapping[str, Any]


def frame_costs_ms(trace: bytes) -> list[float]:
    """Return the processor time of script and layout in each frame that had any, in ms."""
    events: list[Event] = msgspec.json.decode(trace)["traceEvents"]
    thread = _main_thread(events)
    ours = [
        event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == thread
    ]
    ends = sorted(event["ts"] for event in ours if event["name"] == FRAME_END)
    costs = [0.0] * (len(ends) + 1)
    for event in _outermost(ours):
        costs[bisect_left(ends, event["ts"])] += event.get("tdur", event["dur"]) / 1000
    return [cost for cost in costs if cost]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _main_thread(events: Sequence[Event]) -> tuple[int, int]:
    """Return process and thread of the page: the one with the most frames."""
    frames = Counter((each["pid"], each["tid"]) for each in events if each["name"] == FRAME_END)
    ((thread, _),) = frames.most_common(1)
    return thread


def _outermost(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events of script and layout that lie in no other of them."""
    end = -math.inf
    wanted = [event for event in events if event["name"] in SCRIPT | LAYOUT]
    for event in sorted(wanted, key=lambda event: (event["ts"], -event["dur"])):
        if event["ts"] >= end:
            end = event["ts"] + event["dur"]
            yield event
