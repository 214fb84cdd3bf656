"""The dashboard's state: what each browser is sent, and that memory stays bounded."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from dashboard import incidents as incidents_module
from dashboard import racks as racks_module
from dashboard.alerts import ALERTS_PER_RACK
from dashboard.incidents import MAX_TEXT
from dashboard.page_records import BrokerView, LimitsView, Update, WindowsView
from dashboard.racks import READINGS_PER_RACK
from dashboard.received import Received
from dashboard.state import State
from dashboard.windows import FLEET_WINDOWS, MAX_WINDOW_BYTES, WINDOWS_PER_RACK
from events.records import DeadLetter, Incident, RackTemperature, SignalStatistics, encode
from events.times import to_text
from events.topics import (
    ACTION_COUNTS,
    ALERTS,
    DEAD_LETTERS,
    INCIDENTS,
    RACK_READINGS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_SESSIONS,
    USER_TOTALS,
    Topic,
)
from tests.builders import START, T0, alert_value, incident, rack, reading
from tests.unit.test_dashboard_clickstream import action_count, session, total

RULE = "rack-overheating"
NESTED = b'{"x":%b' % (b"[" * 100_000)
"""The beginning of a value that is nested too deeply for a decoder."""


def new_state(*rack_ids: str) -> State:
    """Return a state whose inventory has some racks."""
    return State("broker:9092", [rack(rack_id) for rack_id in rack_ids], T0)


def received(record: msgspec.Struct, key: str | None = None, append_ms: int = T0) -> Received:
    """Return a record as a consumer gets it."""
    return Received(None if key is None else key.encode(), encode(record), append_ms)


def window(scope: str, number: int, reading_count: int = 1) -> Received:
    """Return the record of a scope's window; windows are numbered in their order."""
    start, end = to_text(T0 + 300_000 * number), to_text(T0 + 300_000 * (number + 2))
    record = RackTemperature(
        scope=scope,
        window_start=start,
        window_end=end,
        reading_count=reading_count,
        temperature_c_avg=70.0,
        temperature_c_min=60.0,
        temperature_c_max=80.0,
    )
    return received(record, f"{scope}|{start}|{end}")


def take_incidents(state: State, incidents: Iterable[Incident]) -> None:
    """Give the state some incidents, all in one batch."""
    records = [received(each, f"{each.rule}|{each.subject}") for each in incidents]
    state.apply(INCIDENTS.name, records)


def changed_racks(update: Update) -> dict[str, tuple[float | None, str, list[str]]]:
    """Return temperature, state and rules of each rack in an update."""
    return {
        each.rack_id: (each.temperature_c, each.state, each.rules) for each in update.racks or ()
    }


def snapshot_and_unreadable(state: State) -> tuple[bytes, int]:
    """Return a snapshot without its limits, and how many records it says were not readable."""
    snapshot = state.update_since(0, T0)
    limits, snapshot.limits = snapshot.limits, msgspec.UNSET
    assert isinstance(limits, LimitsView)
    return msgspec.json.encode(snapshot), limits.unreadable + limits.malformed_readings


def test_a_new_browser_gets_every_member() -> None:
    snapshot = new_state("rack-0001").update_since(0, T0)
    optional = {"incidents_removed"}
    missing = {
        name
        for name in Update.__struct_fields__
        if getattr(snapshot, name) is msgspec.UNSET and name not in optional
    }
    assert missing == set()
    assert changed_racks(snapshot) == {"rack-0001": (None, "NORMAL", [])}


def test_an_update_has_only_what_changed_since_the_browsers_version() -> None:
    state = new_state("rack-0001", "rack-0002")
    version = state.update_since(0, T0).version
    state.apply(RACK_READINGS.name, [received(reading(1, 75.5, "rack-0002"))])
    update = state.update_since(version, T0)
    assert changed_racks(update) == {"rack-0002": (75.5, "NORMAL", [])}
    assert (update.incidents, update.windows, update.broker) == (msgspec.UNSET,) * 3
    later = state.update_since(update.version, T0)
    assert (later.version, later.racks) == (update.version, msgspec.UNSET)


