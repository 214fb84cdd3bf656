"""The state of `lost_signal`: which readings count in which window, and when a window closes."""

from pyspark.sql import Row

from spark_jobs.rules.lost_signal import LostSignalState

WINDOW_MS = 5_000
WATERMARK_DELAY_MS = 30_000
START_MS = 100_000


def new_state() -> LostSignalState:
    """Return the state of a rack that sends enough readings, after its first window."""
    return LostSignalState(
        expected_readings=2,
        window_ms=WINDOW_MS,
        watermark_delay_ms=WATERMARK_DELAY_MS,
        is_first_window_over=True,
    )


def add(state: LostSignalState, event_id: str, event_ms: int) -> None:
    """Give the state the next reading of its rack."""
    row = Row(event_id=event_id, event_time=event_ms * 1000, site_id="site-1", device_type="gpu")
    assert list(state.on_row("rack-1", row)) == []


def test_a_late_reading_counts_up_to_the_watermark_and_not_beyond() -> None:
    state = new_state()
    add(state, "newest", START_MS)
    add(state, "late", START_MS - WATERMARK_DELAY_MS)
    add(state, "too late", START_MS - WATERMARK_DELAY_MS - 1)
    assert state.open_windows == {
        START_MS: ["newest"],
        START_MS - WATERMARK_DELAY_MS: ["late"],
    }


def test_a_window_closes_at_its_end_and_not_before() -> None:
    state = new_state()
    add(state, "alone", START_MS)
    assert state.next_timer_ms() == START_MS + WINDOW_MS
    assert list(state.on_timer("rack-1", START_MS + WINDOW_MS - 1)) == []
    assert state.open_windows == {START_MS: ["alone"]}
    (decision,) = state.on_timer("rack-1", START_MS + WINDOW_MS)
    assert decision.event_time == (START_MS + WINDOW_MS) * 1000
    assert decision.summary == (
        "Rack rack-1 (gpu): only 1 of at least 2 readings came "
        "from 1970-01-01T00:01:40.000Z to 1970-01-01T00:01:45.000Z."
    )
    assert state.open_windows == {}


def test_a_window_with_enough_readings_ends_the_warning() -> None:
    state = new_state()
    state.warning = True
    add(state, "first", START_MS)
    add(state, "second", START_MS + 1)
    (decision,) = state.on_timer("rack-1", START_MS + WINDOW_MS)
    assert (decision.severity, decision.summary) == (
        None,
        "Rack rack-1 (gpu): enough readings came again "
        "from 1970-01-01T00:01:40.000Z to 1970-01-01T00:01:45.000Z.",
    )
