"""The truth of a clickstream run: acknowledged records only, with indeterminate rows marked."""

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events import topics
from events.times import to_ms
from producer.expected.oracles.clickstream import action_counts, attributions, sessions, totals
from producer.expected.oracles.rows import Row
from producer.expected.rack_alerts import AlertSelection
from producer.expected.topic_contents import TopicContents
from producer.expected.truth import KINDS, truth_rows, write_truth
from producer.scenario import load_scenario
from producer.streams.stream_plan import FaultFlag
from producer.streams.stream_set import Stream
from tests.builders import T0
from tests.unit.clickstream import HOUR, MINUTE, Topics, decoded, streams_of

FAULTS = (
    "late=0.02,max_s=400",
    "duplicate=0.02,max_s=60",
    "out-of-order=0.05",
    "orphan=0.02",
    "malformed=0.005",
)
COUNT, SCALE = 15_000, 20.0
"""About four hours of event time."""


def truth_of(tmp_path: Path, memory: Topics) -> dict[str, list[Row]]:
    path = tmp_path / "truth.jsonl"
    write_truth(path, memory.sent, {"sent": 1})
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


def test_each_kind_is_the_oracles_result_for_the_topics_contents(
    tmp_path: Path, whole: Topics
) -> None:
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


def test_unacknowledged_records_are_not_in_the_truth(tmp_path: Path, whole: Topics) -> None:
    streams = streams_of(["clicks", "actions"], *FAULTS, count=COUNT, time_scale=SCALE)
    part = Topics(streams, lost=range(3000, 6000))
    truth = truth_of(tmp_path, part)
    shown, clicked = part.records(topics.AD_IMPRESSIONS), part.records(topics.AD_CLICKS)
    assert same_rows(truth["attribution"], attributions(shown, clicked))
    assert same_rows(truth["session"], sessions(part.records(topics.USER_ACTIONS)))
    assert 0 < len(truth["attribution"]) < len(truth_of(tmp_path, whole)["attribution"])


def test_dead_letters_have_their_position_in_the_topic(tmp_path: Path, whole: Topics) -> None:
    truth = truth_of(tmp_path, whole)
    unread = {
        (topic.name, partition, offset, len(value))
        for topic in (topics.AD_IMPRESSIONS, topics.AD_CLICKS, topics.USER_ACTIONS)
        for partition, offset, value in whole.contents[topic.name]
        if topic.record and decoded(value, topic.record) is None
    }
    dead_letters = truth["dead-letter"]
    assert {
        (r["source_topic"], r["partition"], r["offset"], r["value_size"]) for r in dead_letters
    } == unread
    assert len(dead_letters) == len(unread) >= 75
    kinds = defaultdict(set)
    for row in dead_letters:
        kinds[row["source_topic"]].add(row["error_kind"])
    assert {"huge-id", "time-with-offset", "not-utf8"} <= kinds["ad-impressions"]
    assert {"negative-amount", "string-for-amount", "unknown-action"} <= kinds["user-actions"]


def test_future_events_are_only_dead_letters(tmp_path: Path) -> None:
    memory = Topics(streams_of(["clicks", "actions"], "future=0.01", count=COUNT, time_scale=SCALE))
    truth = truth_of(tmp_path, memory)
    assert Counter((row["source_topic"], row["reason"]) for row in truth["dead-letter"]) == {
        ("ad-impressions", "future"): 100,
        ("ad-clicks", "future"): 10,
        ("user-actions", "future"): 40,
    }
    rows_by_kind = {
        "sessions": truth["session"],
        "totals": truth["total"],
        "attributions": truth["attribution"],
    }
    for name, rows in rows_by_kind.items():
        times = [
            row.get("session_start") or row.get("impression_time") or row["event_time"]
            for row in rows
        ]
        assert max(map(to_ms, times)) <= T0, name
    assert sum(row["action_count"] for row in truth["action-count"]) == 4000 - 40


def test_only_rows_with_too_late_events_are_indeterminate(tmp_path: Path) -> None:
    streams = streams_of(["clicks", "actions"], "too-late=0.01", count=COUNT, time_scale=SCALE)
    memory = Topics(streams)
    truth = truth_of(tmp_path, memory)
    shown, clicked, done = streams.plans
    late: dict[str, set[str]] = {}
    for plan in streams.plans:
        some = range(plan.schedule.count or 0)
        rows = [r for part in memory.sent if part.plan is plan for r in part.acknowledged.rows()]
        assert len(rows) == len(some)
        numbers = [row[0] for row in rows if row[1] & FaultFlag.TOO_LATE]
        late[plan.topic.name] = {plan.run_id + f"-{number}" for number in numbers}
    assert [len(ids) for ids in late.values()] == [100, 10, 40]
    sure = [row for row in truth["attribution"] if not row.get("either")]
    indeterminate = [row for row in truth["attribution"] if row.get("either")]
    indeterminate_impressions = {row["impression_id"].removeprefix("imp-") for row in indeterminate}
    assert late["ad-impressions"] <= indeterminate_impressions
    assert {row["impression_id"].removeprefix("imp-") for row in sure}.isdisjoint(
        late["ad-impressions"]
    )
    for row in indeterminate:
        of_late = row["impression_id"].removeprefix("imp-") in late["ad-impressions"]
        by_late = (row["click_id"] or "").removeprefix("click-") in late["ad-clicks"]
        is_unclicked = row["click_id"] is None
        assert of_late or by_late or is_unclicked
    assert any(row["click_id"] for row in indeterminate)
    assert 0 < sum(bool(row.get("either")) for row in truth["session"]) < len(truth["session"]) / 3
    assert (
        0
        < sum(bool(row.get("either")) for row in truth["action-count"])
        < len(truth["action-count"])
    )
    bought_late = {
        action.user_id
        for action in memory.records(topics.USER_ACTIONS)
        if action.action == "purchase"
        and action.event_id.replace("-a", "-") in late["user-actions"]
    }
    assert {row["user_id"] for row in truth["total"] if row.get("either")} == bought_late
    assert same_rows(
        [{**row, "either": None} for row in truth["total"]],
        [{**row, "either": None} for row in totals(memory.records(topics.USER_ACTIONS))],
    )
    assert {shown.watermark_s, clicked.watermark_s, done.watermark_s} == {7200, 10_800, 600}


