"""Decide whether a failed query is started again, and after which wait."""

from collections import deque

WINDOW_S = 600.0
"""Restarts that are older do not count."""
DEFAULT_RESTARTS = 5
"""The most restarts of one query within the window."""
_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 30.0


class RestartBudget:
    """The restarts of one query: at most `limit` within the window.

    Times are seconds of any clock that does not go back.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._restarts: deque[float] = deque()
        self._consecutive_failures = 0

    def next_delay_s(self, now_s: float, *, had_worked: bool) -> float | None:
        """Return how long to wait before the query is started again; None if it must not be.

        `had_worked`: the query worked since its last start, as the supervisor sees it. Then it is
        started again at once. Each further failure before it has worked doubles the wait.
        """
        while self._restarts and now_s - self._restarts[0] > WINDOW_S:
            self._restarts.popleft()
        if len(self._restarts) >= self._limit:
            return None
        self._restarts.append(now_s)
        self._consecutive_failures = 1 if had_worked else self._consecutive_failures + 1
        if self._consecutive_failures == 1:
            return 0.0
        return min(_FIRST_DELAY_S * 2.0 ** (self._consecutive_failures - 2), _LONGEST_DELAY_S)
