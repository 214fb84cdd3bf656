"""The clickstream against a real broker: its truth is recomputed from the topics independently."""

import json
import signal
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kafka.partitioner.default import murmur2

from events.topics import AD_CLICKS, AD_IMPRESSIONS, RACK_READINGS, USER_ACTIONS, Topic
from tests.support import Kafka, Record, above, eventually, program, run

pytestmark = pytest.mark.full

FAULTS = [
    "--fault=late=0.02,max_s=400",
    "--fault=too-late=0.005",
    "--fault=duplicate=0.02,max_s=60",
    "--fault=orphan=0.02",
    "--fault=out-of-order=0.05",
    "--fault=malformed=0.01",
    "--fault=future=0.005",
]
FIELDS = {
    AD_IMPRESSIONS: ["event_id", "event_time", "impression_id", "ad_id", "user_id", "page"],
    AD_CLICKS: ["event_id", "event_time", "click_id", "impression_id", "ad_id", "user_id"],
    USER_ACTIONS: ["event_id", "event_time", "user_id", "action", "page", "device"],
}
KEYS = {AD_IMPRESSIONS: "impression_id", AD_CLICKS: "impression_id", USER_ACTIONS: "user_id"}
Event = dict[str, Any]


def no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def read(topic: Topic, record: Record) -> Event | None:
    """Return a record's fields with its time, or None if the contract makes it a dead letter."""
    try:
        event = json.loads(
            (record.value or b"").decode(), parse_float=Decimal, parse_constant=no_constant
        )
        if not isinstance(event, dict) or not all(
            isinstance(event[name], str) for name in FIELDS[topic]
        ):
            return None
        if any(len(event[name].encode()) > 256 for name in FIELDS[topic] if name.endswith("_id")):
            return None
        event["at"] = datetime.strptime(event["event_time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(
            tzinfo=UTC
        )
    except (ValueError, KeyError):
        return None
    if topic is USER_ACTIONS:
        amount = event.get("amount", Decimal(0) if event["action"] != "purchase" else None)
        if event["action"] not in ("open", "view", "purchase", "close"):
            return None
        if not isinstance(amount, Decimal | int) or amount < 0 or amount * 100 % 1:
            return None
    return event


def text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def is_flush(event: Event) -> bool:
    return "-flush-" in event["event_id"]


def flush_of(records: list[Record]) -> Record:
    """Return the flush record, which has the latest append time of all partitions."""
    (flush,) = (record for record in records if b"-flush" in (record.value or b""))
    assert flush.timestamp_ms == max(record.timestamp_ms for record in records)
    return flush


def topic_contents(
    kafka: Kafka, topic: Topic
) -> tuple[list[Event], set[tuple[str, int, int, int, str]]]:
    """Return the events that event-time jobs read, and the dead letters."""
    events, dead = [], set()
    for record in kafka.read_all(topic):
        event, size = read(topic, record), len(record.value or b"")
        append = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        if event is None:
            dead.add((topic.name, record.partition, record.offset, size, "unreadable"))
        elif event["at"] > append + timedelta(minutes=5):
            dead.add((topic.name, record.partition, record.offset, size, "future"))
        else:
            assert (record.key or b"").decode() == event[KEYS[topic]]
            assert record.partition == (murmur2(record.key) & 0x7FFFFFFF) % topic.partitions
            events.append(event)
    return events, dead


def distinct(events: list[Event]) -> list[Event]:
    return list({event["event_id"]: event for event in events if not is_flush(event)}.values())


def joined_pairs(impressions: list[Event], clicks: list[Event]) -> set[tuple[Any, ...]]:
    """Join by comparing times; an impression without a click has one row with None."""
    by_impression: dict[str, list[Event]] = defaultdict(list)
    for click in distinct(clicks):
        by_impression[click["impression_id"]].append(click)
    rows: set[tuple[Any, ...]] = set()
    for shown in distinct(impressions):
        found: list[tuple[Any, ...]] = [
            (
                click["click_id"],
                click["event_time"],
                Decimal((click["at"] - shown["at"]) // timedelta(milliseconds=1)) / 1000,
            )
            for click in by_impression[shown["impression_id"]]
            if shown["at"] <= click["at"] <= shown["at"] + timedelta(hours=1)
        ]
        common = (shown["impression_id"], shown["ad_id"], shown["user_id"], shown["event_time"])
        rows |= {(*common, *click) for click in found or [(None, None, None)]}
    return rows


def sessions_of(actions: list[Event]) -> set[tuple[Any, ...]]:
    """Give each action its own session, then merge neighbours while two touch."""
    gap = timedelta(minutes=30)
    by_user: dict[str, list[Event]] = defaultdict(list)
    for action in distinct(actions):
        by_user[action["user_id"]].append(action)
    rows = set()
    for user, own in by_user.items():
        spans = sorted(
            (a["at"], a["at"] + gap, 1, a.get("amount", 0) * (a["action"] == "purchase"))
            for a in own
        )
        place = 0
        while place + 1 < len(spans):
            one, other = spans[place], spans[place + 1]
            if other[0] <= one[1]:
                spans[place : place + 2] = [
                    (one[0], max(one[1], other[1]), one[2] + other[2], one[3] + other[3])
                ]
            else:
                place += 1
        rows |= {
            (user, text(start), text(end), count, Decimal(total))
            for start, end, count, total in spans
        }
    return rows


def totals_of(actions: list[Event]) -> dict[str, tuple[str, Decimal, int]]:
    found: dict[str, tuple[str, Decimal, int]] = {}
    for action in distinct(actions):
        if action["action"] == "purchase":
            latest, total, count = found.get(action["user_id"], ("", Decimal(0), 0))
            found[action["user_id"]] = (
                max(latest, action["event_time"]),
                total + action["amount"],
                count + 1,
            )
    return found


def counts_of(actions: list[Event]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for action in actions:
        start = action["at"].replace(minute=action["at"].minute // 10 * 10, second=0, microsecond=0)
        found[text(start), text(start + timedelta(minutes=10)), action["action"]] += 1
    return found


def truth(path: Path) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line, parse_float=Decimal)
        rows[row.pop("kind")].append(row)
    return rows


def split_truth(rows: list[dict[str, Any]]) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Return the rows that must come out, and those that may."""
    sure = [tuple(row.values()) for row in rows if "either" not in row]
    maybe = [tuple(row.values())[:-1] for row in rows if "either" in row]
    assert len(set(sure)) == len(sure)
    return set(sure), set(maybe)


@pytest.mark.parametrize(
    ("options", "stopped_after"),
    [
        (["--rate=max", "--count=30000", "--time-scale=8"], None),
        (["--rate=4000", "--duration=60", "--time-scale=3600"], 4200),
    ],
    ids=["as fast as possible", "at a rate and stopped"],
)
def test_the_truth_of_a_run_with_every_fault_matches_the_topics(
    topics: Kafka, tmp_path: Path, options: list[str], stopped_after: int | None
) -> None:
    path, output = tmp_path / "truth.jsonl", tmp_path / "output"
    command = ["producer", "run", "--streams=clicks,actions", "--flush", f"--truth={path}"]
    with program(*command, *FAULTS, *options, env=topics.env, output=output) as process:
        if stopped_after is not None:
            eventually(lambda: len(topics.read_all(USER_ACTIONS)), above(stopped_after))
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0, output.read_text(encoding="utf-8")
    expected = truth(path)
    impressions, dead_impressions = topic_contents(topics, AD_IMPRESSIONS)
    clicks, dead_clicks = topic_contents(topics, AD_CLICKS)
    actions, dead_actions = topic_contents(topics, USER_ACTIONS)

    dead = {
        tuple(row[n] for n in ("source_topic", "partition", "offset", "value_size", "reason"))
        for row in expected["dead-letter"]
    }
    assert dead == dead_impressions | dead_clicks | dead_actions
    assert len(dead_impressions) > 50 < len(dead_actions)

    sure, maybe = split_truth(expected["attribution"])
    found = joined_pairs(impressions, clicks)
    assert sure <= found <= sure | maybe
    assert len(sure) > 9000
    assert 10 < len(found - sure) < 0.05 * len(found)
    assert {row[6] for row in maybe - found} == {None}, (
        "the other possible rows are impressions without a click"
    )
    assert sum(row[4] is not None for row in sure) > 800

    sure, maybe = split_truth(expected["session"])
    found = sessions_of(actions)
    assert sure <= found <= sure | maybe
    assert 0 < len(found - sure) < 0.5 * len(found)
    assert len(sure) > 100

    got = {
        row["user_id"]: (row["event_time"], row["amount_total"], row["purchase_count"])
        for row in expected["total"]
    }
    assert got == totals_of(actions)
    assert len(got) > 30
    counts = {
        (r["window_start"], r["window_end"], r["action"]): r["action_count"]
        for r in expected["action-count"]
    }
    assert counts == counts_of(actions)

    (summary,) = expected["summary"]
    everything = len(impressions) + len(clicks) + len(actions) + len(dead) - 3
    assert summary["sent"] == summary["acknowledged"] == everything, "all except the flush records"
    assert summary["orphan"] > 10


def test_flush_records_come_last_and_close_all_open_state(topics: Kafka) -> None:
    done = run(
        "producer", "run", "--streams=racks,clicks,actions", "--rate=2000", "--count=5000",
        "--time-scale=3000", "--flush", env=topics.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for topic, hours in ((AD_IMPRESSIONS, 4), (AD_CLICKS, 4), (USER_ACTIONS, 4)):
        events, dead = topic_contents(topics, topic)
        assert not dead
        assert flush_of(topics.read_all(topic))
        (last,) = filter(is_flush, events)
        others = [event for event in events if not is_flush(event)]
        newest = max(event["at"] for event in others)
        assert last["at"] - newest > timedelta(hours=hours), (
            "an hour to click, and a watermark of three hours"
        )
        assert newest < datetime.now(UTC) - timedelta(hours=hours)
    readings = topics.read_all(RACK_READINGS)
    assert len(readings) == 2001
    assert json.loads(flush_of(readings).value or b"")["rack_id"] == "flush"
    shares = [
        len(topic_contents(topics, topic)[0]) - 1
        for topic in (AD_IMPRESSIONS, AD_CLICKS, USER_ACTIONS)
    ]
    assert shares == [2000, 200, 800]


def test_clicks_follow_their_own_schedule(topics: Kafka) -> None:
    done = run("producer", "run", "--streams=clicks", "--rate=1100", "--duration=2", env=topics.env)
    assert done.returncode == 0, done.stderr
    for topic, every_ms in ((AD_IMPRESSIONS, 1), (AD_CLICKS, 10)):
        events, _ = topic_contents(topics, topic)
        events.sort(key=lambda event: int(event["event_id"].rpartition("-")[2][1:]))
        scheduled = [datetime.fromisoformat(event["scheduled_time"]) for event in events]
        steps = {
            (at - scheduled[0]) // timedelta(milliseconds=1) - n * every_ms
            for n, at in enumerate(scheduled)
        }
        assert len(events) == 2000 // every_ms
        assert steps <= {-1, 0}


def test_an_inventory_of_a_run_without_racks_is_refused(topics: Kafka, tmp_path: Path) -> None:
    command = ["--streams=clicks", "--count=1", f"--inventory={tmp_path / 'racks.jsonl'}"]
    done = run("producer", "run", *command, env=topics.env)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "producer: --inventory needs racks, but this run has none: add racks to --streams."
    ]