def test_a_slow_browser_gets_the_newest_values_only() -> None:
    state = new_state("rack-0001")
    version = state.update_since(0, T0).version
    for sequence in range(1, 50):
        state.apply(RACK_READINGS.name, [received(reading(sequence, 50.0 + sequence))])
    assert changed_racks(state.update_since(version, T0)) == {"rack-0001": (99.0, "NORMAL", [])}


def test_the_newest_reading_is_that_with_the_highest_sequence() -> None:
    state = new_state()
    in_topic_order = [
        reading(2, 72.0, at_s=1_000_000),  # a wrong clock
        reading(1, 71.0),
        reading(3, 73.0, at_s=3),
        reading(2, 72.0, at_s=1_000_000),
    ]
    state.apply(RACK_READINGS.name, list(map(received, in_topic_order)))
    details = state.rack("rack-0001")
    assert details is not None
    only = details.rack
    assert (only.temperature_c, only.event_time_ms) == (73.0, T0 + 3000)


def test_a_rack_whose_sequence_is_negative_is_shown() -> None:
    state = new_state("rack-0001")
    state.apply(RACK_READINGS.name, [received(reading(-7, 71.0)), received(reading(-9, 72.0))])
    assert changed_racks(state.update_since(0, T0)) == {"rack-0001": (71.0, "NORMAL", [])}


def test_a_rack_without_inventory_has_the_threshold_of_the_contract() -> None:
    state = new_state("rack-0001")
    records = [received(reading(1, 70.0, name)) for name in ("rack-0001", "rack-x")]
    state.apply(RACK_READINGS.name, records)
    thresholds = {each.rack_id: each.threshold_c for each in state.update_since(0, T0).racks or ()}
    assert thresholds == {"rack-0001": 90.0, "rack-x": 100.0}


def test_a_racks_state_is_that_of_its_open_incidents() -> None:
    state = new_state("rack-0001", "rack-0002")
    version = state.version
    take_incidents(state, [incident(), incident(rule="weak-signal")])
    both = changed_racks(state.update_since(version, T0))
    assert both == {"rack-0001": (None, "WARNING", [RULE, "weak-signal"])}
    version = state.version
    take_incidents(state, [incident(status="resolved")])
    assert changed_racks(state.update_since(version, T0))["rack-0001"][1:] == (
        "WARNING",
        ["weak-signal"],
    )
    take_incidents(state, [incident(rule="weak-signal", status="resolved")])
    assert changed_racks(state.update_since(version, T0))["rack-0001"][1:] == ("NORMAL", [])


def test_an_outage_of_a_site_is_no_warning_of_a_rack_with_the_same_id() -> None:
    state = new_state("hamburg")
    version = state.version
    take_incidents(state, [incident(rule="site-outage", subject="hamburg")])
    assert changed_racks(state.update_since(version, T0)) == {}


@pytest.mark.parametrize("status", ["firing", "acknowledged", "silenced"])
def test_an_incident_that_is_not_resolved_is_open(status: str) -> None:
    state = new_state("rack-0001")
    take_incidents(state, [incident(status=status)])
    assert changed_racks(state.update_since(0, T0))["rack-0001"][1] == "WARNING"


def test_a_rack_whose_incident_came_before_its_first_reading_is_in_warning() -> None:
    state = new_state()
    take_incidents(state, [incident("rack-new")])
    state.apply(RACK_READINGS.name, [received(reading(1, 95.0, "rack-new"))])
    assert changed_racks(state.update_since(0, T0)) == {"rack-new": (95.0, "WARNING", [RULE])}


def test_a_removed_incident_is_named_to_those_who_have_it() -> None:
    state = new_state("rack-0001")
    take_incidents(state, [incident(), incident("rack-0002")])
    version = state.version
    state.apply(INCIDENTS.name, [Received(f"{RULE}|rack-0001".encode(), None, T0)])
    update = state.update_since(version, T0)
    assert update.incidents_removed == [(RULE, "rack-0001")]
    assert changed_racks(update)["rack-0001"][1] == "NORMAL"
    snapshot = state.update_since(0, T0)
    assert [each.subject for each in snapshot.incidents or ()] == ["rack-0002"]
    assert snapshot.incidents_removed is msgspec.UNSET


