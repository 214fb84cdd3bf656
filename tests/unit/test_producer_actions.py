"""User actions are functions of seed and number, and form sessions with rests in between."""

from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

from events.records import UserAction, encode
from events.times import to_ms, to_text
from producer.streams.actions import MAX_CENTS, ActionPlan
from producer.streams.stream_plan import FaultFlag
from tests.builders import T0
from tests.unit.clickstream import HOUR, MINUTE, decoded, numbers, plan_of, streams_of

COUNT = 30_000


def actions_of(
    *faults: str, time_scale: float = 1.0, rate: float | None = None
) -> list[UserAction]:
    plan = plan_of(
        ActionPlan, streams_of(["actions"], *faults, count=COUNT, time_scale=time_scale, rate=rate)
    )
    return plan.records(numbers(0, COUNT))


def sessions_of(actions: list[UserAction]) -> dict[str, list[list[UserAction]]]:
    """Return each user's actions, cut before each `open`."""
    found: dict[str, list[list[UserAction]]] = defaultdict(list)
    for action in actions:
        if action.action == "open" or not found[action.user_id]:
            found[action.user_id].append([])
        found[action.user_id][-1].append(action)
    return found


def test_any_slice_can_be_drawn_without_the_ones_before() -> None:
    plan = plan_of(ActionPlan, streams_of(["actions"], "too-late=0.02", "future=0.02"))
    whole = plan.records(numbers(0, 5000))
    for start, stop in ((0, 1), (17, 18), (1234, 4321), (4999, 5000)):
        assert plan.records(numbers(start, stop)) == whole[start:stop]
    assert plan.records(numbers(0, 5000)[::-1]) == whole[::-1]


@pytest.mark.parametrize("time_scale", [5.0, 30.0, 5000.0])
def test_a_session_opens_views_or_buys_and_closes(time_scale: float) -> None:
    lengths = set()
    for own in sessions_of(actions_of(time_scale=time_scale)).values():
        for session in own[:-1]:  # the end of the run may cut the last one off
            names = [action.action for action in session]
            lengths.add(len(names))
            assert (names[0], names[-1]) == ("open", "close")
            assert set(names[1:-1]) <= {"view", "purchase"}
            assert len({action.device for action in session}) == 1
    assert lengths == set(range(4, 13))


@pytest.mark.parametrize(("time_scale", "rate"), [(5.0, None), (30.0, None), (600.0, 50.0)])
def test_a_user_rests_more_than_half_an_hour_between_sessions_and_never_within(
    time_scale: float, rate: float | None
) -> None:
    rests = 0
    for own in sessions_of(actions_of(time_scale=time_scale, rate=rate)).values():
        for session in own:
            times = [to_ms(action.event_time) for action in session]
            assert all(0 <= later - time < 5 * MINUTE for time, later in pairwise(times))
        for session, following in pairwise(own):
            rests += 1
            assert to_ms(following[0].event_time) - to_ms(session[-1].event_time) > 45 * MINUTE
    assert rests > 50


def test_only_purchases_have_an_amount_with_two_decimals() -> None:
    actions = actions_of()
    bought = [action for action in actions if action.action == "purchase"]
    assert all((action.amount is not None) == (action.action == "purchase") for action in actions)
    amounts = [action.amount for action in bought if action.amount is not None]
    assert 0.05 * COUNT < len(amounts) < 0.15 * COUNT
    assert min(amounts) >= 5
    assert max(amounts) <= Decimal(MAX_CENTS) / 100
    assert {amount.as_tuple().exponent for amount in amounts} == {-2}
    assert {action.page for action in bought} == {"/checkout"}
    assert len({action.page for action in actions}) > 50


@pytest.mark.parametrize("rate", [None, 777.0])
def test_the_column_encoder_gives_the_bytes_of_the_record_encoder(rate: float | None) -> None:
    plan = plan_of(ActionPlan, streams_of(["actions"], "too-late=0.1", rate=rate))
    some = numbers(300, 2500)
    due = plan.schedule.scheduled_ms(some) if plan.schedule.paced else None
    keys, values = plan.encoded(some, due)
    records = plan.records(some)
    if due is not None:
        for record, scheduled_ms in zip(records, due.tolist(), strict=True):
            record.scheduled_time = to_text(scheduled_ms)
    assert values == [encode(record) for record in records]
    assert [decoded(value, UserAction) for value in values] == records
    assert keys == [record.user_id.encode() for record in records]


def test_too_late_and_future_change_only_the_event_time() -> None:
    plan = plan_of(ActionPlan, streams_of(["actions"], "too-late=0.01", "future=0.01", count=COUNT))
    some = numbers(0, 10_000)
    flags = plan.flags(some)
    late, future = (flags & FaultFlag.TOO_LATE) > 0, (flags & FaultFlag.FUTURE) > 0
    assert 90 <= late.sum() <= future.sum() == 100
    moved = plan.event_ms(some) - plan.schedule.event_ms(some)
    assert moved[late].min() >= -HOUR
    assert moved[late].max() <= -15 * MINUTE
    assert plan.event_ms(some)[future].min() >= T0 + HOUR
    assert not moved[~late & ~future].any()
    clean = plan_of(ActionPlan, streams_of(["actions"], count=COUNT)).actions(some)
    for column in ("users", "actions", "pages", "cents"):
        assert np.array_equal(getattr(plan.actions(some), column), getattr(clean, column))


def test_a_rate_below_one_action_in_half_an_hour_still_has_users() -> None:
    assert len({action.user_id for action in actions_of(time_scale=1e6)[:1000]}) == 4
