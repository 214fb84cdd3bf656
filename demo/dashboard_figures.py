"""Compare what the dashboard shows with the outputs, which the demo has read by itself."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from operator import itemgetter
from typing import Any

import msgspec
import requests

from dashboard.windows import FLEET_WINDOWS
from demo.comparison import Comparison, Row, compare
from demo.verdict import Actual
from events.cli import UserFacingError
from events.constants import FLEET_SCOPE

REQUEST_S = 10.0
SETTLE_S = 15.0
"""How long the page may take to show the last records."""

_START = "window_start"
_FLEET_FIELDS = {
    "readings": "reading_count",
    "lowest temperature": "temperature_c_min",
    "average temperature": "temperature_c_avg",
    "highest temperature": "temperature_c_max",
}
_SIGNAL_FIELDS = {
    "window of signals": _START,
    "readings of signals": "reading_count",
    "weakest signal": "signal_strength_min",
    "average signal": "signal_strength_avg",
    "strongest signal": "signal_strength_max",
}

Figures = dict[str, object]


def compare_dashboard(address: str, actual: Actual, step: Callable[[], None]) -> Comparison:
    """Compare once all figures are equal, or the page has had its time; call `step` meanwhile."""
    expected = expected_figures(actual)
    deadline = time.monotonic() + SETTLE_S
    while True:
        try:
            compared = compare_figures(expected, _read_figures(address))
        except UserFacingError as error:
            compared = Comparison(len(expected), 0, [], [str(error)])
        if compared.passed or time.monotonic() > deadline:
            return compared
        step()


def _read_figures(address: str) -> Figures:
    """Return the figures of the page; raise `UserFacingError` if it does not send any."""
    try:
        return shown_figures(read_snapshot(address))
    except requests.HTTPError as error:
        reason = f"answers with status {error.response.status_code}"
    except requests.RequestException as error:
        reason = f"does not answer ({type(error).__name__})"
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError, AttributeError):
        reason = "sends something other than its figures"
    raise UserFacingError(f"the dashboard at {address} {reason}")


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
    fleet = [row for row in actual.windows if row["scope"] == FLEET_SCOPE]
    by_type = [row for row in actual.signal_statistics if row["rack_id"] is None]
    newest = {row["device_type"]: row for row in sorted(by_type, key=itemgetter(_START))}
    figures: Figures = {
        **{f"alerts of {rule}": count for rule, count in Counter(alerts.values()).items()},
        **{
            f"open {rule} of {subject}": True
            for (rule, subject), state in last_state.items()
            if state == "WARNING"
        },
        **{f"dead letters {reason}": n for reason, n in Counter(dead_letters.values()).items()},
        **_fleet_figures(sorted(fleet, key=itemgetter(_START))[-FLEET_WINDOWS:]),
        **_signal_figures(newest.values()),
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


def _fleet_figures(windows: Iterable[Row]) -> Figures:
    return {
        f"{name} of the fleet from {row[_START]}": row[field]
        for row in windows
        for name, field in _FLEET_FIELDS.items()
    }


def _signal_figures(statistics: Iterable[Row]) -> Figures:
    return {
        f"{name} of {row['device_type']}": row[field]
        for row in statistics
        for name, field in _SIGNAL_FIELDS.items()
    }


def read_snapshot(address: str) -> Mapping[str, Any]:
    """Return what a browser that opens the page now is sent first."""
    with requests.get(f"{address}stream", stream=True, timeout=REQUEST_S) as response:
        response.raise_for_status()
        for line in response.iter_lines(chunk_size=65_536):
            if line.startswith(b"data: "):
                snapshot: Mapping[str, Any] = msgspec.json.decode(line.removeprefix(b"data: "))
                return snapshot
    raise LookupError("the dashboard's stream has no snapshot")


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
        **_fleet_figures(snapshot["windows"]["fleet"]),
        **_signal_figures(snapshot["signals"]),
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
