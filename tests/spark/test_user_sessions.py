"""Sessions: their ends, gaps of devices, repeats, late actions and random histories."""

import json
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from events.triggers import Trigger
from spark_jobs.clickstream.user_sessions import JOB, Options, user_sessions
from tests.spark.event_tables import at, clock, events
from tests.spark.file_streams import run_stream

SCHEMA = (
    "event_id string, event_time string, user_id string, device string, action string, "
    "amount decimal(18,2)"
)
LATER = ("later", "20:00:00", "nobody", "phone", "view", None)
Session = tuple[
    str | None, str | None, str | None, int, Decimal
]  # user, start, end, actions, amount


def actions(spark: SparkSession, rows: list[Any]) -> DataFrame:
    return events(spark, SCHEMA, rows)


def view(event: str, when: str, user: str = "u", device: str = "laptop") -> tuple[Any, ...]:
    return event, when, user, device, "view", None


def purchase(event: str, when: str, amount: str, user: str = "u") -> tuple[Any, ...]:
    return event, when, user, "laptop", "purchase", Decimal(amount)


def run(
    spark: SparkSession,
    folder: Path,
    batches: list[list[Any]],
    gap: str = "30 minutes",
    device_gaps: Any = (),
) -> list[Session]:
    """Return the sessions in the order of user and start."""
    found = run_stream(
        spark,
        folder,
        [actions(spark, rows) for rows in batches],
        lambda rows: user_sessions(rows, gap, "10 minutes", device_gaps),
        "append",
    )
    return sorted(
        (
            row["user_id"],
            clock(row["session_start"]),
            clock(row["session_end"]),
            row["action_count"],
            row["amount_total"],
        )
        for batch in found
        for row in batch
    )


def test_a_session_ends_after_a_gap_without_actions(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        view("1", "10:00:00"),
        view("2", "10:29:59.999"),
        purchase("3", "10:59:59.999", "12.50"),  # exactly at the end of the gap: the same session
        purchase("4", "11:30:00", "0.01"),  # a millisecond after it: the next session
        purchase("5", "11:31:00", "9999999999999999.99"),
        purchase("6", "11:32:00", "9999999999999999.99"),
        view("7", "10:05:00", "other"),
    ]
    assert run(spark, tmp_path, [rows, [LATER]]) == [
        ("other", "10:05:00", "10:35:00", 1, Decimal("0.00")),
        ("u", "10:00:00", "11:29:59.999", 3, Decimal("12.50")),
        ("u", "11:30:00", "12:02:00", 3, Decimal("19999999999999999.99")),
    ]


def test_a_repeat_does_not_extend_a_session_and_an_action_between_merges_two(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [
            purchase("1", "10:00:00", "1.00"),
            purchase("1", "10:00:00", "1.00"),
            view("3", "10:40:00"),
        ],
        [purchase("1", "10:00:00", "1.00"), view("2", "10:20:00"), view("3", "10:40:00")],
        [LATER],
    ]
    assert run(spark, tmp_path, batches) == [("u", "10:00:00", "11:10:00", 3, Decimal("1.00"))]


def test_a_device_may_have_its_own_gap(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        view("1", "10:00:00", device="phone"),
        view("2", "10:11:00"),
        view("3", "10:31:00"),
        view("4", "10:20:00", "v", "tv"),
        view("5", "11:19:00", "v", "tv"),
    ]
    gaps = (("phone", "10 minutes"), ("tv", "1 hour"))
    assert run(spark, tmp_path, [rows, [LATER]], device_gaps=gaps) == [
        ("u", "10:00:00", "10:10:00", 1, Decimal("0.00")),
        ("u", "10:11:00", "11:01:00", 2, Decimal("0.00")),
        ("v", "10:20:00", "12:19:00", 2, Decimal("0.00")),
    ]


def test_the_last_session_stays_open_and_a_late_action_is_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [view("1", "10:00:00")],
        [view("2", "12:00:00", "v")],
        [view("3", "10:01:00")],
        [view("4", "10:02:00")],
    ]
    # The third batch still accepts what the watermark of the first batch allows. The watermark of
    # the second batch closes the session after it.
    assert run(spark, tmp_path, batches) == [
        ("u", "10:00:00", "10:31:00", 2, Decimal("0.00")),
    ]


def expected_sessions(rows: list[Any], gap_s: float) -> list[Session]:
    """Return the sessions of a history: sort it, and cut where a gap is too long."""
    found: list[Session] = []
    for user in {row[2] for row in rows}:
        mine = sorted(
            {
                (milliseconds(row[1]), row[0], row[5] or Decimal("0.00"))
                for row in rows
                if row[2] == user
            }
        )
        groups: list[list[Any]] = []
        for row in mine:
            if groups and row[0] - groups[-1][-1][0] <= gap_s * 1000:
                groups[-1].append(row)
            else:
                groups.append([row])
        for group in groups:
            start, end = at(group[0][0] / 1000), at(group[-1][0] / 1000 + gap_s)
            found.append(
                (user, start, end, len(group), sum((row[2] for row in group), Decimal("0.00")))
            )
    return sorted(found)


def milliseconds(when: str) -> int:
    """Return the milliseconds since ten o'clock."""
    hours, minutes, rest = when.split(":")
    return round(((int(hours) - 10) * 3600 + int(minutes) * 60 + float(rest)) * 1000)


@pytest.mark.full
def test_a_random_history_within_the_watermark_gives_the_expected_sessions(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(11)
    rows: list[Any] = []
    for number in range(400):
        when, user = at(random.randrange(3 * 3600)), f"u{random.randrange(12)}"
        bought = random.random() < 0.3
        rows.append(
            purchase(f"e{number}", when, f"{random.randrange(10_000)}.99", user)
            if bought
            else view(f"e{number}", when, user)
        )
    batches: list[list[Any]] = [[] for _ in range(4)]
    for row in rows:
        # A batch per hour; actions come up to nine minutes late, and some twice.
        part = (milliseconds(row[1]) // 1000 + random.randrange(540)) // 3600
        batches[part].append(row)
        if random.random() < 0.2:
            batches[part].append(row)
    found = run(spark, tmp_path, [*batches, [LATER]], gap="10 minutes")
    padded = [(u, f"{s}.000"[:12], f"{e}.000"[:12], n, a) for u, s, e, n, a in found]
    assert padded == expected_sessions(rows, 600)
    assert len(padded) > 30


def test_a_record_has_the_key_and_the_fields_of_the_contract(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = JOB.plans[Trigger.AVAILABLE_NOW]
    batches = [actions(spark, [purchase("1", "10:00:00", "12.50")]), actions(spark, [LATER])]
    rows = run_stream(spark, tmp_path, batches, lambda r: plan.records(r, Options()), "append")
    ((record,),) = [batch for batch in rows if batch]
    assert record["key"] == "u"
    assert record["value"] == (
        '{"user_id":"u","session_start":"2026-11-18T10:00:00.000Z","session_end":"2026-11-18T10:30:00.000Z",'
        '"action_count":1,"amount_total":12.50}'
    )
    assert json.loads(record["value"])["amount_total"] == 12.5
