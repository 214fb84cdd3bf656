"""Impressions and clicks are functions of seed and number, and cover the bounds of the join."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from events.records import AdClick, AdImpression, encode
from events.times import to_ms, to_text
from producer.streams.clicks import Clicks, ImpressionPlan, time_to_click_ms
from producer.streams.stream_plan import FaultFlag
from tests.builders import T0
from tests.unit.clickstream import (
    HOUR,
    MINUTE,
    click_plans,
    decoded,
    numbers,
    plan_of,
    sent_by,
    streams_of,
)

COUNT = 220_000
HALF_A_DAY = 4.0
"""The time scale at which a run of COUNT events lasts half a day."""


def same(one: Clicks, other: Clicks) -> bool:
    fields = [field.name for field in dataclasses.fields(Clicks)]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


def waits_ms(*faults: str, count: int = COUNT) -> tuple[Clicks, list[int]]:
    """Return all clicks of a run, and the time from impression to click."""
    shown, clicked = click_plans(
        streams_of(["clicks"], *faults, count=count, time_scale=HALF_A_DAY)
    )
    assert clicked.schedule.count is not None
    clicks = clicked.clicks(numbers(0, clicked.schedule.count))
    return clicks, (clicks.event_ms - shown.event_ms(clicks.impressions)).tolist()


def test_any_slice_of_the_clicks_can_be_drawn_without_the_ones_before() -> None:
    faults = ["late=0.05", "too-late=0.02", "orphan=0.05", "out-of-order=0.05", "future=0.02"]
    _, clicked = click_plans(streams_of(["clicks"], *faults, time_scale=50))
    whole = clicked.clicks(numbers(0, 1800))
    for start, stop in ((0, 1), (1, 2), (17, 18), (399, 801), (1799, 1800)):
        part = Clicks(*(getattr(whole, f.name)[start:stop] for f in dataclasses.fields(Clicks)))
        assert same(clicked.clicks(numbers(start, stop)), part)
    backwards = clicked.clicks(numbers(0, 1800)[::-1])
    assert np.array_equal(backwards.event_ms[::-1], whole.event_ms)


def test_the_seed_determines_the_clicks() -> None:
    one, again, other = (
        [row.value for row in sent_by(streams_of(["clicks"], "late=0.1", seed=seed))]
        for seed in (1, 1, 2)
    )
    assert one == again != other


@pytest.mark.parametrize("rate", [None, 300.0])
def test_records_do_not_depend_on_the_size_of_chunks(
    monkeypatch: pytest.MonkeyPatch, rate: float | None
) -> None:
    faults = ["late=0.05", "duplicate=0.05", "out-of-order=0.05", "malformed=0.01", "orphan=0.05"]

    def by_topic() -> dict[str, list[object]]:
        found: dict[str, list[object]] = {}
        for row in sent_by(
            streams_of(["racks", "clicks", "actions"], *faults, rate=rate, count=3000)
        ):
            found.setdefault(row.topic, []).append(row)
        return found

    whole = by_topic()
    assert set(whole) == {"rack-readings", "ad-impressions", "ad-clicks", "user-actions"}
    monkeypatch.setattr("producer.streams.stream_plan.MAX_CHUNK_EVENTS", 29)
    assert by_topic() == whole


@pytest.mark.parametrize("rate", [None, 777.0])
@pytest.mark.parametrize("kind", [AdImpression, AdClick])
def test_the_column_encoder_gives_the_bytes_of_the_record_encoder(
    kind: type[AdImpression | AdClick], rate: float | None
) -> None:
    streams = streams_of(["clicks"], "orphan=0.1", "too-late=0.1", rate=rate)
    plan = click_plans(streams)[0 if kind is AdImpression else 1]
    some = numbers(300, 1500)
    due = plan.schedule.scheduled_ms(some) if plan.schedule.paced else None
    keys, values = plan.encoded(some, due)
    records: Sequence[Any] = plan.records(some)
    if due is not None:
        for record, scheduled_ms in zip(records, due.tolist(), strict=True):
            record.scheduled_time = to_text(scheduled_ms)
    assert values == [encode(record) for record in records]
    assert [decoded(value, kind) for value in values] == records
    assert keys == [record.impression_id.encode() for record in records]


def test_a_click_has_the_ad_and_the_user_of_its_impression() -> None:
    shown, clicked = click_plans(streams_of(["clicks"], time_scale=50))
    by_id = {
        impression.impression_id: impression for impression in shown.records(numbers(0, 18_181))
    }
    clicks = clicked.records(numbers(0, 1818))
    assert len({click.click_id for click in clicks}) == 1818
    for click in clicks:
        impression = by_id[click.impression_id]
        assert (click.ad_id, click.user_id) == (impression.ad_id, impression.user_id)


def test_one_in_ten_impressions_is_clicked_and_some_of_them_several_times() -> None:
    clicks, _ = waits_ms()
    on = Counter(clicks.impressions.tolist())
    assert len(clicks.numbers) == COUNT // 11
    assert len(on) / (COUNT * 10 / 11) == pytest.approx(0.09, abs=0.01)
    assert {2, 3} <= set(on.values())
    assert sum(count > 1 for count in on.values()) > 0.05 * len(on)


def test_the_time_to_click_has_a_tail_beyond_the_hour() -> None:
    _, waits = waits_ms()
    positive = [wait for wait in waits if wait >= 0]
    assert np.median(positive) == pytest.approx(47_000, rel=0.1)
    assert 0.004 < sum(wait > HOUR for wait in positive) / len(positive) < 0.01
    assert max(positive) <= 3 * HOUR + MINUTE
    assert time_to_click_ms(np.array([0.0, 1 - 2**-53])).tolist() == [0.0, 3.0 * HOUR]


def test_some_clicks_lie_on_both_sides_of_both_bounds() -> None:
    _, waits = waits_ms()
    at = Counter(waits)
    for bound in (HOUR, HOUR + 1, 0, -1):
        assert at[bound] >= 15, bound
    assert sum(wait < 0 for wait in waits) == at[-1]


def test_no_click_is_ahead_of_its_schedule_or_before_the_first_impression() -> None:
    streams = streams_of(["clicks"], time_scale=HALF_A_DAY, count=COUNT)
    shown, clicked = click_plans(streams)
    some = numbers(0, COUNT // 11)
    clicks = clicked.clicks(some)
    assert (clicks.event_ms <= clicked.schedule.event_ms(some)).all()
    assert clicks.impressions.min() >= 0
    assert clicks.impressions.max() < (shown.schedule.count or 0)


def test_orphans_click_on_impressions_that_do_not_exist() -> None:
    shown, clicked = click_plans(streams_of(["clicks"], "orphan=0.01", count=110_000))
    ids = {impression.impression_id for impression in shown.records(numbers(0, 100_000))}
    flags = clicked.flags(numbers(0, 10_000))
    orphans = [click.impression_id not in ids for click in clicked.records(numbers(0, 10_000))]
    assert sum(orphans) == 100
    assert orphans == ((flags & FaultFlag.ORPHAN) > 0).tolist()


def test_impressions_out_of_order_are_sent_after_their_click() -> None:
    streams = streams_of(["clicks"], "out-of-order=0.05", rate=1000.0)
    shown, clicked = click_plans(streams)
    scheduled_s = {}
    for batches in streams.rounds():
        for batch in batches:
            for number, flags, due in zip(
                batch.numbers.tolist(), batch.flags.tolist(), batch.scheduled_s, strict=True
            ):
                scheduled_s[batch.topic.name, number] = (float(due), flags)
    moved = [
        number
        for (topic, number), (_, flags) in scheduled_s.items()
        if topic == "ad-impressions" and flags
    ]
    clicks = clicked.clicks(numbers(0, clicked.schedule.count or 0))
    assert len(moved) in (90, 91), "of 1,818 clicks"
    # The click of the last one lies beyond the end of the run.
    for number in sorted(moved)[:90]:
        click = clicks.impressions.tolist().index(number)
        assert scheduled_s["ad-clicks", click][0] < scheduled_s["ad-impressions", number][0]
        wait_ms = clicks.event_ms[click] - shown.event_ms(np.array([number]))[0]
        assert 0 <= wait_ms < HOUR, "they still join"


def test_clicks_follow_the_clock_of_too_late_impressions() -> None:
    streams = streams_of(
        ["clicks"], "too-late=0.05,min_s=900,max_s=3600", count=COUNT, time_scale=HALF_A_DAY
    )
    shown, clicked = click_plans(streams)
    some = numbers(0, 10_000)
    late = (shown.flags(some) & FaultFlag.TOO_LATE) > 0
    behind = shown.schedule.event_ms(some) - shown.event_ms(some)
    assert late.sum() == 500
    assert not behind[~late].any()
    assert behind[late].min() >= 2 * HOUR + 5 * MINUTE
    assert behind[late].max() <= 2 * HOUR + 50 * MINUTE
    clicks = clicked.clicks(some)
    beyond = (clicked.flags(some) & FaultFlag.TOO_LATE) > 0
    on_late = ((shown.flags(clicks.impressions) & FaultFlag.TOO_LATE) > 0) & ~beyond
    waits = clicks.event_ms - shown.event_ms(clicks.impressions)
    assert on_late.sum() > 300
    assert np.mean((waits >= 0) & (waits <= HOUR), where=on_late) > 0.97
    lags = clicked.schedule.event_ms(some) - clicks.event_ms
    assert lags[beyond].min() >= 3 * HOUR + 5 * MINUTE
    after = beyond & (some * clicked.schedule.event_step_ms > 5 * HOUR)
    assert np.mean((waits >= 0) & (waits <= HOUR), where=after) > 0.9


def test_events_from_the_future_are_ahead_of_the_wall_clock() -> None:
    streams = streams_of(["clicks"], "future=0.01", time_scale=50)
    for plan in click_plans(streams):
        some = numbers(0, 1800)
        future = (plan.flags(some) & FaultFlag.FUTURE) > 0
        assert future.sum() == 18
        assert plan.event_ms(some)[future].min() >= T0 + HOUR
        assert plan.event_ms(some)[~future].max() <= T0


def test_flush_records_join_nothing() -> None:
    shown, clicked = (plan.flush_record(T0) for plan in click_plans(streams_of(["clicks"])))
    assert {to_ms(record.event_time) for _, record in (shown, clicked)} == {T0}
    assert isinstance(shown[1], AdImpression)
    assert isinstance(clicked[1], AdClick)
    assert shown[1].impression_id != clicked[1].impression_id
    for key, record in (shown, clicked):
        assert key == record.impression_id
        assert decoded(encode(record), type(record)) == record


def test_impressions_have_many_users_and_prefer_some_ads() -> None:
    plan = plan_of(ImpressionPlan, streams_of(["clicks"]))
    impressions = plan.records(numbers(0, 10_000))
    ads = Counter(impression.ad_id for impression in impressions)
    assert len(ads) == len(plan.entities.ads) == 100
    assert max(ads.values()) > 10 * min(ads.values())
    assert len({impression.user_id for impression in impressions}) > 3000
    assert len({impression.page for impression in impressions}) == len(plan.entities.pages)