def test_who_missed_a_forgotten_removal_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents_module, "MAX_REMOVED", 2)
    state = new_state("rack-0001")
    take_incidents(state, [incident(str(number)) for number in range(4)])
    version = state.version
    for number in range(3):
        state.apply(INCIDENTS.name, [Received(f"{RULE}|{number}".encode(), None, T0)])
    update = state.update_since(version, T0)
    assert update.is_snapshot
    assert [each.subject for each in update.incidents or ()] == ["3"]
    assert not state.update_since(version + 1, T0).is_snapshot


def test_too_many_incidents_crowd_out_the_one_that_changed_longest_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incidents_module, "MAX_INCIDENTS", 2)
    state = new_state("a")
    take_incidents(state, [incident("a"), incident("b"), incident("a")])
    version = state.version
    take_incidents(state, [incident("c")])
    update = state.update_since(version, T0)
    assert update.incidents_removed == [(RULE, "b")]
    assert [each.subject for each in update.incidents or ()] == ["c"]


def test_resolved_incidents_are_crowded_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents_module, "MAX_INCIDENTS", 2)
    state = new_state()
    take_incidents(state, [incident("a"), incident("b", "resolved"), incident("c")])
    assert [each.subject for each in state.update_since(0, T0).incidents or ()] == ["a", "c"]
    version = state.version
    take_incidents(state, [incident("d", "resolved")])
    update = state.update_since(version, T0)
    assert (update.incidents, update.incidents_removed) == (msgspec.UNSET, [(RULE, "d")])


def test_a_rack_whose_open_incident_is_crowded_out_stays_in_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incidents_module, "MAX_INCIDENTS", 1)
    state = new_state("a", "b")
    take_incidents(state, [incident("a"), incident("b"), incident("unknown")])
    snapshot = state.update_since(0, T0)
    assert [each.subject for each in snapshot.incidents or ()] == ["unknown"]
    in_warning = (None, "WARNING", [RULE])
    assert changed_racks(snapshot) == {"a": in_warning, "b": in_warning}
    assert isinstance(snapshot.limits, LimitsView)
    assert snapshot.limits.incidents_left_out == 2
    version = state.version
    take_incidents(state, [incident("a", "resolved")])
    state.apply(INCIDENTS.name, [Received(f"{RULE}|b".encode(), None, T0)])
    update = state.update_since(version, T0)
    assert {rack_id: each[1] for rack_id, each in changed_racks(update).items()} == {
        "a": "NORMAL",
        "b": "NORMAL",
    }
    limits = state.update_since(0, T0).limits
    assert isinstance(limits, LimitsView)
    assert limits.incidents_left_out == 1, "the resolved one of a"


def test_an_incident_that_comes_back_is_not_named_as_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incidents_module, "MAX_INCIDENTS", 1)
    state = new_state()
    take_incidents(state, [incident("a")])
    version = state.version
    take_incidents(state, [incident("b"), incident("a")])
    update = state.update_since(version, T0)
    assert [each.subject for each in update.incidents or ()] == ["a"]
    assert update.incidents_removed == [(RULE, "b")]


def signals(number: int, count: int, **group: str | None) -> Received:
    """Return the statistics of a group in a window; windows are numbered in their order."""
    record = SignalStatistics(
        window_start=to_text(T0 + 60_000 * number),
        window_end=to_text(T0 + 60_000 * (number + 1)),
        reading_count=count,
        signal_strength_min=0.1,
        signal_strength_max=0.9,
        signal_strength_avg=0.5,
        **{"device_type": None, "rack_id": None, **group},
    )
    return received(record, f"{number}|{group}")


def test_of_signal_statistics_the_newest_window_of_each_device_type_is_shown() -> None:
    state = new_state()
    records = [
        signals(1, 10, device_type="gpu"),
        signals(1, 12, device_type="gpu"),  # a later record of the window
        signals(0, 99, device_type="gpu"),  # a window before it
        signals(0, 7, device_type="switch"),
        signals(1, 3, rack_id="rack-0001"),
    ]
    state.apply(SIGNAL_STATISTICS.name, records)
    shown = state.update_since(0, T0).signals
    assert shown is not msgspec.UNSET
    assert {each.device_type: each.reading_count for each in shown} == {"gpu": 12, "switch": 7}
    version = state.version
    state.apply(SIGNAL_STATISTICS.name, [signals(0, 5, device_type="gpu")])
    assert state.update_since(version, T0).signals is msgspec.UNSET


