"""The records that trigger an output, and the deadlines of outputs that time triggers."""

from loadtest.measure.latency_attribution import TriggerRecords, WindowCounter, trigger_keys
from loadtest.measure.window_deadlines import WindowDeadlines, windows_of
from loadtest.plan import PointSettings
from tests.builders import action, click, impression, reading

T0 = "2026-11-21T06:26:00.000Z"
T0_MS = 1_795_242_360_000
HOUR = 3_600_000


def test_an_alert_is_triggered_by_the_first_copy_of_its_reading() -> None:
    (key,) = trigger_keys("alerts", {"subject": "rack-1", "event_time": T0})
    found = TriggerRecords({key}, WindowCounter(HOUR, HOUR))
    found.add("rack-readings", reading(rack="rack-2", event_time=T0), 1, 11)
    found.add("rack-readings", reading(rack="rack-1", event_time=T0), 2, 12)
    found.add("rack-readings", reading(rack="rack-1", event_time=T0), 3, 13)
    assert found.times == {key: (2, 12)}


def test_a_window_row_is_triggered_by_the_last_record_that_it_counts() -> None:
    row = {"scope": "rack-1", "window_start": "2026-11-21T06:20:00.000Z", "reading_count": 2}
    (key,) = trigger_keys("rack-temperature", row)
    found = TriggerRecords({key}, WindowCounter(600_000, 300_000))
    for append_ms, (rack, time) in enumerate(
        [
            ("rack-1", "2026-11-21T06:19:59.999Z"),  # only in the two windows before
            ("rack-1", "2026-11-21T06:29:59.999Z"),
            ("rack-2", "2026-11-21T06:26:00.000Z"),
            ("rack-1", "2026-11-21T06:20:00.000Z"),
            ("rack-1", "2026-11-21T06:27:00.000Z"),
        ],
        start=T0_MS,
    ):
        found.add("rack-readings", reading(rack=rack, event_time=time), append_ms, append_ms)
    assert found.times == {key: (T0_MS + 3, T0_MS + 3)}


def test_a_reading_from_the_future_is_in_no_window() -> None:
    windows = WindowCounter(600_000, 600_000)
    assert windows.keys_of("rack-1", "2026-11-21T06:31:00.001Z", T0_MS) == []
    assert windows.keys_of("rack-1", "2026-11-21T06:31:00.000Z", T0_MS) == [
        ("nth", "rack-1", "2026-11-21T06:30:00.000Z", 1)
    ]


def test_the_fleets_windows_unclicked_impressions_and_dead_letters_have_no_known_trigger() -> None:
    assert (
        trigger_keys("rack-temperature", {"scope": "fleet", "window_start": T0, "reading_count": 2})
        == ()
    )
    assert trigger_keys("ad-attribution", {"impression_id": "i", "click_id": None}) == ()
    assert trigger_keys("dead-letters", {"source_topic": "rack-readings"}) == ()


def test_a_joined_row_is_triggered_by_click_and_impression() -> None:
    keys = trigger_keys("ad-attribution", {"impression_id": "i", "click_id": "c"})
    found = TriggerRecords(set(keys), WindowCounter(HOUR, HOUR))
    shown = impression("i", event_time=T0)
    clicked = click("c", "i", event_time=T0)
    found.add("ad-impressions", shown, 5, 6)
    found.add("ad-clicks", clicked, 7, 8)
    assert [found.times[key] for key in keys] == [(7, 8), (5, 6)]


def test_a_users_total_is_triggered_by_the_users_action_of_that_time() -> None:
    (key,) = trigger_keys("user-totals", {"user_id": "u", "event_time": T0})
    found = TriggerRecords({key}, WindowCounter(HOUR, HOUR))
    found.add("user-actions", action(user_id="u", event_time=T0), 3, 4)
    assert found.times == {key: (3, 4)}


def test_a_closed_window_is_due_at_its_end_plus_the_watermark() -> None:
    append = PointSettings(
        jobs=("rack_temperature",), options=("--output-mode=append", "--watermark=5 seconds")
    )
    assert (
        WindowDeadlines(append).deadline_ms("rack-temperature", {"window_end": T0}) == T0_MS + 5000
    )
    default = PointSettings(jobs=("rack_temperature",))
    assert WindowDeadlines(default).deadline_ms("rack-temperature", {"window_end": T0}) is None
    assert (
        WindowDeadlines(default).deadline_ms("user-sessions", {"session_end": T0})
        == T0_MS + 600_000
    )


def test_a_silence_is_due_at_its_event_time_and_other_alerts_have_no_deadline() -> None:
    deadlines = WindowDeadlines(PointSettings(jobs=("silent_sensor",), trigger="micro-batch"))
    silence = {"rule": "silent-sensor", "state": "WARNING", "event_time": T0}
    due = [
        deadlines.deadline_ms("alerts", silence | other)
        for other in ({}, {"state": "NORMAL"}, {"rule": "rack-overheating"})
    ]
    assert due == [T0_MS, None, None]


def test_with_a_time_scale_or_a_flush_there_are_no_deadlines() -> None:
    for faster in ({"time_scale": 60.0}, {"flush": True}):
        sessions = WindowDeadlines(
            PointSettings(jobs=("user_sessions",), trigger="micro-batch", **faster)
        )
        assert sessions.emits_on_close("user-sessions", {})
        assert sessions.deadline_ms("user-sessions", {"session_end": T0}) is None
    assert not sessions.emits_on_close("rack-temperature", {})


def test_windows_have_the_jobs_defaults_unless_the_plan_changes_them() -> None:
    assert windows_of(PointSettings(jobs=("rack_temperature",))) == (600_000, 300_000)
    own = PointSettings(
        jobs=("rack_temperature",), options=("--window=10 seconds", "--slide=5 seconds")
    )
    assert windows_of(own) == (10_000, 5_000)
