"""`site-outage`: each sentence of its definition, on short histories of alerts."""

from typing import Any

from events.rules import SiteOutage
from events.times import to_text
from producer.expected.oracles.rows import alert_id
from producer.expected.oracles.site_outage import processing_order, site_outage_alerts
from tests.builders import T0, rack
from tests.unit.summaries import summarize

FOUR = [rack(f"rack-{n}") for n in (1, 2, 3, 4)]
"""A site, `site-a`, of four racks: three of them are more than half."""


def change(
    number: int, state: str, at_s: float, rule: str = "rack-overheating", **more: Any
) -> dict[str, Any]:
    row = {
        "rule": rule,
        "subject": f"rack-{number}",
        "state": state,
        "event_time": to_text(T0 + round(1000 * at_s)),
    }
    return {"alert_id": f"{rule} {number} {state} {at_s}", "site_id": "elsewhere", **row, **more}


def down(number: int, at_s: float, rule: str = "rack-overheating", **more: Any) -> dict[str, Any]:
    return change(number, "WARNING", at_s, rule, **more)


def up(number: int, at_s: float, rule: str = "rack-overheating") -> dict[str, Any]:
    return change(number, "NORMAL", at_s, rule)


def of(alerts: list[dict[str, Any]], rule: SiteOutage | None = None) -> list[tuple[str, str, str]]:
    return summarize(site_outage_alerts(alerts, FOUR, rule or SiteOutage()))


def test_three_of_four_racks_within_a_minute_are_an_outage_until_half_are_up() -> None:
    alerts = [down(1, 0), down(2, 30), down(3, 60), down(4, 61), up(1, 70), up(2, 80), up(3, 90)]
    assert of(alerts) == [("WARNING", "error", "60"), ("NORMAL", "info", "80")]


def test_the_last_racks_alert_triggers_the_outage_of_the_site() -> None:
    (row,) = site_outage_alerts(
        [down(1, 0), down(2, 1), down(3, 2)], FOUR, SiteOutage(severity="critical")
    )
    assert row == {
        "alert_id": alert_id(
            "site-outage", "site-a", "WARNING", "critical", "rack-overheating 3 WARNING 2"
        ),
        "rule": "site-outage",
        "subject": "site-a",
        "site_id": "site-a",
        "state": "WARNING",
        "severity": "critical",
        "event_time": "2026-11-18T11:06:42.000Z",
        "evidence": [],
    }


def test_half_of_the_racks_are_not_enough() -> None:
    assert of([down(1, 0), down(2, 1)]) == []


def test_the_minute_includes_both_ends() -> None:
    assert of([down(1, 0), down(2, 30), down(3, 60.0)]) == [("WARNING", "error", "60")]
    assert of([down(1, 0), down(2, 30), down(3, 60.001)]) == []


def test_racks_that_went_down_earlier_do_not_count_for_the_minute() -> None:
    assert of([down(1, 0), down(2, 100), down(3, 110)]) == []
    assert of([down(1, 0), down(2, 100), down(3, 110), down(4, 120)]) == [
        ("WARNING", "error", "120")
    ]


def test_the_minute_is_by_event_time_in_any_order_of_arrival() -> None:
    assert of([down(3, 50), down(1, 0), down(2, 20)]) == [("WARNING", "error", "20")]
    assert of([down(3, 90), down(1, 0), down(2, 20)]) == []


def test_a_rack_whose_clock_is_wrong_hides_no_outage_of_the_others() -> None:
    for wrong_s in (-31_536_000, 31_536_000):
        alerts = [down(4, wrong_s), down(1, 0), down(2, 30), down(3, 60), up(3, 61)]
        assert of(alerts) == [("WARNING", "error", "60")]


def test_racks_that_went_down_last_are_not_the_only_ones_that_count() -> None:
    assert of([down(1, 0), down(2, 50), down(4, 70), down(3, 20)]) == [("WARNING", "error", "20")]
    assert of([down(1, 0), down(2, 50), down(4, 120), down(3, 20)]) == [("WARNING", "error", "20")]


