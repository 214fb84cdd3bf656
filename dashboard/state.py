"""What the dashboard knows, in bounded memory, with a version for everything that a browser shows.

Records go in, and the changes since a version come out. This module knows neither Kafka nor the
time: whoever calls it says what time it is.
"""

from array import array
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Struct

from dashboard.bounded import BoundedDict, RecentIds
from dashboard.clickstream import Clickstream
from dashboard.pipeline import Pipeline
from dashboard.views import (
    AlertingView,
    BrokerView,
    DeadLettersView,
    DriverView,
    LimitsView,
    QueryView,
    RackDetails,
    RackView,
    ShownDeadLetter,
    Update,
    WindowsView,
)
from events.constants import DEFAULT_THRESHOLD_C, FLEET_SCOPE, FUTURE_TOLERANCE
from events.records import (
    MAX_ID_BYTES,
    Action,
    ActionCount,
    AdAttribution,
    Alert,
    DeadLetter,
    Id,
    Incident,
    Instant,
    InventoryRack,
    RackTemperature,
    SignalStatistics,
    UserSession,
    UserTotal,
    money_fault,
)
from events.times import duration_ms, to_ms
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

MAX_RACKS = 5_000
MAX_INCIDENTS = 5_000
MAX_LEFT_OUT = 5_000
"""How many racks and incidents that are left out are counted."""
MAX_REMOVED = 1_000
"""Removed incidents that are remembered; a browser that is further behind gets a snapshot."""
MAX_ALERTS = 2_000
"""Alerts that are kept over all racks."""
MAX_ALERT_BYTES = 16_384
"""A larger alert is counted, but not kept."""
MAX_WINDOW_BYTES = 2_048
MAX_TEXT = 1_000
"""How many characters are kept of an incident's texts."""
ALERT_IDS_REMEMBERED = 50_000
READINGS_PER_RACK = 300
READING_INTERVAL_MS = 1_000
"""The least time between two readings of a rack's history."""
WINDOWS_PER_RACK = 36
FLEET_WINDOWS = 60
SIGNAL_GROUPS = 50
ALERTS_PER_RACK = 20
DEAD_LETTERS_KEPT = 100
DEAD_LETTER_CHARACTERS = 4096
DEAD_LETTER_BASE64 = 1024
"""Characters of base64 that are kept of a value that is no text: those of 768 bytes."""
SECTION_INTERVAL_MS = 1_000
"""The least time between two versions of a section that is sent as a whole."""

FUTURE_TOLERANCE_MS = duration_ms(FUTURE_TOLERANCE)
ACTIONS: Final = frozenset(get_args(Action))

IncidentKey = tuple[str, str]
"""An incident's rule and subject."""

T = TypeVar("T")


class Received(NamedTuple):
    """A record of an output topic; `append_ms` is when the broker received it."""

    key: bytes | None
    value: bytes | None
    append_ms: int


class _Reading(Struct):
    """What the dashboard needs of a reading."""

    rack_id: Id
    sequence: int
    site_id: Id
    device_type: Id
    event_time: Instant
    temperature_c: float
    signal_strength: float


class _Rack:
    """A rack with its version and its history, three numbers per reading in a ring."""

    __slots__ = ("history", "last_ms", "place", "sequence", "version", "view")

    def __init__(self, view: RackView) -> None:
        self.view, self.version, self.sequence = view, 0, -1
        self.history, self.place, self.last_ms = array("d"), 0, 0

    def remember(self, time_ms: int, temperature_c: float, signal: float) -> None:
        if self.history and abs(time_ms - self.last_ms) < READING_INTERVAL_MS:
            return
        self.last_ms = time_ms
        if len(self.history) < 3 * READINGS_PER_RACK:
            self.history.extend((time_ms, temperature_c, signal))
            return
        begin = 3 * self.place
        self.history[begin : begin + 3] = array("d", (time_ms, temperature_c, signal))
        self.place = (self.place + 1) % READINGS_PER_RACK

    def readings(self) -> list[tuple[int, float, float]]:
        count = len(self.history) // 3
        order = [(self.place + number) % count for number in range(count)] if count else []
        return [
            (int(self.history[3 * at]), self.history[3 * at + 1], self.history[3 * at + 2])
            for at in order
        ]


class _Section:
    """A part of the state that is sent as a whole, at most once per `SECTION_INTERVAL_MS`."""

    __slots__ = ("is_dirty", "published_ms", "version")

    def __init__(self) -> None:
        self.version, self.is_dirty, self.published_ms = 1, False, 0


