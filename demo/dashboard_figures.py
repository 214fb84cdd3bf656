"""Compare what the dashboard shows with the outputs, which the demo has read by itself."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec
import requests

from dashboard.state import FLEET_WINDOWS
from demo.comparison import Comparison, compare
from demo.verdict import Actual
from events.constants import FLEET_SCOPE

REQUEST_S = 10.0
SETTLE_S = 15.0
"""How long the page may take to show the last records."""

Figures = dict[str, object]


def compare_dashboard(address: str, actual: Actual, step: Callable[[], None]) -> Comparison:
    """Compare once all figures are equal, or the page has had its time; call `step` meanwhile."""
    expected = expected_figures(actual)
    deadline = time.monotonic() + SETTLE_S
    while True:
        compared = compare_figures(expected, shown_figures(read_snapshot(address)))
        if compared.passed or time.monotonic() > deadline:
            return compared
        step()


def compare_figures(expected: Figures, shown: Figures) -> Comparison:
    """Compare figures by their names."""
    return compare(
        {name: {"value": value} for name, value in expected.items()},
        {name: {"value": value} for name, value in shown.items()},
        ("value",),
        "figure",
    )


def expected_figures(actual: Actual) -> Figures:
    """Return what the page must show of these outputs, each counted once."""
    alerts = {row["alert_id"]: row["rule"] for row in actual.alerts}
    last_state = {(row["rule"], row["subject"]): row["state"] for row, _ in actual.alert_topic}
    dead_letters = {
        (row["source_topic"], row["partition"], row["offset"]): row["reason"]
        for row in actual.dead_letters
    }
    fleet = {
        row["window_start"]: row["reading_count"]
        for row in actual.windows
        if row["scope"] == FLEET_SCOPE
    }
    newest = sorted(fleet)[-FLEET_WINDOWS:]
    figures: Figures = {
        **{f"alerts of {rule}": count for rule, count in Counter(alerts.values()).items()},
        **{
            f"open {rule} of {subject}": True
            for (rule, subject), state in last_state.items()
            if state == "WARNING"
        },
        **{f"dead letters {reason}": n for reason, n in Counter(dead_letters.values()).items()},
        **{f"readings of the fleet from {start}": fleet[start] for start in newest},
    }
    return figures | _expected_clickstream(actual.clickstream)


def _expected_clickstream(rows: Mapping[str, Any]) -> Figures:
    pairs = {(row["impression_id"], row["click_id"]) for row in rows.get("attribution", ())}
    actions = Counter[str]()
    for row in rows.get("action-count", ()):
        actions[row["action"]] += row["action_count"]
    amounts = [Decimal(str(row["amount_total"])) for row in rows.get("total", ())]
    return {
        "clicks that joined": sum(click is not None for _, click in pairs),
        "clicked impressions": len({shown for shown, click in pairs if click is not None}),
        "unclicked impressions": sum(click is None for _, click in pairs),
        "sessions": len(
            {(row["user_id"], row["session_start"]) for row in rows.get("session", ())}
        ),
        "users with a total": len(amounts),
        "amount of all totals": f"{sum(amounts, Decimal(0)):.2f}",
        **{f"action {action}": count for action, count in actions.items()},
    }


def read_snapshot(address: str) -> Mapping[str, Any]:
    """Return what a browser that opens the page now is sent first."""
    with requests.get(f"{address}stream", stream=True, timeout=REQUEST_S) as response:
        response.raise_for_status()
        for line in response.iter_lines(chunk_size=65_536):
            if line.startswith(b"data: "):
                snapshot: Mapping[str, Any] = msgspec.json.decode(line.removeprefix(b"data: "))
                return snapshot
    raise AssertionError("the dashboard's stream has no snapshot")


def shown_figures(snapshot: Mapping[str, Any]) -> Figures:
    """Return the figures of a snapshot by the names of `expected_figures`."""
    clickstream, pipeline = snapshot["clickstream"], snapshot["pipeline"]
    figures: Figures = {
        **{f"alerts of {rule}": count for rule, count in snapshot["alerts"].items()},
        **{
            f"open {incident['rule']} of {incident['subject']}": True
            for incident in snapshot["incidents"]
            if incident["status"] != "resolved"
        },
        **{
            f"dead letters {reason}": count
            for reason, count in pipeline["dead_letters_by_reason"].items()
        },
        **{
            f"readings of the fleet from {window['window_start']}": window["reading_count"]
            for window in snapshot["windows"]["fleet"]
        },
    }
    return figures | {
        "clicks that joined": clickstream["attributed_clicks"],
        "clicked impressions": clickstream["clicked"],
        "unclicked impressions": clickstream["unclicked"],
        "sessions": clickstream["sessions"],
        "users with a total": clickstream["totals"],
        "amount of all totals": clickstream["amount_total"],
        **{f"action {action}": count for action, count in clickstream["actions"].items()},
    }
