"""Keep what the dashboard shows, in bounded memory, with a version for each part of the page.

Records go in, and the changes since a version come out. This module knows neither Kafka nor the
time: whoever calls it says what time it is.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, get_args

import msgspec

from dashboard.alerts import Alerts
from dashboard.clickstream import Clickstream
from dashboard.dead_letters import DeadLetters
from dashboard.incidents import Incidents
from dashboard.page_records import (
    AlertingView,
    BrokerView,
    DeadLettersView,
    DriverView,
    LimitsView,
    QueryView,
    RackDetails,
    Update,
    WindowsView,
)
from dashboard.pipeline import Pipeline
from dashboard.racks import Racks
from dashboard.received import Received, RecordReader
from dashboard.sections import Sections
from dashboard.signals import Signals
from dashboard.windows import Windows
from events.records import (
    Action,
    ActionCount,
    AdAttribution,
    InventoryRack,
    UserSession,
    UserTotal,
    money_fault,
)
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    AD_CLICKS,
    AD_IMPRESSIONS,
    ALERTS,
    DEAD_LETTERS,
    INCIDENTS,
    RACK_READINGS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_SESSIONS,
    USER_TOTALS,
)

ACTIONS: Final = frozenset(get_args(Action))


class State:
    """All that a browser can ask for.

    Every method that takes records may be called with anything: what cannot be read is left out,
    and counted among the limits.
    """

    def __init__(self, servers: str, inventory: Iterable[InventoryRack], now_ms: int) -> None:
        self.version = 1
        self._broker = BrokerView(servers=servers, reachable=False, since_ms=now_ms)
        self._broker_version = 1
        self._counts: dict[str, int] = {}
        self._missing: list[str] = []
        self._readings, self._outputs = RecordReader(), RecordReader()
        self._racks = Racks(inventory, self._readings)
        self._incidents = Incidents(self._racks, self._outputs)
        self._windows = Windows(self._outputs)
        self._signals = Signals(self._outputs)
        self._alerts = Alerts(self._outputs)
        self._dead_letters = DeadLetters(self._outputs)
        self.clickstream, self.pipeline = Clickstream(), Pipeline()
        self._limits = self._current_limits()
        self._views: dict[str, Callable[[int], object]] = {
            "windows": lambda _: WindowsView(fleet=self._windows.of_fleet()),
            "clickstream": lambda _: self.clickstream.view(),
            "signals": lambda _: self._signals.view(),
            "pipeline": self.pipeline.view,
            "counts": lambda _: self._counts,
            "alerts": lambda _: self._alerts.counts(),
            "topics_missing": lambda _: self._missing,
            "limits": lambda _: self._limits,
        }
        self._sections = Sections(self._views)
        self._appliers: dict[str, Callable[[Sequence[Received]], None]] = {
            RACK_TEMPERATURE.name: self._apply_windows,
            ALERTS.name: self._apply_alerts,
            AD_ATTRIBUTION.name: self._apply_attributions,
            ACTION_COUNTS.name: self._apply_action_counts,
            USER_SESSIONS.name: self._apply_sessions,
            USER_TOTALS.name: self._apply_totals,
            INCIDENTS.name: lambda records: self._incidents.apply(records, self.version),
            DEAD_LETTERS.name: self._apply_dead_letters,
            SIGNAL_STATISTICS.name: self._apply_signals,
            RACK_READINGS.name: lambda records: self._racks.apply(records, self.version),
        }

    @property
    def topics(self) -> Collection[str]:
        """The names of the topics that `apply` takes."""
        return self._appliers.keys()

    # What comes in.

    def apply(self, topic: str, records: Sequence[Received]) -> None:
        """Take records of a topic, in its order; `topic` is its name without prefix."""
        self.version += 1
        self._appliers[topic](records)
        limits = self._current_limits()
        if limits != self._limits:
            self._limits = limits
            self._sections.mark("limits")

    def set_broker(self, *, reachable: bool, now_ms: int) -> None:
        """Take whether the broker answers."""
        if reachable != self._broker.reachable:
            self.version += 1
            self._broker.reachable, self._broker.since_ms = reachable, now_ms
            self._broker_version = self.version

    def set_topics(self, counts: Mapping[str, int], missing: Sequence[str], now_ms: int) -> None:
        """Take how many records each topic ever got, and which topics the broker lacks."""
        if self._counts != counts:
            self._counts = dict(counts)
            self._sections.mark("counts")
        if self._missing != missing:
            self._missing = list(missing)
            self._sections.mark("topics_missing")
        if AD_IMPRESSIONS.name in counts and AD_CLICKS.name in counts:
            self.clickstream.set_arrived(
                counts[AD_IMPRESSIONS.name], counts[AD_CLICKS.name], now_ms
            )
            self._sections.mark("clickstream")
        self.pipeline.set_counts(counts, now_ms)
        self._sections.mark("pipeline")

    def set_programs(
        self,
        drivers: Sequence[DriverView],
        queries: Sequence[QueryView],
        alerting: AlertingView | None,
    ) -> None:
        """Take what the drivers, their queries and alerting say about themselves."""
        self.pipeline.set_queries(drivers, queries)
        self.pipeline.set_alerting(alerting)
        self._sections.mark("pipeline")

    def publish_sections(self, at_ms: int) -> None:
        """Give each changed section a new version, unless its last one is too recent.

        `at_ms` is of a clock that never steps back.
        """
        self.version = self._sections.publish(self.version, at_ms)

    def _apply_windows(self, records: Iterable[Received]) -> None:
        if self._windows.apply(records):
            self._sections.mark("windows")

    def _apply_signals(self, records: Iterable[Received]) -> None:
        if self._signals.apply(records):
            self._sections.mark("signals")

    def _apply_alerts(self, records: Iterable[Received]) -> None:
        for append_ms, latency_ms in self._alerts.apply(records):
            self.pipeline.add_latency(append_ms, latency_ms)
            self._sections.mark("alerts")

    def _apply_dead_letters(self, records: Iterable[Received]) -> None:
        for reason in self._dead_letters.apply(records):
            self.pipeline.add_dead_letter(reason)
            self._sections.mark("pipeline")

    def _apply_attributions(self, records: Iterable[Received]) -> None:
        for row in self._outputs.decoded(records, _ATTRIBUTION):
            self.clickstream.add_attribution(row)
        self._sections.mark("clickstream")

    def _apply_action_counts(self, records: Iterable[Received]) -> None:
        for row in self._outputs.decoded(records, _ACTION_COUNT):
            if row.action is None or row.action in ACTIONS:
                self.clickstream.add_action_count(row)
            else:
                self._outputs.reject()
        self._sections.mark("clickstream")

    def _apply_sessions(self, records: Iterable[Received]) -> None:
        for row in self._outputs.decoded(records, _SESSION):
            if money_fault(row.amount_total) is None:
                self.clickstream.add_session(row)
            else:
                self._outputs.reject()
        self._sections.mark("clickstream")

    def _apply_totals(self, records: Iterable[Received]) -> None:
        for row in self._outputs.decoded(records, _TOTAL):
            if money_fault(row.amount_total) is None:
                self.clickstream.add_total(row)
            else:
                self._outputs.reject()
        self._sections.mark("clickstream")

    def _current_limits(self) -> LimitsView:
        return LimitsView(
            racks_left_out=self._racks.left_out,
            incidents_left_out=self._incidents.left_out,
            unreadable=self._outputs.rejected,
            malformed_readings=self._readings.rejected,
        )

    # What goes out.

    def update_since(self, version: int, now_ms: int) -> Update:
        """Return what changed after a version; 0 asks for everything."""
        if version < self._incidents.forgotten_version:
            version = 0
        everything = version == 0
        update = Update(version=self.version, server_time_ms=now_ms, is_snapshot=everything)
        if everything or self._broker_version > version:
            update.broker = self._broker
        racks = self._racks.all() if everything else self._racks.changed_since(version)
        if racks or everything:
            update.racks = racks
        incidents = self._incidents.changed_since(version)
        if incidents or everything:
            update.incidents = incidents
        if not everything and (removed := self._incidents.removed_since(version)):
            update.incidents_removed = removed
        for name in self._sections.changed_since(version):
            setattr(update, name, self._views[name](now_ms))
        return update

    def rack(self, rack_id: str) -> RackDetails | None:
        """Return what is known about a rack, or None where nothing is."""
        rack = self._racks.get(rack_id)
        if rack is None:
            return None
        return RackDetails(
            rack=rack.view,
            readings=rack.readings(),
            windows=self._windows.of_rack(rack_id),
            alerts=self._alerts.of_rack(rack_id),
        )

    def dead_letters(self) -> DeadLettersView:
        """Return the newest dead letters."""
        return DeadLettersView(
            dead_letters=self._dead_letters.newest(), count=self.pipeline.dead_letters
        )

    def knows_incident(self, rule: str, subject: str) -> bool:
        """Tell whether there is an incident of a rule and a subject, open or resolved."""
        return (rule, subject) in self._incidents

    def knows_subject(self, subject: str) -> bool:
        """Tell whether a subject is a rack or a site."""
        return subject in self._racks or self._racks.is_at(subject)

    @property
    def servers(self) -> str:
        """The broker's address."""
        return self._broker.servers

    @property
    def is_broker_reachable(self) -> bool:
        """Whether the broker answers."""
        return self._broker.reachable


_ATTRIBUTION = msgspec.json.Decoder(AdAttribution)
_ACTION_COUNT = msgspec.json.Decoder(ActionCount)
_SESSION = msgspec.json.Decoder(UserSession)
_TOTAL = msgspec.json.Decoder(UserTotal)