class State:
    """All that a browser can ask for.

    Every method that takes records may be called with anything: what cannot be read is left out,
    and counted among the limits.
    """

    def __init__(self, servers: str, inventory: Iterable[InventoryRack], now_ms: int) -> None:
        self.version = 1
        self._unreadable = 0
        self._broker = BrokerView(servers=servers, reachable=False, since_ms=now_ms)
        self._broker_version = 1
        self._racks: dict[str, _Rack] = {}
        self._racks_left_out: set[int] = set()
        self._open_incidents: dict[IncidentKey, tuple[int, Incident]] = {}
        self._resolved_incidents: dict[IncidentKey, tuple[int, Incident]] = {}
        self._incidents_left_out: set[int] = set()
        self._removed = deque[tuple[int, IncidentKey]](maxlen=MAX_REMOVED)
        self._evicted_removal = 0
        self._rules_by_subject: dict[str, set[str]] = {}
        self._fleet: dict[str, bytes] = {}
        self._rack_windows: dict[str, dict[str, bytes]] = {}
        self._signals = BoundedDict[str | None, SignalStatistics](SIGNAL_GROUPS)
        self._alerts = deque[tuple[str, bytes]](maxlen=MAX_ALERTS)
        self._alert_ids = RecentIds(ALERT_IDS_REMEMBERED)
        self._alert_counts = Counter[str]()
        self._dead_letters = deque[ShownDeadLetter](maxlen=DEAD_LETTERS_KEPT)
        self._dead_letter_ids = RecentIds(ALERT_IDS_REMEMBERED)
        self._counts: dict[str, int] = {}
        self._missing: list[str] = []
        self.clickstream, self.pipeline = Clickstream(), Pipeline()
        self._sections = {
            name: _Section()
            for name in (
                "windows",
                "clickstream",
                "signals",
                "pipeline",
                "counts",
                "alerts",
                "topics_missing",
                "limits",
            )
        }
        self._appliers = {
            RACK_TEMPERATURE.name: self._apply_windows,
            ALERTS.name: self._apply_alerts,
            AD_ATTRIBUTION.name: self._apply_attributions,
            ACTION_COUNTS.name: self._apply_action_counts,
            USER_SESSIONS.name: self._apply_sessions,
            USER_TOTALS.name: self._apply_totals,
            INCIDENTS.name: self._apply_incidents,
            DEAD_LETTERS.name: self._apply_dead_letters,
            SIGNAL_STATISTICS.name: self._apply_signals,
            RACK_READINGS.name: self._apply_readings,
        }
        for rack in inventory:
            if len(self._racks) < MAX_RACKS:
                self._racks[rack.rack_id] = _Rack(
                    RackView(
                        rack_id=rack.rack_id,
                        site_id=rack.site_id,
                        device_type=rack.device_type,
                        threshold_c=rack.threshold_c,
                    )
                )

    @property
    def topics(self) -> Collection[str]:
        """The names of the topics that `apply` takes."""
        return self._appliers.keys()

    # What comes in.

    def apply(self, topic: str, records: Sequence[Received]) -> None:
        """Take records of a topic, in its order; `topic` is its name without prefix."""
        self.version += 1
        self._appliers[topic](records)

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
            self._changed("counts")
        if self._missing != missing:
            self._missing = list(missing)
            self._changed("topics_missing")
        if AD_IMPRESSIONS.name in counts and AD_CLICKS.name in counts:
            self.clickstream.set_arrived(
                counts[AD_IMPRESSIONS.name], counts[AD_CLICKS.name], now_ms
            )
            self._changed("clickstream")
        self.pipeline.set_counts(counts, now_ms)
        self._changed("pipeline")

    def publish_sections(self, now_ms: int) -> None:
        """Give each changed section a new version, unless its last one is too recent."""
        for section in self._sections.values():
            if section.is_dirty and now_ms - section.published_ms >= SECTION_INTERVAL_MS:
                self.version += 1
                section.version, section.is_dirty = self.version, False
                section.published_ms = now_ms

    def set_programs(
        self,
        drivers: Sequence[DriverView],
        queries: Sequence[QueryView],
        alerting: AlertingView | None,
    ) -> None:
        """Take what the drivers, their queries and alerting say about themselves."""
        self.pipeline.set_queries(drivers, queries)
        self.pipeline.set_alerting(alerting)
        self._changed("pipeline")

    def _changed(self, section: str) -> None:
        self._sections[section].is_dirty = True

    def _count_unreadable(self) -> None:
        self._unreadable += 1
        self._changed("limits")

    def _decoded(self, records: Iterable[Received], decoder: msgspec.json.Decoder[T]) -> list[T]:
        return [value for _, value in self._with_records(records, decoder)]

    def _with_records(
        self, records: Iterable[Received], decoder: msgspec.json.Decoder[T]
    ) -> list[tuple[Received, T]]:
        found = []
        for record in records:
            if record.value is not None:
                try:
                    found.append((record, decoder.decode(record.value)))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    self._count_unreadable()
        return found

    def _apply_readings(self, records: Iterable[Received]) -> None:
        for record, reading in self._with_records(records, _READING):
            time_ms = _time_ms(reading.event_time)
            if time_ms is None:
                self._count_unreadable()
                continue
            rack = self._racks.get(reading.rack_id) or self._new_rack(reading)
            if rack is None or reading.sequence <= rack.sequence:
                continue
            rack.sequence, rack.version = reading.sequence, self.version
            view = rack.view
            view.site_id, view.device_type = reading.site_id, reading.device_type
            view.temperature_c, view.signal_strength = (
                reading.temperature_c,
                reading.signal_strength,
            )
            view.event_time_ms, view.append_time_ms = time_ms, record.append_ms
            if time_ms <= record.append_ms + FUTURE_TOLERANCE_MS:
                rack.remember(time_ms, reading.temperature_c, reading.signal_strength)

    def _new_rack(self, reading: _Reading) -> _Rack | None:
        if len(self._racks) >= MAX_RACKS:
            if len(self._racks_left_out) < MAX_LEFT_OUT:
                self._racks_left_out.add(hash(reading.rack_id))
                self._changed("limits")
            return None
        rules = sorted(self._rules_by_subject.get(reading.rack_id, ()))
        rack = self._racks[reading.rack_id] = _Rack(
            RackView(
                rack_id=reading.rack_id,
                site_id=reading.site_id,
                device_type=reading.device_type,
                threshold_c=DEFAULT_THRESHOLD_C,
                state="WARNING" if rules else "NORMAL",
                rules=rules,
            )
        )
        return rack

    def _apply_incidents(self, records: Iterable[Received]) -> None:
        for record in records:
            if record.value is None:
                rule, _, subject = (record.key or b"").decode("utf-8", "replace").partition("|")
                self._remove_incident((rule, subject))
                continue
            for incident in self._decoded([record], _INCIDENT):
                key = (incident.rule, incident.subject)
                is_open = incident.status != "resolved"
                self._pop_incident(key)
                incidents = self._open_incidents if is_open else self._resolved_incidents
                incidents[key] = (self.version, _with_short_texts(incident))
                self._set_rule(incident.subject, incident.rule, is_open)
                if len(self._open_incidents) + len(self._resolved_incidents) > MAX_INCIDENTS:
                    self._evict_incident()

    def _pop_incident(self, key: IncidentKey) -> bool:
        if hash(key) in self._incidents_left_out:
            self._incidents_left_out.remove(hash(key))
            self._changed("limits")
        found = self._open_incidents.pop(key, None) or self._resolved_incidents.pop(key, None)
        return found is not None

    def _remove_incident(self, key: IncidentKey) -> None:
        if self._pop_incident(key):
            self._note_removal(key)
        self._set_rule(key[1], key[0], False)

    def _evict_incident(self) -> None:
        """Leave out the incident that changed longest ago, a resolved one if there is any.

        An open one still keeps its rack in WARNING, unless the rack is unknown: they are bounded.
        """
        incidents = self._resolved_incidents or self._open_incidents
        key = next(iter(incidents))
        del incidents[key]
        self._note_removal(key)
        if key[1] not in self._racks:
            self._set_rule(key[1], key[0], False)
        if len(self._incidents_left_out) < MAX_LEFT_OUT:
            self._incidents_left_out.add(hash(key))
            self._changed("limits")

    def _note_removal(self, key: IncidentKey) -> None:
        if len(self._removed) == MAX_REMOVED:
            self._evicted_removal = self._removed[0][0]
        self._removed.append((self.version, key))

    def _set_rule(self, subject: str, rule: str, is_open: bool) -> None:
        rules = self._rules_by_subject.setdefault(subject, set())
        (rules.add if is_open else rules.discard)(rule)
        if not rules:
            del self._rules_by_subject[subject]
        rack = self._racks.get(subject)
        if rack is not None:
            rack.view.rules = sorted(rules)
            rack.view.state = "WARNING" if rules else "NORMAL"
            rack.version = self.version

    def _apply_windows(self, records: Iterable[Received]) -> None:
        for record in records:
            window = _window_of(record)
            if window is None or record.value is None:
                self._count_unreadable()
                continue
            scope, start = window
            if scope == FLEET_SCOPE:
                _keep_newest(self._fleet, start, record.value, FLEET_WINDOWS)
                self._changed("windows")
            elif scope in self._rack_windows or len(self._rack_windows) < MAX_RACKS:
                windows = self._rack_windows.setdefault(scope, {})
                _keep_newest(windows, start, record.value, WINDOWS_PER_RACK)

    def _apply_alerts(self, records: Iterable[Received]) -> None:
        for record, alert in self._with_records(records, _ALERT):
            event_ms, value = _time_ms(alert.event_time), record.value or b""
            if event_ms is None:
                self._count_unreadable()
            elif self._alert_ids.add(alert.alert_id):
                self._alert_counts[alert.rule] += 1
                self._changed("alerts")
                self.pipeline.add_latency(record.append_ms, record.append_ms - event_ms)
                if len(value) <= MAX_ALERT_BYTES:
                    self._alerts.append((alert.subject, value))

    def _apply_attributions(self, records: Iterable[Received]) -> None:
        for row in self._decoded(records, _ATTRIBUTION):
            self.clickstream.add_attribution(row)
        self._changed("clickstream")

    def _apply_action_counts(self, records: Iterable[Received]) -> None:
        for row in self._decoded(records, _ACTION_COUNT):
            if row.action is None or row.action in ACTIONS:
                self.clickstream.add_action_count(row)
            else:
                self._count_unreadable()
        self._changed("clickstream")

    def _apply_sessions(self, records: Iterable[Received]) -> None:
        for row in self._decoded(records, _SESSION):
            if money_fault(row.amount_total) is None:
                self.clickstream.add_session(row)
            else:
                self._count_unreadable()
        self._changed("clickstream")

    def _apply_totals(self, records: Iterable[Received]) -> None:
        for row in self._decoded(records, _TOTAL):
            if money_fault(row.amount_total) is None:
                self.clickstream.add_total(row)
            else:
                self._count_unreadable()
        self._changed("clickstream")

    def _apply_signals(self, records: Iterable[Received]) -> None:
        for row in self._decoded(records, _SIGNAL):
            earlier = self._signals.get(row.device_type)
            if row.rack_id is None and (
                earlier is None or row.window_start >= earlier.window_start
            ):
                self._signals.set(row.device_type, row)
                self._changed("signals")

    def _apply_dead_letters(self, records: Iterable[Received]) -> None:
        for dead_letter in self._decoded(records, _DEAD_LETTER):
            if not self._dead_letter_ids.add(
                dead_letter.source_topic, dead_letter.partition, dead_letter.offset
            ):
                continue
            text = dead_letter.value
            base64 = dead_letter.value_base64 if text is None else None
            self.pipeline.add_dead_letter(dead_letter.reason)
            self._changed("pipeline")
            self._dead_letters.appendleft(
                ShownDeadLetter(
                    source_topic=dead_letter.source_topic[:MAX_ID_BYTES],
                    partition=dead_letter.partition,
                    offset=dead_letter.offset,
                    reason=dead_letter.reason,
                    error=dead_letter.error[:DEAD_LETTER_CHARACTERS],
                    value=None if text is None else text[:DEAD_LETTER_CHARACTERS],
                    value_base64=None if base64 is None else base64[:DEAD_LETTER_BASE64],
                    value_size=dead_letter.value_size,
                    value_cut=len(text or "") > DEAD_LETTER_CHARACTERS
                    or len(base64 or "") > DEAD_LETTER_BASE64,
                    seen_time=dead_letter.seen_time,
                )
            )

    # What goes out.

    def update_since(self, version: int, now_ms: int) -> Update:
        """Return what changed after a version; 0 asks for everything."""
        if version < self._evicted_removal:
            version = 0
        everything = version == 0
        update = Update(version=self.version, server_time_ms=now_ms, is_snapshot=everything)
        if everything or self._broker_version > version:
            update.broker = self._broker
        racks = [rack.view for rack in self._racks.values() if everything or rack.version > version]
        incidents = [
            incident
            for changed, incident in (
                *self._open_incidents.values(),
                *self._resolved_incidents.values(),
            )
            if everything or changed > version
        ]
        removed = [
            key
            for changed, key in self._removed
            if changed > version and not everything and not self.knows_incident(*key)
        ]
        if racks or everything:
            update.racks = racks
        if incidents or everything:
            update.incidents = incidents
        if removed:
            update.incidents_removed = removed
        for name, section in self._sections.items():
            if everything or section.version > version:
                setattr(update, name, self._view(name, now_ms))
        return update

    def _view(self, section: str, now_ms: int) -> object:
        match section:
            case "windows":
                return WindowsView(fleet=_decoded_windows(self._fleet))
            case "clickstream":
                return self.clickstream.view()
            case "signals":
                return list(self._signals.values())
            case "pipeline":
                return self.pipeline.view(now_ms)
            case "counts":
                return self._counts
            case "alerts":
                return dict(self._alert_counts)
            case "topics_missing":
                return self._missing
            case _:
                return LimitsView(
                    racks_left_out=len(self._racks_left_out),
                    incidents_left_out=len(self._incidents_left_out),
                    unreadable=self._unreadable,
                )

    def rack(self, rack_id: str) -> RackDetails | None:
        """Return what is known about a rack, or None where nothing is."""
        rack = self._racks.get(rack_id)
        if rack is None:
            return None
        alerts = [value for subject, value in self._alerts if subject == rack_id]
        return RackDetails(
            rack=rack.view,
            readings=rack.readings(),
            windows=_decoded_windows(self._rack_windows.get(rack_id, {})),
            alerts=[msgspec.Raw(value) for value in reversed(alerts[-ALERTS_PER_RACK:])],
        )

    def dead_letters(self) -> DeadLettersView:
        """Return the newest dead letters."""
        return DeadLettersView(
            dead_letters=list(self._dead_letters), count=self.pipeline.dead_letters
        )

    def knows_incident(self, rule: str, subject: str) -> bool:
        """Tell whether there is an incident of a rule and a subject, open or resolved."""
        key = (rule, subject)
        return key in self._open_incidents or key in self._resolved_incidents

    def knows_subject(self, subject: str) -> bool:
        """Tell whether a subject is a rack or a site."""
        return subject in self._racks or any(
            rack.view.site_id == subject for rack in self._racks.values()
        )

    @property
    def servers(self) -> str:
        """The broker's address."""
        return self._broker.servers

    @property
    def is_broker_reachable(self) -> bool:
        """Whether the broker answers."""
        return self._broker.reachable


