"""Which record decided an output, and when a closed window was due."""

import pytest

from events.records import AdClick, AdImpression, RackReading, UserAction
from loadtest.measure.closing import Closing, interval_ms, windows_of
from loadtest.measure.deciding import Deciders, Windows, deciders
from loadtest.plan import Settings

T0 = "2026-11-21T06:26:00.000Z"
T0_MS = 1_795_242_360_000
HOUR = 3_600_000


def reading(rack: str, time: str) -> RackReading:
    return RackReading(
        event_id=f"{rack}-{time}", event_time=time, rack_id=rack, sequence=1, site_id="s", device_type="d",
        temperature_c=20.0, signal_strength=1.0,
    )  # fmt: skip


def test_an_alerts_record_is_its_racks_reading_of_that_time_when_it_first_came() -> None:
    (key,) = deciders("alerts", {"subject": "rack-1", "event_time": T0})
    found = Deciders({key}, Windows(HOUR, HOUR))
    found.take("rack-readings", reading("rack-2", T0), 1, 11)
    found.take("rack-readings", reading("rack-1", T0), 2, 12)
    found.take("rack-readings", reading("rack-1", T0), 3, 13)
    assert found.found == {key: (2, 12)}


def test_a_windows_row_is_decided_by_the_last_of_the_records_that_it_counts() -> None:
    row = {"scope": "rack-1", "window_start": "2026-11-21T06:20:00.000Z", "reading_count": 2}
    (key,) = deciders("rack-temperature", row)
    found = Deciders({key}, Windows(600_000, 300_000))
    for append_ms, (rack, time) in enumerate(
        [
            ("rack-1", "2026-11-21T06:19:59.999Z"),  # the window before, and the one that ends at 06:25
            ("rack-1", "2026-11-21T06:29:59.999Z"),
            ("rack-2", "2026-11-21T06:26:00.000Z"),
            ("rack-1", "2026-11-21T06:20:00.000Z"),
            ("rack-1", "2026-11-21T06:27:00.000Z"),
        ],
        start=T0_MS,
    ):
        found.take("rack-readings", reading(rack, time), append_ms, append_ms)
    assert found.found == {key: (T0_MS + 3, T0_MS + 3)}


def test_a_reading_from_the_future_is_in_no_window() -> None:
    windows = Windows(600_000, 600_000)
    assert windows.nth("rack-1", "2026-11-21T06:31:00.001Z", T0_MS) == []
    assert windows.nth("rack-1", "2026-11-21T06:31:00.000Z", T0_MS) == [
        ("nth", "rack-1", "2026-11-21T06:30:00.000Z", 1)
    ]


def test_the_fleets_window_and_an_impression_alone_cannot_be_told() -> None:
    assert deciders("rack-temperature", {"scope": "fleet", "window_start": T0, "reading_count": 2}) == ()
    assert deciders("ad-attribution", {"impression_id": "i", "click_id": None}) == ()
    assert deciders("dead-letters", {"source_topic": "rack-readings"}) == ()


def test_a_joined_row_needs_click_and_impression() -> None:
    keys = deciders("ad-attribution", {"impression_id": "i", "click_id": "c"})
    found = Deciders(set(keys), Windows(HOUR, HOUR))
    shown = AdImpression(event_id="1", event_time=T0, impression_id="i", ad_id="a", user_id="u", page="p")
    clicked = AdClick(event_id="2", event_time=T0, click_id="c", impression_id="i", ad_id="a", user_id="u")
    found.take("ad-impressions", shown, 5, 6)
    found.take("ad-clicks", clicked, 7, 8)
    assert [found.found[key] for key in keys] == [(7, 8), (5, 6)]


def test_a_users_total_is_decided_by_the_users_action_of_that_time() -> None:
    (key,) = deciders("user-totals", {"user_id": "u", "event_time": T0})
    found = Deciders({key}, Windows(HOUR, HOUR))
    action = UserAction(event_id="1", event_time=T0, user_id="u", action="view", page="p", device="d")
    found.take("user-actions", action, 3, 4)
    assert found.found == {key: (3, 4)}


def test_a_closed_window_is_due_at_its_end_and_the_watermarks_delay() -> None:
    append = Settings(jobs=("rack_temperature",), options=("--output-mode=append", "--watermark=5 seconds"))
    assert Closing(append).due_ms("rack-temperature", {"window_end": T0}) == T0_MS + 5000
    assert Closing(append).due_ms("alerts", {"event_time": T0}) is None
    usual = Settings(jobs=("rack_temperature",))
    assert Closing(usual).due_ms("rack-temperature", {"window_end": T0}) is None
    assert Closing(usual).due_ms("user-sessions", {"session_end": T0}) == T0_MS + 600_000


def test_where_event_time_is_not_the_clocks_nothing_is_due() -> None:
    for faster in ({"time_scale": 60.0}, {"flush": True}):
        sessions = Closing(Settings(jobs=("user_sessions",), trigger="micro-batch", **faster))
        assert sessions.closes("user-sessions")
        assert sessions.due_ms("user-sessions", {"session_end": T0}) is None
    assert not sessions.closes("rack-temperature")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("10 minutes", 600_000), ("1 second", 1000), ("3 hours", 3 * HOUR), ("2 days", 48 * HOUR)],
)
def test_intervals_are_sparks(text: str, ms: int) -> None:
    assert interval_ms(text) == ms


def test_an_interval_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="ten minutes"):
        interval_ms("ten minutes")


def test_windows_are_the_jobs_own_unless_the_plan_says_otherwise() -> None:
    assert windows_of(Settings(jobs=("rack_temperature",))) == (600_000, 300_000)
    told = Settings(jobs=("rack_temperature",), options=("--window=10 seconds", "--slide=5 seconds"))
    assert windows_of(told) == (10_000, 5_000)
