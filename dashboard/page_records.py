"""Define what a browser receives, as JSON: a snapshot of everything, then what has changed."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from events.records import (
    Incident,
    RackTemperature,
    SignalStatistics,
    State,
    UserSession,
    UserTotal,
)


class RackView(Struct, kw_only=True):
    """A rack as the floor plan shows it; the readings' fields are null before the first one."""

    rack_id: str
    site_id: str
    device_type: str | None
    threshold_c: float
    temperature_c: float | None = None
    signal_strength: float | None = None
    event_time_ms: int | None = None
    append_time_ms: int | None = None
    state: State = "NORMAL"
    rules: list[str] = []


class BrokerView(Struct, kw_only=True):
    """Whether the broker answers, and since when it does or does not."""

    servers: str
    reachable: bool
    since_ms: int


class WindowsView(Struct, kw_only=True):
    """The newest windows of the fleet, the oldest first."""

    fleet: list[RackTemperature]


class HistogramView(Struct, kw_only=True):
    """How many values lie above the bound before and at or below each bound, then above all."""

    bounds: Sequence[int]
    counts: Sequence[int]


class ArrivalsView(Struct, kw_only=True):
    """What arrived, as `[epoch ms, impressions, clicks]` per interval that is complete."""

    interval_s: int
    points: Sequence[tuple[int, int, int]]


class ClickstreamView(Struct, kw_only=True):
    """Clicks and actions: `impressions` and `clicks` count records, all others distinct ones."""

    impressions: int
    clicks: int
    arrivals: ArrivalsView
    attributed_clicks: int
    clicked: int
    unclicked: int
    seconds_to_click: HistogramView
    actions: dict[str, int]
    sessions: int
    last_sessions: list[UserSession]
    totals: int
    top_totals: list[UserTotal]
    amount_total: str


class LatencyView(Struct, kw_only=True):
    """From event time to append time of the last minute's alerts, in milliseconds."""

    p50: int | None
    p99: int | None
    count: int


class RatesView(Struct, kw_only=True):
    """Records per second into the topics of events and out of the jobs, `[epoch ms, rate]`."""

    into: Sequence[tuple[int, float]] = msgspec.field(name="in")
    out: Sequence[tuple[int, float]]


class QueryView(Struct, kw_only=True):
    """A query of a driver, as its status file describes it; null where it is unknown."""

    name: str
    job: str
    trigger: str
    host: str
    topics: list[str]
    active: bool
    stuck: bool
    finished: bool
    restarts: int
    state_rows: int | None
    state_bytes: int | None
    last_progress_ms: int | None
    rows_per_second: float | None
    lag: int | None
    late_records: int | None
    records_left_out: int | None
    error: str | None


class DriverView(Struct, kw_only=True):
    """A process that runs queries."""

    host: str
    pid: int
    healthy: bool
    written_time_ms: int
    error: str | None


class AlertingView(Struct, kw_only=True):
    """Whether alerting works, which incidents depend on.

    `as_of_ms` is up to when it has published all incidents, null if it was never seen; `error` is
    why it does not work.
    """

    healthy: bool
    as_of_ms: int | None
    error: str | None


class PipelineView(Struct, kw_only=True):
    """Whether the pipeline keeps up; null where nobody reports it.

    `lag` is the largest of the queries that run, and `lag_query` that query's name. `late_rows` and
    `left_out` are sums over queries: a record counts once for each query that reads it.
    """

    rates: RatesView
    latency_ms: LatencyView
    lag: int | None
    lag_query: str | None
    late_rows: int | None
    left_out: int | None
    dead_letters: int
    dead_letters_by_reason: dict[str, int]
    drivers: list[DriverView]
    queries: list[QueryView]
    alerting: AlertingView | None


class LimitsView(Struct, kw_only=True):
    """What is left out: because the dashboard's memory is bounded, or because it cannot be read.

    `unreadable` counts records of output topics, which should all be readable. Malformed readings
    are dead letters, which the jobs report. Of readings the dashboard only sees a sample.
    """

    racks_left_out: int
    incidents_left_out: int
    unreadable: int
    malformed_readings: int


class Update(Struct, kw_only=True, omit_defaults=True):
    """What changed since the version that a browser has; a snapshot has all members."""

    version: int
    server_time_ms: int
    is_snapshot: bool = False
    broker: BrokerView | UnsetType = UNSET
    racks: list[RackView] | UnsetType = UNSET
    incidents: list[Incident] | UnsetType = UNSET
    incidents_removed: list[tuple[str, str]] | UnsetType = UNSET
    windows: WindowsView | UnsetType = UNSET
    clickstream: ClickstreamView | UnsetType = UNSET
    signals: list[SignalStatistics] | UnsetType = UNSET
    pipeline: PipelineView | UnsetType = UNSET
    counts: dict[str, int] | UnsetType = UNSET
    alerts: dict[str, int] | UnsetType = UNSET
    topics_missing: list[str] | UnsetType = UNSET
    limits: LimitsView | UnsetType = UNSET


class RackDetails(Struct, kw_only=True):
    """One rack with its last readings (`[epoch ms, °C, signal]`), windows and alerts."""

    rack: RackView
    readings: list[tuple[int, float, float]]
    windows: list[RackTemperature]
    alerts: list[msgspec.Raw]


class ShownDeadLetter(Struct, kw_only=True):
    """A dead letter; `value_base64` is null where the value is text.

    `value_cut` says whether the one of the two that is there was shortened.
    """

    source_topic: str
    partition: int
    offset: int
    reason: str
    error: str
    value: str | None
    value_base64: str | None
    value_size: int
    value_cut: bool
    seen_time: str


class DeadLettersView(Struct, kw_only=True):
    """The newest dead letters first, and how many there are."""

    dead_letters: list[ShownDeadLetter]
    count: int