def _time_ms(text: str) -> int | None:
    """Return epoch milliseconds, or None for a date that no calendar has."""
    try:
        return to_ms(text)
    except ValueError:
        return None


def _window_of(record: Received) -> tuple[str, str] | None:
    """Return a window's scope and start by its key, or None for what is no window."""
    parts = (record.key or b"").decode("utf-8", "replace").rsplit("|", 2)
    if len(parts) != 3 or len(record.value or b"") > MAX_WINDOW_BYTES:
        return None
    scope, start, _ = parts
    is_window = len(scope) <= MAX_ID_BYTES and _time_ms(start) is not None
    return (scope, start) if is_window else None


def _decoded_windows(windows: Mapping[str, bytes]) -> list[RackTemperature]:
    found = []
    for start in sorted(windows):
        # Each is decoded whenever it is shown: a broken one is not counted again and again.
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            found.append(_WINDOW.decode(windows[start]))
    return found


def _with_short_texts(incident: Incident) -> Incident:
    by = incident.acknowledged_by
    return msgspec.structs.replace(
        incident,
        summary=incident.summary[:MAX_TEXT],
        acknowledged_by=None if by is None else by[:MAX_TEXT],
    )


def _keep_newest(windows: dict[str, bytes], start: str, value: bytes, limit: int) -> None:
    """Set a window by its start; remove the oldest one when there are too many."""
    windows[start] = value
    if len(windows) > limit:
        del windows[min(windows)]


_READING = msgspec.json.Decoder(_Reading)
_WINDOW = msgspec.json.Decoder(RackTemperature)
_ALERT = msgspec.json.Decoder(Alert)
_ATTRIBUTION = msgspec.json.Decoder(AdAttribution)
_ACTION_COUNT = msgspec.json.Decoder(ActionCount)
_SESSION = msgspec.json.Decoder(UserSession)
_TOTAL = msgspec.json.Decoder(UserTotal)
_INCIDENT = msgspec.json.Decoder(Incident)
_DEAD_LETTER = msgspec.json.Decoder(DeadLetter)
_SIGNAL = msgspec.json.Decoder(SignalStatistics)
