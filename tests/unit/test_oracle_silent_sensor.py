"""`silent-sensor`: each sentence of its definition, on short histories by the broker's clock."""

from typing import Any

from events.rules import SilentSensor
from events.times import to_text
from producer.expected.oracles.rows import alert_id
from producer.expected.oracles.silent_sensor import silent_sensor_alerts
from tests.builders import T0, rack, reading
from tests.unit.summaries import summarize


def appended(*seconds: float, rack: str = "rack-0001", first: int = 1) -> list[Any]:
    """Return records of a rack, appended so many seconds after `T0`.

    Their event times are as many seconds after `T0` as their sequence says.
    """
    return [
        (reading(n, rack=rack), T0 + round(1000 * s)) for n, s in enumerate(seconds, start=first)
    ]


def of(
    records: list[Any], rule: SilentSensor | None = None, **options: Any
) -> list[tuple[str, str, str]]:
    return summarize(silent_sensor_alerts(records, lambda _: rule or SilentSensor(), **options))


def ms(seconds: float) -> int:
    """Return the epoch milliseconds of a number of seconds after `T0`."""
    return T0 + round(1000 * seconds)


def test_more_than_thirty_seconds_between_two_records_warn_and_resolve() -> None:
    """The warning's time is the last append time plus 30 s; the end has the next event time."""
    assert of(appended(0, 10, 40.001, 41), until_ms=ms(41)) == [
        ("WARNING", "error", "40"),
        ("NORMAL", "info", "3"),
    ]


def test_exactly_thirty_seconds_are_no_silence() -> None:
    assert of(appended(0, 30.0), until_ms=ms(30.0)) == []
    assert of(appended(0, 30.001), until_ms=ms(30.001)) != []


def test_the_records_before_and_after_the_silence_trigger_the_alerts() -> None:
    before, after = appended(0, 60)
    silent, ended = silent_sensor_alerts([before, after], lambda _: SilentSensor(), until_ms=ms(60))
    shared = {"rule": "silent-sensor", "subject": "rack-0001", "site_id": "site-a"}
    assert silent == {
        "alert_id": alert_id("silent-sensor", "rack-0001", "WARNING", "error", "rack-0001/1"),
        **shared,
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-18T11:07:10.000Z",
        "evidence": [
            {
                "event_id": "rack-0001/1",
                "sequence": 1,
                "event_time": "2026-11-18T11:06:41.000Z",
                "temperature_c": 70.0,
            }
        ],
    }
    assert ended == {
        "alert_id": alert_id("silent-sensor", "rack-0001", "NORMAL", "info", "rack-0001/2"),
        **shared,
        "state": "NORMAL",
        "severity": "info",
        "event_time": "2026-11-18T11:06:42.000Z",
        "evidence": [
            {
                "event_id": "rack-0001/2",
                "sequence": 2,
                "event_time": "2026-11-18T11:06:42.000Z",
                "temperature_c": 70.0,
            }
        ],
    }


def test_copies_end_a_silence() -> None:
    (one, two) = appended(0, 50)
    copy = (one[0], T0 + 25_000)
    assert of([one, copy, two], until_ms=ms(50)) == []
    assert of([one, copy, (two[0], T0 + 56_000)], until_ms=ms(56)) == [
        ("WARNING", "error", "55"),
        ("NORMAL", "info", "2"),
    ]


def test_a_second_silence_or_end_by_a_copy_has_an_id_with_its_append_time() -> None:
    (one,) = appended(0)
    records = [one, (one[0], ms(40)), (one[0], ms(80)), (reading(2), ms(120))]
    first, last = one[0].event_id, "rack-0001/2"
    at = {seconds: f"{first}|{to_text(ms(seconds))}" for seconds in (40, 80)}
    found = silent_sensor_alerts(records, lambda _: SilentSensor(), until_ms=ms(120))
    assert [row["alert_id"] for row in found] == [
        alert_id("silent-sensor", "rack-0001", state, severity, trigger_event_id)
        for state, severity, trigger_event_id in (
            ("WARNING", "error", first),
            ("NORMAL", "info", at[40]),  # the first record has ended what was before it
            ("WARNING", "error", at[40]),
            ("NORMAL", "info", at[80]),
            ("WARNING", "error", at[80]),
            ("NORMAL", "info", last),
        )
    ]