def test_a_rack_is_down_while_any_of_its_rules_warns() -> None:
    alerts = [
        down(1, 0),
        down(1, 1, "weak-signal"),
        up(1, 2),
        down(2, 3),
        down(3, 4),
        up(1, 5, "weak-signal"),
    ]
    assert of(alerts) == [("WARNING", "error", "4"), ("NORMAL", "info", "5")]


def test_a_rack_is_down_since_its_first_alert_not_a_later_one() -> None:
    later = [down(1, 50, "weak-signal"), down(1, 55, severity="critical")]
    assert of([down(1, 0), *later, up(1, 56), down(2, 61), down(3, 62)]) == []
    anew = [down(1, 0), up(1, 1), down(1, 50), down(2, 61), down(3, 62)]
    assert of(anew) == [("WARNING", "error", "62")]


def test_one_record_per_alert_id_counts() -> None:
    first, again = down(1, 0), up(1, 1)
    assert of([first, again, first, down(2, 2), down(3, 3)]) == []


def test_an_outage_lasts_while_more_than_the_share_are_down() -> None:
    alerts = [down(1, 0), down(2, 1), down(3, 2), down(4, 1000), up(1, 1001)]
    assert of(alerts) == [("WARNING", "error", "2")]


def test_the_rule_sets_share_and_time() -> None:
    assert of([down(1, 0), down(2, 5)], SiteOutage(share=0.25, within_s=5)) == [
        ("WARNING", "error", "5")
    ]
    assert of([down(1, 0)], SiteOutage(share=0)) == [("WARNING", "error", "0")]
    assert of([down(n, 0) for n in (1, 2, 3)], SiteOutage(share=0.75)) == []


def test_a_share_is_compared_without_rounding() -> None:
    """29 of 100 are not more than the share 0.29, although 0.29 * 100 is less than 29 as float."""
    hundred = [rack(f"rack-{n}") for n in range(100)]
    for last, out in ((29, False), (30, True)):
        alerts = [down(n, 0) for n in range(last)]
        assert bool(site_outage_alerts(alerts, hundred, SiteOutage(share=0.29))) == out


def test_sites_do_not_mix_and_come_from_the_inventory() -> None:
    racks = [*FOUR, *(rack(f"rack-{n}", site_id="site-b") for n in (5, 6, 7))]
    found = site_outage_alerts([down(n, n) for n in (1, 2, 5, 6)], racks, SiteOutage())
    assert [(row["subject"], row["site_id"]) for row in found] == [("site-b", "site-b")]


def test_racks_outside_the_inventory_do_not_count() -> None:
    assert of([down(1, 0), down(2, 1), down(9, 2), down(8, 3)]) == []


def test_outages_do_not_count_as_alerts_of_racks() -> None:
    own = {**down(3, 2, "site-outage"), "site_id": "site-a"}
    assert of([down(1, 0), down(2, 1), own]) == []


def test_alerts_are_ordered_by_second_then_event_time_but_per_rack_as_sent() -> None:
    rows = [
        (down(1, 10), T0), (up(1, 40), T0 + 1), (down(2, 11), T0 + 2), (up(2, 5), T0 + 3),
        (down(3, 12), T0 + 4), (down(4, 1), T0 + 1000),
    ]  # fmt: skip
    taken = [(row["subject"], row["state"]) for row in processing_order(rows)]
    assert taken == [
        ("rack-1", "WARNING"),
        ("rack-2", "WARNING"),
        ("rack-2", "NORMAL"),
        ("rack-3", "WARNING"),
        ("rack-1", "NORMAL"),
        ("rack-4", "WARNING"),
    ]


def test_an_outage_is_found_when_the_alerts_arrive_rack_by_rack() -> None:
    rows = [(change, T0 + n) for n in (1, 2, 3) for change in (down(n, n), up(n, 60 + n))]
    assert of([row for row, _ in rows]) == []
    assert of([dict(row) for row in processing_order(rows)]) == [
        ("WARNING", "error", "3"),
        ("NORMAL", "info", "61"),
    ]
