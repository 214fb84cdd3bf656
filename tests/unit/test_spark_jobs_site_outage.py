"""What a site's state keeps, in which order it takes alerts, and how large and slow it gets."""

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from events.rules import Rules, SiteOutage
from events.times import to_text
from producer.expected.oracles.site_outage import processing_order, site_outage_alerts
from spark_jobs.rules.framework.stateful_rule import RuleProcessor
from spark_jobs.rules.site_outage import (
    GRACE_MS,
    REMEMBERED_ALERTS,
    SiteOutageState,
    SiteRules,
    most_within,
)
from tests.builders import T0, rack
from tests.unit.summaries import summarize

FOUR = range(4)
COMPLETE_MS = (T0 // 1000 + 1) * 1000 + GRACE_MS
"""When all alerts that were appended in the second `T0` are there."""


class CountingId(str):
    """An id that counts how often one of its kind is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountingId.comparisons += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def name(number: int) -> str:
    return f"rack-{number:04d}"


def site_of(numbers: Iterable[int]) -> SiteRules:
    """Return the default rules for a site of racks."""
    return SiteRules.of_inventory(Rules(), [rack(name(number)) for number in numbers])


def alert(
    alert_id: str,
    number: int = 0,
    *,
    append_ms: int = T0,
    warning: bool = True,
    event_s: int = 0,
    by_wall_clock: bool = False,
) -> Row:
    fields: dict[str, Any] = {
        "site": "site-a",
        "append_ms": append_ms,
        "partition": 0,
        "offset": 0,
        "alert_id": alert_id,
        "rule": "rack-overheating",
        "rack_id": name(number),
        "warning": warning,
        "event_time": (T0 + 1000 * event_s) * 1000,
        "by_wall_clock": by_wall_clock,
    }
    return Row(**fields)


def states(site: SiteOutageState, *alerts: Row, racks: Iterable[int] = FOUR) -> list[str]:
    """Return the states that a site changes to by a batch of alerts."""
    site.configure(alerts[0], site_of(racks))
    for each in alerts:
        assert not list(site.on_row("site-a", each))
    return ["WARNING" if each.severity else "NORMAL" for each in site.on_batch_end("site-a")]


def live() -> TwsTester:
    """Return a run of the rule by the wall clock, for a site of four racks."""
    return TwsTester(RuleProcessor(SiteOutageState, site_of(FOUR)), timeMode="ProcessingTime")


def states_at(tester: TwsTester, now_ms: int) -> list[tuple[str, str]]:
    """Return the states that sites change to when the clock shows a time."""
    found: Any = tester.setProcessingTime(now_ms)
    return [(row["subject"], row["state"]) for row in found]


def test_the_sentences_say_how_many_racks_are_in_warning() -> None:
    site, sentences = SiteOutageState(), []
    for number, warning in ((0, True), (1, True), (0, False)):
        each = alert(f"{number}-{warning}", number, warning=warning)
        site.configure(each, site_of(range(3)))
        assert not list(site.on_row("site-a", each))
        sentences += [decision.summary for decision in site.on_batch_end("site-a")]
    assert sentences == [
        "Site site-a is out: 2 of its 3 racks are in WARNING.",
        "Site site-a is back: 1 of its 3 racks is in WARNING.",
    ]


def test_a_rack_whose_clock_is_far_ahead_hides_no_outage_of_the_others() -> None:
    ahead = alert("ahead", 3, append_ms=T0 - 1000, event_s=31_536_000)
    others = [alert(f"alert-{number}", number, event_s=30 * number) for number in range(3)]
    assert states(SiteOutageState(), ahead, *others) == ["WARNING"]


def test_the_largest_number_of_times_within_a_length_includes_both_ends() -> None:
    assert most_within([], 10) == 0
    assert most_within([100, 0, 11, 90, 10], 10) == 2
    assert most_within([100, 0, 11, 90, 10, 5], 10) == 3


ALERTS = st.tuples(
    st.integers(0, 4),
    st.sampled_from(["rack-overheating", "weak-signal"]),
    st.sampled_from([True, True, False]),
    st.sampled_from([0, 10, 30, 60, 90, 10**8]),
    st.integers(0, 2),
)
"""A rack, a rule, whether it warns, and the seconds of event time and of append time."""


@given(
    st.lists(ALERTS, min_size=3, max_size=30),
    st.sampled_from([0.0, 0.2, 0.4, 0.5]),
    st.sampled_from([30, 60]),
)
def test_the_state_gives_the_alerts_of_the_oracle(
    changes: list[tuple[int, str, bool, int, int]], share: float, within_s: float
) -> None:
    rule, racks = SiteOutage(share=share, within_s=within_s), [rack(name(n)) for n in range(5)]
    changes.sort(key=lambda change: change[-1])
    topic, site = [], SiteOutageState()
    for at, (number, by_rule, warning, event_s, append_s) in enumerate(changes):
        append_ms = T0 + 1000 * append_s
        row = alert(f"{at}", number, append_ms=append_ms, warning=warning, event_s=event_s)
        row = Row(**row.asDict() | {"rule": by_rule, "offset": at})
        site.configure(row, SiteRules.of_inventory(Rules((rule,)), racks))
        assert not list(site.on_row("site-a", row))
        record = {
            "alert_id": f"{at}",
            "rule": by_rule,
            "subject": name(number),
            "state": "WARNING" if warning else "NORMAL",
            "event_time": to_text(T0 + 1000 * event_s),
        }
        topic.append((record, append_ms))
    found = [
        (
            "WARNING" if each.severity else "NORMAL",
            each.severity or "info",
            f"{(each.event_time // 1000 - T0) / 1000:g}",
        )
        for each in site.on_batch_end("site-a")
    ]
    assert found == summarize(site_outage_alerts(processing_order(topic), racks, rule))


def test_recognising_a_repeat_takes_no_search_through_all_alerts() -> None:
    CountingId.comparisons = 0
    site = SiteOutageState()
    states(site, *[alert(CountingId(f"{number:032x}")) for number in range(2_000)])
    assert CountingId.comparisons < 2_000


def test_the_last_ten_thousand_alerts_are_recognised_and_the_state_is_bounded() -> None:
    site = SiteOutageState()
    ids = [f"{number:032x}" for number in range(3 * REMEMBERED_ALERTS + 1)]
    states(site, *[alert(alert_id) for alert_id in ids])
    stored = msgspec.msgpack.encode(site)
    assert len(stored) < 2 * 34 * REMEMBERED_ALERTS + 1_000
    site = msgspec.msgpack.decode(stored, type=SiteOutageState)
    repeated = [alert(alert_id, warning=False) for alert_id in ids[-REMEMBERED_ALERTS:]]
    assert states(site, *repeated) == []
    assert list(site.rules_in_warning) == ["rack-0000"], "a repeated alert must change nothing"
    others = [alert(f"other-{number}", number) for number in (1, 2)]
    assert states(site, *others, others[0]) == ["WARNING"]


def test_a_batch_a_millisecond_before_the_alerts_are_complete_loses_no_outage() -> None:
    tester = live()
    together = [alert(f"alert-{number}", number, by_wall_clock=True) for number in range(3)]
    assert list(tester.test("site-a", together)) == []
    assert list(tester.setProcessingTime(COMPLETE_MS - 1)) == []
    assert states_at(tester, COMPLETE_MS) == [("site-a", "WARNING")]


def test_alerts_that_are_older_than_the_first_pending_one_do_not_wait_for_it() -> None:
    tester = live()
    future_alert = alert("ahead", 3, append_ms=T0 + 3_600_000, by_wall_clock=True)
    assert list(tester.test("site-a", [future_alert])) == []
    together = [alert(f"alert-{number}", number, by_wall_clock=True) for number in range(3)]
    assert list(tester.test("site-a", together)) == []
    assert states_at(tester, COMPLETE_MS) == [("site-a", "WARNING")]


def test_a_rack_that_left_the_site_is_not_down_any_more() -> None:
    site = SiteOutageState()
    assert states(site, *[alert(f"down-{number}", number) for number in range(3)]) == ["WARNING"]
    up = alert("up-1", 1, warning=False)
    assert states(site, up, racks=[1, 2, 3]) == ["NORMAL"], "only rack 2 of three is down"
    assert (list(site.rules_in_warning), list(site.warning_since)) == ([name(2)], [name(2)])


def test_a_pending_alert_of_a_rack_that_left_the_site_is_dropped() -> None:
    site = SiteOutageState()
    for number, racks in ((0, FOUR), (1, [1, 2, 3])):
        row = alert(f"down-{number}", number, by_wall_clock=True)
        site.configure(row, site_of(racks))
        assert not list(site.on_row("site-a", row))
    assert [pending.rack_id for pending in site.pending] == [name(1)]
