"""A missed promise fails a test, except on an overloaded machine, where it is reported."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from tests.promises import NOT_JUDGED, Promises, free_share, not_judged, speed


@pytest.mark.parametrize(
    ("measured_s", "free", "ending"),
    [
        (44.0, [0.9, 0.9], "kept"),
        (44.0, [0.1, 0.1], "kept"),
        (46.0, [0.9, 0.9], "failed"),
        (46.0, [0.9, 0.3], NOT_JUDGED),
        (46.0, [0.3, 0.9], NOT_JUDGED),
    ],
)
def test_a_promise_is_judged_by_its_margin_where_the_machine_is_free(
    measured_s: float, free: list[float], ending: str
) -> None:
    properties: dict[str, object] = {}
    promises = Promises(properties.__setitem__, lambda: free.pop(0), lambda: 1.0)
    if ending == "failed":
        with pytest.raises(pytest.fail.Exception, match=r"^first alert: 46\.0 s instead of 30 s$"):
            promises.judge("first alert", measured_s, 30.0)
    else:
        promises.judge("first alert", measured_s, 30.0)
    assert (NOT_JUDGED in properties) == (ending == NOT_JUDGED)
    assert properties["first alert"] == f"{measured_s:.1f} s"


def test_a_promise_may_have_no_margin_and_another_unit() -> None:
    promises = Promises(lambda *_: None, lambda: 1.0, lambda: 1.0)
    promises.judge("frame", 16.0, 16.0, margin=1, unit="ms")
    with pytest.raises(pytest.fail.Exception, match=r"^frame: 16\.1 ms instead of 16 ms$"):
        promises.judge("frame", 16.1, 16.0, margin=1, unit="ms")


def test_a_calibration_is_a_share_of_the_fastest() -> None:
    assert 0.0 < free_share() <= 1.05


def test_a_machine_that_was_faster_before_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.promises._fastest", 1_000_000.0)
    assert free_share() < 0.01


def test_a_slow_machine_may_take_longer_in_proportion_but_not_for_a_share() -> None:
    properties: dict[str, object] = {}
    promises = Promises(properties.__setitem__, lambda: 1.0, lambda: 0.5)
    promises.judge("first alert", 44.0, 30.0)
    assert NOT_JUDGED not in properties
    promises.judge("first alert", 89.0, 30.0)
    assert "on a machine of 50% of the usual speed" in str(properties[NOT_JUDGED])
    with pytest.raises(pytest.fail.Exception, match=r"instead of 30 s, on a machine of 50%"):
        promises.judge("first alert", 91.0, 30.0)
    with pytest.raises(pytest.fail.Exception, match=r"^cost: 2\.1 % instead of 2 %$"):
        promises.judge("cost", 2.1, 2.0, margin=1, unit="%")


@pytest.mark.parametrize(("machine", "fails"), [(1.0, True), (0.9, False)])
def test_what_never_came_fails_on_a_fast_machine_only(machine: float, fails: bool) -> None:
    properties: dict[str, object] = {}
    promises = Promises(properties.__setitem__, lambda: 1.0, lambda: machine)
    if fails:
        with pytest.raises(pytest.fail.Exception, match="inf s instead of 4 s"):
            promises.judge("delay", math.inf, 4.0)
    else:
        promises.judge("delay", math.inf, 4.0)
    assert (NOT_JUDGED in properties) != fails


def test_the_speed_is_that_of_the_fastest_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    for fastest, expected in ((0.0, 1.0), (100.0, 0.8), (250.0, 1.0)):
        monkeypatch.setattr("tests.promises._fastest", fastest)
        assert speed() == pytest.approx(expected)


def test_what_was_not_judged_is_found_in_the_reports_of_tests() -> None:
    def report(when: str, *properties: tuple[str, object]) -> Any:
        return SimpleNamespace(when=when, user_properties=list(properties))

    missed = (NOT_JUDGED, "first alert: 99.0 s instead of 30 s, at 50% of its speed")
    reports = [
        report("call", ("first alert", "99.0 s"), missed),
        report("teardown", missed),
        report("call", ("first alert", "9.0 s")),
    ]
    assert not_judged(reports) == [missed[1]]