def test_flush_records_appear_only_in_an_indeterminate_count(tmp_path: Path, whole: Topics) -> None:
    before = truth_of(tmp_path, whole)
    for part in whole.sent:
        _, part.flush = part.plan.flush_record(T0 + 5 * HOUR)
        part.flush_append_ms = T0 + 5 * HOUR
    try:
        after = truth_of(tmp_path, whole)
    finally:
        for part in whole.sent:
            part.flush = part.flush_append_ms = None
    extra = [row for row in after["action-count"] if row not in before["action-count"]]
    assert [(row["action"], row["action_count"], row["either"]) for row in extra] == [
        ("view", 1, True)
    ]
    for kind in ("attribution", "session", "total", "dead-letter"):
        assert after[kind] == before[kind]


def test_a_run_without_acknowledged_records_has_a_truth(tmp_path: Path) -> None:
    memory = Topics(streams_of(["clicks", "actions"], *FAULTS, count=100), lost=range(1000))
    counts = dict.fromkeys(
        ("dead_letters", "attributions", "action_counts", "sessions", "totals"), 0
    )
    assert truth_of(tmp_path, memory) == {"summary": [{"sent": 1, **counts}]}


def test_amounts_are_numbers_with_two_decimals(tmp_path: Path, whole: Topics) -> None:
    truth_of(tmp_path, whole)
    lines = (tmp_path / "truth.jsonl").read_bytes().splitlines()
    amounts = [line for line in lines if b'"amount_total":' in line]
    assert all(
        line.partition(b'"amount_total":')[2].partition(b".")[2][:2].isdigit() for line in amounts
    )
    assert b'"amount_total":0.00' in b"".join(amounts)


def test_the_join_scenario_has_the_documented_size_and_faults() -> None:
    scenario = load_scenario(
        Path(__file__).parents[2] / "producer" / "scenarios" / "join.yaml", {}, []
    )
    assert scenario.count == 220_000
    assert scenario.streams == ("clicks",)
    shares = {fault.name: fault.share for fault in scenario.faults if hasattr(fault, "share")}
    assert (shares["late"], shares["too-late"], shares["duplicate"], shares["orphan"]) == (
        0.02,
        0.005,
        0.01,
        0.01,
    )


def test_a_truth_of_one_kind_has_the_same_rows_of_it() -> None:
    names: list[Stream] = ["racks", "clicks", "actions"]
    memory = Topics(streams_of(names, "malformed=0.005", count=5000, time_scale=SCALE))
    contents = [TopicContents([stream]) for stream in memory.sent]
    silences = AlertSelection(("silent-sensor",))
    full = truth_rows(contents, silences)
    assert {kind: bool(rows) for kind, rows in full.items()} == dict.fromkeys(KINDS, True)
    alone = {kind: truth_rows(contents, silences, [kind]) for kind in KINDS}
    assert alone == {kind: {kind: rows} for kind, rows in full.items()}


def test_a_clickstream_has_only_the_kinds_of_its_topics() -> None:
    memory = Topics(streams_of(["clicks"], count=100, time_scale=SCALE))
    contents = [TopicContents([stream]) for stream in memory.sent]
    assert truth_rows(contents).keys() == {"dead-letter", "attribution"}
    assert truth_rows(contents, kinds=["window"]) == {}


def test_of_a_clickstream_that_goes_on_the_rows_that_wait_for_the_watermark_are_marked() -> None:
    """Its events span four hours; what the last ones of them open stays open."""
    memory = Topics(streams_of(["clicks", "actions"], count=COUNT, time_scale=SCALE))
    contents = [TopicContents([stream]) for stream in memory.sent]
    ended, open_ = (truth_rows(contents, goes_on=goes_on) for goes_on in (False, True))
    impressions, clicks, actions = (
        max(to_ms(record.event_time) for record in memory.records(topic))
        for topic in (topics.AD_IMPRESSIONS, topics.AD_CLICKS, topics.USER_ACTIONS)
    )
    joined_ms = min(impressions - 2 * HOUR, clicks - 3 * HOUR)
    due: dict[str, Callable[[Row], bool]] = {
        "attribution": lambda row: (
            row["click_id"] is not None or to_ms(row["impression_time"]) + HOUR <= joined_ms
        ),
        "session": lambda row: to_ms(row["session_end"]) <= actions - 10 * MINUTE,
        "total": lambda _: True,
        "action-count": lambda _: True,
        "dead-letter": lambda _: True,
    }
    assert open_.keys() == ended.keys() == due.keys()
    for kind, is_due in due.items():
        known = [{**row, "either": None} for row in ended[kind]]
        found = [{**row, "either": None} for row in open_[kind]]
        assert found == [row if is_due(row) else {**row, "not_due": True} for row in known]
    for kind in ("attribution", "session"):
        assert 0 < sum("not_due" in row for row in open_[kind]) < len(ended[kind])
