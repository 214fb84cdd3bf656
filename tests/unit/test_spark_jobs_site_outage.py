"""A site's state stays small and fast, however many alerts it has taken."""

from typing import Any

import msgspec
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from events.rules import Rules
from spark_jobs.rules.framework.stateful_rule import RuleProcessor
from spark_jobs.rules.site_outage import GRACE_MS, REMEMBERED_ALERTS, SiteOutageState
from tests.builders import T0


class CountingId(str):
    """An id that counts how often one of its kind is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountingId.comparisons += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def alert(
    alert_id: str, rack: int = 0, *, warning: bool = True, by_wall_clock: bool = False
) -> Row:
    fields: dict[str, Any] = {
        "append_ms": T0,
        "partition": 0,
        "offset": 0,
        "alert_id": alert_id,
        "rule": "rack-overheating",
        "rack_id": f"rack-{rack:04d}",
        "warning": warning,
        "event_time": T0 * 1000,
        "rack_count": 4,
        "by_wall_clock": by_wall_clock,
    }
    return Row(**fields)


def states(site: SiteOutageState, *alerts: Row) -> list[str]:
    """Return the states that a site changes to by a batch of alerts."""
    site.configure(alerts[0], Rules())
    for each in alerts:
        assert not list(site.on_row("site-a", each))
    return ["WARNING" if each.severity else "NORMAL" for each in site.on_batch_end("site-a")]


def test_recognising_a_repeat_takes_no_search_through_all_alerts() -> None:
    CountingId.comparisons = 0
    site = SiteOutageState()
    states(site, *[alert(CountingId(f"{number:032x}")) for number in range(2_000)])
    assert CountingId.comparisons < 2_000


def test_the_last_ten_thousand_alerts_are_recognised_and_the_state_is_bounded() -> None:
    site = SiteOutageState()
    ids = [f"{number:032x}" for number in range(3 * REMEMBERED_ALERTS + 1)]
    states(site, *[alert(name) for name in ids])
    stored = msgspec.msgpack.encode(site)
    assert len(stored) < 2 * 34 * REMEMBERED_ALERTS + 1_000
    site = msgspec.msgpack.decode(stored, type=SiteOutageState)
    repeated = [alert(name, warning=False) for name in ids[-REMEMBERED_ALERTS:]]
    assert states(site, *repeated) == []
    assert list(site.rules_in_warning) == ["rack-0000"], "a repeated alert must change nothing"
    others = [alert(f"other-{rack}", rack) for rack in (1, 2)]
    assert states(site, *others, others[0]) == ["WARNING"]


def test_a_batch_a_millisecond_before_the_alerts_are_complete_loses_no_outage() -> None:
    site = RuleProcessor(SiteOutageState, Rules())
    tester = TwsTester(site, timeMode="ProcessingTime")
    together = [alert(f"alert-{rack}", rack, by_wall_clock=True) for rack in range(3)]
    assert list(tester.test("site-a", together)) == []
    complete_ms = (T0 // 1000 + 1) * 1000 + GRACE_MS
    assert list(tester.setProcessingTime(complete_ms - 1)) == []
    found: Any = tester.setProcessingTime(complete_ms)
    (outage,) = found
    assert (outage["subject"], outage["state"]) == ("site-a", "WARNING")
