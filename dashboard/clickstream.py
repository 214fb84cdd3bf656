"""Count what the jobs of the clickstream output, in bounded memory.

The topics hold a record again after a job was killed, so rows and sessions are recognised by their
identity, the last thirty thousand of them.
"""

import heapq
from bisect import bisect_left
from collections import deque
from decimal import Decimal

from dashboard.bounded import BoundedDict, RecentIds
from dashboard.page_records import ArrivalsView, ClickstreamView, HistogramView
from events.records import ActionCount, AdAttribution, UserSession, UserTotal

IDS_REMEMBERED = 30_000
WINDOWS_REMEMBERED = 2_000
"""Windows of action counts whose later records replace the earlier; older ones are final."""
USERS_REMEMBERED = 20_000
SHOWN = 10
"""How many sessions and totals a browser is sent."""
CLICK_BOUNDS_S = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600)
ARRIVAL_INTERVAL_MS = 5_000
ARRIVAL_POINTS = 60


class Clickstream:
    """What is known about impressions, clicks, actions, sessions and totals."""

    def __init__(self) -> None:
        self._rows = RecentIds(IDS_REMEMBERED)
        self._clicked_impressions = RecentIds(IDS_REMEMBERED)
        self._session_ids = RecentIds(IDS_REMEMBERED)
        self._attributed_clicks = self._clicked = self._unclicked = 0
        self._click_counts = [0] * (len(CLICK_BOUNDS_S) + 1)
        self._final_actions: dict[str, int] = {}
        self._action_windows = BoundedDict[tuple[str, str, str], ActionCount](WINDOWS_REMEMBERED)
        self._sessions = 0
        self._last_sessions = deque[UserSession](maxlen=SHOWN)
        self._totals = BoundedDict[str, UserTotal](USERS_REMEMBERED)
        self._users = 0
        self._amount_total = Decimal(0)
        self._arrived = (0, 0)
        self._arrivals = deque[tuple[int, int, int]](maxlen=ARRIVAL_POINTS)
        self._interval, self._is_whole = (0, 0, 0), False

    def add_attribution(self, row: AdAttribution) -> None:
        """Count an impression's row once; ignore clicks without an impression."""
        if row.impression_time is None or not self._rows.add(row.impression_id, row.click_id):
            return
        if row.click_id is None:
            self._unclicked += 1
            return
        self._attributed_clicks += 1
        self._clicked += self._clicked_impressions.add(row.impression_id)
        if row.seconds_to_click is not None:
            self._click_counts[bisect_left(CLICK_BOUNDS_S, row.seconds_to_click)] += 1

    def add_action_count(self, row: ActionCount) -> None:
        """Replace the count of an action in a window; ignore counts of users."""
        if row.action is None:
            return
        final = self._action_windows.set((row.window_start, row.window_end, row.action), row)
        if final is not None and final.action is not None:
            counted = self._final_actions.get(final.action, 0)
            self._final_actions[final.action] = counted + final.action_count

    def add_session(self, row: UserSession) -> None:
        """Count a session once."""
        if self._session_ids.add(row.user_id, row.session_start):
            self._sessions += 1
            self._last_sessions.append(row)

    def add_total(self, row: UserTotal) -> None:
        """Replace a user's total."""
        earlier = self._totals.get(row.user_id)
        self._amount_total += row.amount_total - (earlier.amount_total if earlier else 0)
        self._users += earlier is None
        self._totals.set(row.user_id, row)

    def set_arrived(self, impressions: int, clicks: int, now_ms: int) -> None:
        """Take how many impressions and clicks the topics have got until now.

        An interval is complete when the next one begins. The one in which the dashboard started is
        not, and what arrived while nobody counted has no interval.
        """
        self._arrived = (impressions, clicks)
        begin_ms = now_ms - now_ms % ARRIVAL_INTERVAL_MS
        last_ms, had_impressions, had_clicks = self._interval
        if begin_ms == last_ms:
            return
        is_next = begin_ms == last_ms + ARRIVAL_INTERVAL_MS
        if is_next and self._is_whole:
            arrived = (max(0, impressions - had_impressions), max(0, clicks - had_clicks))
            self._arrivals.append((last_ms, *arrived))
        self._interval, self._is_whole = (begin_ms, impressions, clicks), is_next

    def view(self) -> ClickstreamView:
        """Return what a browser shows."""
        impressions, clicks = self._arrived
        actions = dict(self._final_actions)
        for row in self._action_windows.values():
            if row.action is not None:
                actions[row.action] = actions.get(row.action, 0) + row.action_count
        return ClickstreamView(
            impressions=impressions,
            clicks=clicks,
            arrivals=ArrivalsView(
                interval_s=ARRIVAL_INTERVAL_MS // 1000, points=list(self._arrivals)
            ),
            attributed_clicks=self._attributed_clicks,
            clicked=self._clicked,
            unclicked=self._unclicked,
            seconds_to_click=HistogramView(bounds=CLICK_BOUNDS_S, counts=tuple(self._click_counts)),
            actions=dict(sorted(actions.items())),
            sessions=self._sessions,
            last_sessions=list(reversed(self._last_sessions)),
            totals=self._users,
            top_totals=heapq.nlargest(
                SHOWN, self._totals.values(), key=lambda total: total.amount_total
            ),
            amount_total=f"{self._amount_total:.2f}",
        )