def test_records_are_in_topic_order_not_by_sequence_or_event_time() -> None:
    records = [(reading(9), T0), (reading(3), T0 + 40_000)]
    silent, ended = silent_sensor_alerts(records, lambda _: SilentSensor(), until_ms=ms(40))
    assert (silent["evidence"][0]["sequence"], ended["evidence"][0]["sequence"]) == (9, 3)


def test_the_rule_sets_length_and_severity() -> None:
    rule = SilentSensor(after_s=0.5, severity="critical")
    assert of(appended(0, 0.501), rule, until_ms=ms(1)) == [
        ("WARNING", "critical", "0.5"),
        ("NORMAL", "info", "2"),
    ]


def test_racks_do_not_mix_and_each_has_its_own_rule() -> None:
    records = [*appended(0, 100), *appended(0, 100, rack="rack-0002")]
    found = silent_sensor_alerts(
        records,
        lambda name: SilentSensor(after_s=300 if name == "rack-0002" else 30),
        until_ms=ms(100),
    )
    assert {row["subject"] for row in found} == {"rack-0001"}


def test_the_silence_after_a_runs_last_record_is_indeterminate() -> None:
    assert of(appended(0, 10)) == [("WARNING?", "error", "40")]


def test_under_available_now_silence_lasts_until_the_topics_latest_append_time() -> None:
    found = {
        seconds: of([*appended(0), *appended(seconds, rack="rack-0002")], until_ms=ms(seconds))
        for seconds in (31.0, 31.001)
    }
    assert found == {31.0: [], 31.001: [("WARNING", "error", "30")]}


def test_a_rack_that_sends_nothing_after_the_jobs_first_start_is_silent() -> None:
    inventory = {"rack-0007": rack("rack-0007", site_id="site-b")}
    silent, ended = silent_sensor_alerts(
        appended(31, rack="rack-0007"), lambda _: SilentSensor(), inventory=inventory, started_ms=T0
    )[:2]
    start = to_text(T0)
    assert silent == {
        "alert_id": alert_id(
            "silent-sensor", "rack-0007", "WARNING", "error", f"rack-0007|{start}"
        ),
        "rule": "silent-sensor",
        "subject": "rack-0007",
        "site_id": "site-b",
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-18T11:07:10.000Z",
        "evidence": [],
    }
    assert (ended["state"], ended["evidence"][0]["event_id"]) == ("NORMAL", "rack-0007/1")
    assert "either" not in ended


def test_a_rack_that_sends_soon_after_the_start_is_not_silent() -> None:
    inventory = {"rack-0001": rack("rack-0001")}
    assert of(appended(30), inventory=inventory, started_ms=T0) == [("WARNING?", "error", "60")]


def test_a_rack_that_never_sends_is_silent_if_the_job_runs_long_enough() -> None:
    inventory = {"rack-0001": rack("rack-0001"), "rack-0002": rack("rack-0002")}
    assert of(appended(0), inventory=inventory, started_ms=T0)[1:] == [("WARNING?", "error", "30")]


def test_without_a_known_start_the_end_of_the_initial_silence_is_indeterminate() -> None:
    assert of(appended(5, 6), inventory={"rack-0001": rack("rack-0001")}) == [
        ("NORMAL?", "info", "1"),
        ("WARNING?", "error", "36"),
    ]
    assert of(appended(5, 6), inventory={"rack-0002": rack("rack-0002")}) == [
        ("WARNING?", "error", "36")
    ]


def test_available_now_has_no_initial_silence() -> None:
    inventory = {"rack-0001": rack("rack-0001"), "rack-0002": rack("rack-0002")}
    assert of(appended(100), inventory=inventory, started_ms=T0, until_ms=ms(100)) == []