def test_a_later_window_record_replaces_the_earlier_and_old_windows_go() -> None:
    state = new_state("rack-0001")
    windows = [window("fleet", number) for number in range(FLEET_WINDOWS + 5)]
    state.apply(RACK_TEMPERATURE.name, [*windows, window("fleet", FLEET_WINDOWS, 7)])
    state.publish_sections(T0)
    view = state.update_since(0, T0).windows
    assert isinstance(view, WindowsView)
    assert len(view.fleet) == FLEET_WINDOWS
    assert view.fleet[0].window_start == to_text(T0 + 300_000 * 5)
    assert [each.reading_count for each in view.fleet[-5:]] == [7, 1, 1, 1, 1]


def test_a_scope_may_contain_the_separator_of_keys() -> None:
    state = new_state("a|b")
    state.apply(RACK_TEMPERATURE.name, [window("a|b", 0)])
    details = state.rack("a|b")
    assert details is not None
    assert [each.scope for each in details.windows] == ["a|b"]


def test_a_racks_details_are_bounded_and_in_order() -> None:
    state = new_state("rack-0001")
    count = READINGS_PER_RACK + 50
    readings = [received(reading(n, 50 + n / 10), append_ms=T0 + 1000 * n) for n in range(count)]
    state.apply(RACK_READINGS.name, readings)
    state.apply(RACK_TEMPERATURE.name, [window("rack-0001", n) for n in range(50)])
    alerts = [Received(b"", alert_value(n, subject="rack-0001"), T0) for n in range(30)]
    state.apply(ALERTS.name, [*alerts, Received(b"", alert_value(99, subject="other"), T0)])
    details = state.rack("rack-0001")
    assert details is not None
    times = [time_ms for time_ms, _, _ in details.readings]
    assert times == [T0 + 1000 * n for n in range(count - READINGS_PER_RACK, count)]
    assert details.readings[-1][1:] == (50 + (count - 1) / 10, 0.9)
    assert len(details.windows) == WINDOWS_PER_RACK
    shown = [msgspec.json.decode(alert)["alert_id"] for alert in details.alerts]
    assert shown == [f"{n:032x}"[::-1] for n in reversed(range(30 - ALERTS_PER_RACK, 30))]
    assert state.rack("rack-unknown") is None


def test_a_reading_with_a_clock_that_is_ahead_is_shown_but_not_in_the_history() -> None:
    state = new_state("rack-0001")
    readings = [reading(1, at_s=0), reading(2, at_s=300), reading(3, 71.0, at_s=301)]
    state.apply(RACK_READINGS.name, list(map(received, readings)))
    details = state.rack("rack-0001")
    assert details is not None
    assert details.rack.temperature_c == 71.0
    assert [time_ms for time_ms, _, _ in details.readings] == [T0, T0 + 300_000]


def test_more_racks_than_fit_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racks_module, "MAX_RACKS", 3)
    state = new_state("rack-0001")
    records = [received(reading(n, 70.0, f"new-{n % 4}")) for n in range(8)]
    state.apply(RACK_READINGS.name, records)
    state.publish_sections(T0)
    snapshot = state.update_since(0, T0)
    assert list(changed_racks(snapshot)) == ["rack-0001", "new-0", "new-1"]
    assert isinstance(snapshot.limits, LimitsView)
    assert snapshot.limits.racks_left_out == 2


def test_racks_of_the_inventory_that_do_not_fit_are_counted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(racks_module, "MAX_RACKS", 3)
    snapshot = new_state(*(f"rack-{number}" for number in range(5))).update_since(0, T0)
    assert len(changed_racks(snapshot)) == 3
    assert isinstance(snapshot.limits, LimitsView)
    assert snapshot.limits.racks_left_out == 2


def test_an_alert_that_comes_again_counts_once() -> None:
    state = new_state()
    values = [alert_value(1), alert_value(2), alert_value(1), alert_value(3, rule="weak-signal")]
    state.apply(ALERTS.name, [Received(b"", value, T0) for value in values])
    state.publish_sections(T0)
    assert state.update_since(0, T0).alerts == {RULE: 2, "weak-signal": 1}


