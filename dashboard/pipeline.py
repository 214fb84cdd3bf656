"""Summarise whether the pipeline keeps up: rates, alert latency, dead letters, and the queries."""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from dashboard.page_records import (
    AlertingView,
    DriverView,
    LatencyView,
    PipelineView,
    QueryView,
    RatesView,
)
from events.topics import ALERT_COMMANDS, ALL, EVENT_TOPICS

NO_ALERTING = "it has ended or was never started: start it with `python -m alerting run`."
RATE_POINTS = 60
LATENCY_MS = 60_000
LATENCIES_KEPT = 10_000
INPUTS = frozenset(topic.name for topic in EVENT_TOPICS)
OUTPUTS = frozenset(topic.name for topic in ALL) - INPUTS - {ALERT_COMMANDS.name}


class Pipeline:
    """What is known about the flow of records, in bounded memory."""

    def __init__(self) -> None:
        self._counted: tuple[int, dict[str, int]] | None = None
        self._into = deque[tuple[int, float]](maxlen=RATE_POINTS)
        self._out = deque[tuple[int, float]](maxlen=RATE_POINTS)
        self._latencies = deque[tuple[int, int]](maxlen=LATENCIES_KEPT)
        self._dead_letters = Counter[str]()
        self._drivers: Sequence[DriverView] = ()
        self._queries: Sequence[QueryView] = ()
        self._alerting: AlertingView | None = None

    def set_counts(self, counts: Mapping[str, int], now_ms: int) -> None:
        """Take how many records the topics ever got, to derive the rates.

        A topic that was not counted before, or is not now, adds nothing to them. When the clock
        steps back, nobody knows how long the interval was, and the earlier times lie ahead.
        """
        if self._counted is not None and now_ms <= self._counted[0]:
            self._into.clear()
            self._out.clear()
        elif self._counted is not None:
            before_ms, had = self._counted
            seconds = (now_ms - before_ms) / 1000
            arrived = {name: max(0, counts[name] - had[name]) for name in counts.keys() & had}
            for points, names in ((self._into, INPUTS), (self._out, OUTPUTS)):
                records = sum(arrived[name] for name in arrived.keys() & names)
                points.append((now_ms, round(records / seconds, 1)))
        self._counted = (now_ms, dict(counts))

    def add_latency(self, append_ms: int, latency_ms: int) -> None:
        """Take how long after its event time an alert reached the topic."""
        self._latencies.append((append_ms, latency_ms))

    def add_dead_letter(self, reason: str) -> None:
        """Count a dead letter."""
        self._dead_letters[reason] += 1

    @property
    def dead_letters(self) -> int:
        """How many dead letters were counted."""
        return self._dead_letters.total()

    def set_queries(self, drivers: Sequence[DriverView], queries: Sequence[QueryView]) -> None:
        """Take what the drivers say about themselves and their queries."""
        self._drivers, self._queries = drivers, queries

    def set_alerting(self, found: AlertingView | None) -> None:
        """Take what alerting says about itself; None where no status of it is found.

        It removes its status when it ends in order. So it does not run, if it was seen before, or
        if the drivers' status is found where its own would be. Otherwise nothing is known.
        """
        if found is None and (self._alerting is not None or self._drivers):
            as_of_ms = self._alerting.as_of_ms if self._alerting else None
            found = AlertingView(healthy=False, as_of_ms=as_of_ms, error=NO_ALERTING)
        self._alerting = found

    def view(self, now_ms: int) -> PipelineView:
        """Return what a browser shows."""
        lags = [
            (query.lag, query.name)
            for query in self._queries
            if query.active and query.lag is not None
        ]
        lag, lag_query = max(lags, default=(None, None))
        return PipelineView(
            rates=RatesView(into=list(self._into), out=list(self._out)),
            latency_ms=self._latency(now_ms),
            lag=lag,
            lag_query=lag_query,
            late_rows=_sum_known([query.late_records for query in self._queries]),
            left_out=_sum_known([query.records_left_out for query in self._queries]),
            dead_letters=self._dead_letters.total(),
            dead_letters_by_reason=dict(self._dead_letters),
            drivers=list(self._drivers),
            queries=list(self._queries),
            alerting=self._alerting,
        )

    def _latency(self, now_ms: int) -> LatencyView:
        recent = sorted(
            latency for append_ms, latency in self._latencies if append_ms > now_ms - LATENCY_MS
        )
        if not recent:
            return LatencyView(p50=None, p99=None, count=0)
        return LatencyView(
            p50=_percentile(recent, 0.5), p99=_percentile(recent, 0.99), count=len(recent)
        )


def _percentile(values: Sequence[int], share: float) -> int:
    """Return the least value that at least this share of the sorted values does not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def _sum_known(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
