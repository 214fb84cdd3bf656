"""The truth of a clickstream run: from acknowledged records only, and what its faults leave in doubt."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import topics
from events.times import to_ms
from producer.clickstream_oracle import Row, action_counts, attributions, sessions, totals
from producer.scenario import load_scenario
from producer.stream import Mark
from producer.truth import write_truth
from tests.unit.clickstream import HOUR, T0, Topics, decoded, streams_of

FAULTS = (
    "late=0.02,max_s=400",
    "duplicate=0.02,max_s=60",
    "out-of-order=0.05",
    "orphan=0.02",
    "malformed=0.005",
)
COUNT, SCALE = 15_000, 20.0
"""About four hours of event time."""


def truth_of(tmp_path: Path, held: Topics) -> dict[str, list[Row]]:
    path = tmp_path / "truth.jsonl"
    write_truth(path, held.sent, {"sent": 1})
    rows: dict[str, list[Row]] = defaultdict(list)
    for line in path.read_bytes().splitlines():
        row = msgspec.json.decode(line)
        rows[row.pop("kind")].append(row)
    return rows


def same_rows(one: list[Row], other: Any) -> bool:
    def texts(rows: Any) -> list[bytes]:
        encoder = msgspec.json.Encoder(decimal_format="number")
        plain = [msgspec.json.decode(encoder.encode(row)) for row in rows]
        return sorted(msgspec.json.encode(row, order="sorted") for row in plain)

    return texts(one) == texts(other)


@pytest.fixture(scope="module")
def whole() -> Topics:
    return Topics(streams_of(["clicks", "actions"], *FAULTS, count=COUNT, time_scale=SCALE))


def test_every_kind_is_what_the_oracle_says_of_what_the_topics_hold(tmp_path: Path, whole: Topics) -> None:
    truth = truth_of(tmp_path, whole)
    shown, clicked = whole.records(topics.AD_IMPRESSIONS), whole.records(topics.AD_CLICKS)
    actions = whole.records(topics.USER_ACTIONS)
    assert same_rows(truth["attribution"], attributions(shown, clicked))
    assert same_rows(truth["session"], sessions(actions))
    assert same_rows(truth["total"], totals(actions))
    assert same_rows(truth["action-count"], action_counts(actions))
    (summary,) = truth["summary"]
    assert summary == {
        "sent": 1,
        "dead_letters": len(truth["dead-letter"]),
        "attributions": len(truth["attribution"]),
        "action_counts": len(truth["action-count"]),
        "sessions": len(truth["session"]),
        "totals": len(truth["total"]),
    }
    joined = [row for row in truth["attribution"] if row["click_id"]]
    assert len(joined) > 800
    assert len(truth["attribution"]) - len(joined) > 8000
    assert len(truth["session"]) > 400
    assert not any(row.get("either") for rows in truth.values() for row in rows)


def test_what_was_not_acknowledged_is_not_in_the_truth(tmp_path: Path, whole: Topics) -> None:
    streams = streams_of(["clicks", "actions"], *FAULTS, count=COUNT, time_scale=SCALE)
    part = Topics(streams, lost=range(3000, 6000))
    truth = truth_of(tmp_path, part)
    shown, clicked = part.records(topics.AD_IMPRESSIONS), part.records(topics.AD_CLICKS)
    assert same_rows(truth["attribution"], attributions(shown, clicked))
    assert same_rows(truth["session"], sessions(part.records(topics.USER_ACTIONS)))
    assert 0 < len(truth["attribution"]) < len(truth_of(tmp_path, whole)["attribution"])


def test_dead_letters_of_every_topic_are_named_by_where_they_lie(tmp_path: Path, whole: Topics) -> None:
    truth = truth_of(tmp_path, whole)
    unread = {
        (topic.name, partition, offset, len(value))
        for topic in (topics.AD_IMPRESSIONS, topics.AD_CLICKS, topics.USER_ACTIONS)
        for partition, offset, value in whole.held[topic.name]
        if topic.record and decoded(value, topic.record) is None
    }
    told = truth["dead-letter"]
    assert {(r["source_topic"], r["partition"], r["offset"], r["value_size"]) for r in told} == unread
    assert len(told) == len(unread) >= 75
    kinds = defaultdict(set)
    for row in told:
        kinds[row["source_topic"]].add(row["error_kind"])
    assert {"huge-id", "time-with-offset", "not-utf8"} <= kinds["ad-impressions"]
    assert {"negative-amount", "string-for-amount", "unknown-action"} <= kinds["user-actions"]


def test_events_from_the_future_are_dead_letters_and_nowhere_else(tmp_path: Path) -> None:
    held = Topics(streams_of(["clicks", "actions"], "future=0.01", count=COUNT, time_scale=SCALE))
    truth = truth_of(tmp_path, held)
    assert Counter((row["source_topic"], row["jobs"]) for row in truth["dead-letter"]) == {
        ("ad-impressions", "by-event-time"): 100,
        ("ad-clicks", "by-event-time"): 10,
        ("user-actions", "by-event-time"): 40,
    }
    ahead = {"sessions": truth["session"], "totals": truth["total"], "attributions": truth["attribution"]}
    for name, rows in ahead.items():
        times = [row.get("session_start") or row.get("impression_time") or row["event_time"] for row in rows]
        assert max(map(to_ms, times)) <= T0, name
    assert sum(row["action_count"] for row in truth["action-count"]) == 4000 - 40


def test_what_came_too_late_is_in_doubt_and_nothing_else_is(tmp_path: Path) -> None:
    streams = streams_of(["clicks", "actions"], "too-late=0.01", count=COUNT, time_scale=SCALE)
    held = Topics(streams)
    truth = truth_of(tmp_path, held)
    shown, clicked, done = streams.plans
    late: dict[str, set[str]] = {}
    for plan in streams.plans:
        some = range(plan.schedule.count or 0)
        rows = [r for part in held.sent if part.plan is plan for r in part.acknowledged.in_topic_order()]
        assert len(rows) == len(some)
        numbers = [row[0] for row in rows if row[1] & Mark.TOO_LATE]
        late[plan.topic.name] = {plan.run_id + f"-{number}" for number in numbers}
    assert [len(ids) for ids in late.values()] == [100, 10, 40]
    sure = [row for row in truth["attribution"] if not row.get("either")]
    doubted = [row for row in truth["attribution"] if row.get("either")]
    doubted_shown = {row["impression_id"].removeprefix("imp-") for row in doubted}
    assert late["ad-impressions"] <= doubted_shown
    assert {row["impression_id"].removeprefix("imp-") for row in sure}.isdisjoint(late["ad-impressions"])
    for row in doubted:
        of_late = row["impression_id"].removeprefix("imp-") in late["ad-impressions"]
        by_late = (row["click_id"] or "").removeprefix("click-") in late["ad-clicks"]
        alone = row["click_id"] is None
        assert of_late or by_late or alone
    assert any(row["click_id"] for row in doubted)
    assert 0 < sum(bool(row.get("either")) for row in truth["session"]) < len(truth["session"]) / 3
    assert 0 < sum(bool(row.get("either")) for row in truth["action-count"]) < len(truth["action-count"])
    bought_late = {
        action.user_id
        for action in held.records(topics.USER_ACTIONS)
        if action.action == "purchase" and action.event_id.replace("-a", "-") in late["user-actions"]
    }
    assert {row["user_id"] for row in truth["total"] if row.get("either")} == bought_late
    assert same_rows(
        [{**row, "either": None} for row in truth["total"]],
        [{**row, "either": None} for row in totals(held.records(topics.USER_ACTIONS))],
    )
    assert {shown.watermark_s, clicked.watermark_s, done.watermark_s} == {7200, 10_800, 600}


def test_flush_records_are_in_no_row_but_a_count_in_doubt(tmp_path: Path, whole: Topics) -> None:
    before = truth_of(tmp_path, whole)
    for part in whole.sent:
        _, part.flush = part.plan.flush_record(T0 + 5 * HOUR)
    try:
        after = truth_of(tmp_path, whole)
    finally:
        for part in whole.sent:
            part.flush = None
    extra = [row for row in after["action-count"] if row not in before["action-count"]]
    assert [(row["action"], row["action_count"], row["either"]) for row in extra] == [("view", 1, True)]
    for kind in ("attribution", "session", "total", "dead-letter"):
        assert after[kind] == before[kind]


def test_a_run_that_sent_nothing_has_a_truth_too(tmp_path: Path) -> None:
    held = Topics(streams_of(["clicks", "actions"], *FAULTS, count=100), lost=range(1000))
    counts = dict.fromkeys(("dead_letters", "attributions", "action_counts", "sessions", "totals"), 0)
    assert truth_of(tmp_path, held) == {"summary": [{"sent": 1, **counts}]}


def test_money_is_written_as_a_number_with_its_cents(tmp_path: Path, whole: Topics) -> None:
    truth_of(tmp_path, whole)
    lines = (tmp_path / "truth.jsonl").read_bytes().splitlines()
    amounts = [line for line in lines if b'"amount_total":' in line]
    assert all(line.partition(b'"amount_total":')[2].partition(b".")[2][:2].isdigit() for line in amounts)
    assert b'"amount_total":0.00' in b"".join(amounts)


def test_the_join_scenario_is_as_large_and_as_wrong_as_it_says() -> None:
    scenario = load_scenario(Path(__file__).parents[2] / "producer" / "scenarios" / "join.yaml", {}, [])
    assert scenario.count == 220_000
    assert scenario.streams == ("clicks",)
    shares = {fault.name: fault.share for fault in scenario.faults if hasattr(fault, "share")}
    assert (shares["late"], shares["too-late"], shares["duplicate"], shares["orphan"]) == (
        0.02,
        0.005,
        0.01,
        0.01,
    )