def test_a_dead_letter_counts_once_and_its_value_is_cut() -> None:
    state = new_state()
    dead_letters = [
        DeadLetter(
            source_topic="rack-readings",
            partition=0,
            offset=offset,
            reason="unreadable",
            value="x" * size,
            value_base64=None,
            value_size=size,
            error="not JSON",
            seen_time=START,
        )
        for offset, size in ((1, 10), (2, 60_000), (1, 10))
    ]
    state.apply(DEAD_LETTERS.name, list(map(received, dead_letters)))
    view = state.dead_letters()
    assert view.count == 2
    assert [(each.offset, len(each.value or ""), each.value_cut) for each in view.dead_letters] == [
        (2, 4096, True),
        (1, 10, False),
    ]


@pytest.mark.parametrize(("size", "shown", "is_cut"), [(100, 100, False), (60_000, 768, True)])
def test_of_a_dead_letter_that_is_no_text_the_first_bytes_are_shown(
    size: int, shown: int, is_cut: bool
) -> None:
    state, value = new_state(), (b"\xff\xfe" * size)[:size]
    dead_letter = DeadLetter(
        source_topic="rack-readings",
        partition=0,
        offset=1,
        reason="unreadable",
        value=None,
        value_base64=b64encode(value).decode(),
        value_size=size,
        error="not UTF-8",
        seen_time=START,
    )
    state.apply(DEAD_LETTERS.name, [received(dead_letter)])
    (only,) = state.dead_letters().dead_letters
    assert (only.value, b64decode(only.value_base64 or ""), only.value_cut) == (
        None,
        value[:shown],
        is_cut,
    )


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"rack_id":1}', b"null", b'{"scope":"fleet"}', NESTED],
    ids=lambda value: repr(value[:20]),
)
@pytest.mark.parametrize("topic", sorted(new_state().topics))
def test_a_record_that_nobody_can_read_changes_nothing(topic: str, value: bytes) -> None:
    state = new_state("rack-0001")
    before = snapshot_and_unreadable(state)[0]
    state.apply(topic, [Received(b"key", value, T0), Received(None, value, T0)])
    state.version -= 1
    assert snapshot_and_unreadable(state) == (before, 2)


@pytest.mark.parametrize("value", [b'{"scope":', NESTED[:MAX_WINDOW_BYTES]], ids=["cut", "nested"])
def test_a_window_that_nobody_can_read_replaces_none_and_is_counted(value: bytes) -> None:
    state = new_state("rack-0001")
    for scope in ("fleet", "rack-0001"):
        state.apply(RACK_TEMPERATURE.name, [window(scope, 0)])
        state.apply(RACK_TEMPERATURE.name, [window(scope, 0)._replace(value=value)])
    view, details = state.update_since(0, T0).windows, state.rack("rack-0001")
    assert isinstance(view, WindowsView) and details is not None
    for windows in (view.fleet, details.windows):
        assert [each.window_start for each in windows] == [to_text(T0)]
    assert snapshot_and_unreadable(state)[1] == 2


def test_a_window_with_a_deeply_nested_field_is_shown_wherever_it_is_asked_for() -> None:
    def windows_at(depth: int) -> object:
        return windows_at(depth - 1) if depth else state.update_since(0, T0).windows

    state = new_state()
    good = window("fleet", 0)
    assert good.value is not None
    nested = good.value.removesuffix(b"}") + b',"x":%b%b}' % (b"[" * 500, b"]" * 500)
    state.apply(RACK_TEMPERATURE.name, [good._replace(value=nested)])
    view = windows_at(600)
    assert isinstance(view, WindowsView) and len(view.fleet) == 1


def test_browsers_learn_of_a_record_that_was_not_readable() -> None:
    state = new_state()
    state.publish_sections(T0)
    version = state.version
    state.apply(ALERTS.name, [Received(None, b"{", T0)])
    state.publish_sections(T0 + 1000)
    assert state.update_since(version, T0).limits == LimitsView(
        racks_left_out=0, incidents_left_out=0, unreadable=1, malformed_readings=0
    )


def test_a_malformed_reading_is_not_counted_as_an_unreadable_output() -> None:
    state = new_state()
    state.apply(RACK_READINGS.name, [Received(None, b"{", T0)])
    assert state.update_since(0, T0).limits == LimitsView(
        racks_left_out=0, incidents_left_out=0, unreadable=0, malformed_readings=1
    )


@pytest.mark.parametrize(
    ("topic", "record"),
    [
        (RACK_READINGS, reading(event_time="2026-02-31T00:00:00.000Z")),
        (RACK_READINGS, reading(rack="x" * 257)),
        (RACK_READINGS, reading(rack="é" * 129)),
        (RACK_READINGS, reading(device_type="x" * 257)),
        (USER_TOTALS, total("ada", "NaN")),
        (USER_TOTALS, total("ada", "1e9999")),
        (USER_SESSIONS, msgspec.structs.replace(session("ada"), amount_total=Decimal("-1"))),
        (ACTION_COUNTS, action_count(0, "x" * 1000, 1)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_record_with_an_impossible_value_is_left_out(topic: Topic, record: Any) -> None:
    state = new_state("rack-0001")
    before = snapshot_and_unreadable(state)[0]
    value = msgspec.json.encode(record)
    state.apply(topic.name, [Received(b"key", value, T0)])
    state.version -= 1
    assert snapshot_and_unreadable(state) == (before, 1)


def test_an_alert_at_an_impossible_time_is_left_out() -> None:
    state = new_state()
    wrong = alert_value(1, event_time="2026-13-01T00:00:00.000Z")
    state.apply(ALERTS.name, [Received(b"", wrong, T0)])
    assert state.update_since(0, T0).alerts == {}
    assert snapshot_and_unreadable(state)[1] == 1


@pytest.mark.parametrize("start", ["zzz", "9999-99-99T00:00:00.000Z", ""])
def test_a_window_without_a_start_pushes_no_other_out(start: str) -> None:
    state = new_state()
    good = window("fleet", 0)
    wrong = [good._replace(key=f"fleet|{start}|{n}".encode()) for n in range(2 * FLEET_WINDOWS)]
    state.apply(RACK_TEMPERATURE.name, [good, *wrong])
    view = state.update_since(0, T0).windows
    assert isinstance(view, WindowsView)
    assert [each.window_start for each in view.fleet] == [to_text(T0)]


def test_long_texts_are_cut_and_large_alerts_are_only_counted() -> None:
    state = new_state("rack-0001")
    take_incidents(state, [incident(summary="x" * 50_000, acknowledged_by="y" * 50_000)])
    (kept,) = msgspec.to_builtins(state.update_since(0, T0))["incidents"]
    assert (len(kept["summary"]), len(kept["acknowledged_by"])) == (MAX_TEXT, MAX_TEXT)
    large = alert_value(1, subject="rack-0001", summary="x" * 20_000)
    state.apply(ALERTS.name, [Received(b"", large, T0)])
    details = state.rack("rack-0001")
    assert details is not None
    assert (details.alerts, state.update_since(0, T0).alerts) == ([], {RULE: 1})


def test_a_section_changes_at_most_once_per_second() -> None:
    state = new_state()
    state.apply(RACK_TEMPERATURE.name, [window("fleet", 0)])
    state.publish_sections(T0)
    version = state.version
    state.apply(RACK_TEMPERATURE.name, [window("fleet", 1)])
    state.publish_sections(T0 + 999)
    assert state.update_since(version, T0).windows is msgspec.UNSET
    state.publish_sections(T0 + 1000)
    assert state.update_since(version, T0).windows is not msgspec.UNSET


def test_the_broker_is_down_since_the_first_failure() -> None:
    state = new_state()
    state.set_broker(reachable=True, now_ms=T0 + 1)
    version = state.version
    state.set_broker(reachable=False, now_ms=T0 + 2)
    state.set_broker(reachable=False, now_ms=T0 + 3)
    broker = state.update_since(version, T0).broker
    assert isinstance(broker, BrokerView)
    assert (broker.reachable, broker.since_ms) == (False, T0 + 2)


def test_missing_topics_are_named() -> None:
    state = new_state()
    state.set_topics({"alerts": 3}, ["incidents"], T0)
    state.publish_sections(T0)
    snapshot = state.update_since(0, T0)
    assert (snapshot.topics_missing, snapshot.counts) == (["incidents"], {"alerts": 3})
