"""Totals of purchases: unbounded or with a TTL, exact, and with state that is removed."""

import json
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from events.constants import TOTAL_EXPIRES_AFTER
from events.times import duration_ms
from events.triggers import Trigger
from spark_jobs.clickstream.user_totals import JOB, Options, Run, add_purchase, user_totals
from tests.spark.event_tables import at, clock, events
from tests.spark.file_streams import run_stream

SCHEMA = "event_id string, event_time string, user_id string, action string, amount decimal(18,2)"
TTL_MS = duration_ms(TOTAL_EXPIRES_AFTER)
Total = tuple[str, str | None, Decimal, int]  # user, latest purchase, amount, purchases


def actions(spark: SparkSession, rows: list[Any]) -> DataFrame:
    return events(spark, SCHEMA, rows)


def bought(event: str, when: str, amount: str, user: str = "u") -> tuple[Any, ...]:
    return event, when, user, "purchase", Decimal(amount)


def run(
    spark: SparkSession, folder: Path, batches: list[list[Any]], ttl_ms: int | None
) -> list[list[Total]]:
    found = run_stream(
        spark,
        folder,
        [actions(spark, rows) for rows in batches],
        lambda rows: user_totals(rows, "10 minutes", ttl_ms),
        "append",
    )
    return [
        sorted(
            (row["user_id"], clock(row["event_time"]), row["amount_total"], row["purchase_count"])
            for row in batch
        )
        for batch in found
    ]


def state_rows(spark: SparkSession, checkpoint: Path, operator: int) -> int:
    """Return for how many users an operator of a checkpoint has state."""
    reader = (
        spark.read.format("statestore")
        .option("operatorId", operator)
        .option("stateVarName", "totals")
    )
    return reader.load(str(checkpoint)).count()


def test_unbounded_totals_are_exact_to_the_cent_and_count_each_purchase_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [
            bought("1", "10:00:00", "0.10"),
            bought("2", "10:00:01", "0.20"),
            bought("2", "10:00:01", "0.20"),
            ("3", "10:00:02", "u", "view", Decimal("5.00")),
            bought("4", "10:00:00", "9999999999999999.99", "rich"),
            bought("5", "10:00:00", "9999999999999999.99", "rich"),
        ],
        [bought("1", "10:00:00", "0.10"), bought("6", "09:55:00", "0.03")],
        [bought("7", "19:00:00", "1.00")],
        [bought("8", "20:00:00", "1.00", "rich")],
    ]
    first, second, third, fourth, *rest = run(spark, tmp_path, batches, None)
    assert first == [
        ("rich", "10:00:00", Decimal("19999999999999999.98"), 2),
        ("u", "10:00:01", Decimal("0.30"), 2),
    ]
    assert second == [("u", "10:00:01", Decimal("0.33"), 3)], (
        "the latest purchase is still that of 10:00:01"
    )
    assert third == [("u", "19:00:00", Decimal("1.33"), 4)], "nine hours later the total continues"
    assert fourth == [("rich", "20:00:00", Decimal("20000000000000000.98"), 3)]
    assert not any(rest)


@pytest.mark.full
def test_an_expiring_total_starts_anew_after_an_hour_and_its_state_is_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [bought("1", "10:00:00", "1.00"), bought("2", "10:00:00", "1.00", "gone")],
        [bought("3", "11:00:00", "2.00")],  # exactly an hour later, so the total continues
        [bought("4", "12:00:00.001", "4.00")],
        [bought("5", "12:05:00", "8.00", "other")],
    ]
    first, second, third, *_ = run(spark, tmp_path, batches, TTL_MS)
    assert first == [
        ("gone", "10:00:00", Decimal("1.00"), 1),
        ("u", "10:00:00", Decimal("1.00"), 1),
    ]
    assert second == [("u", "11:00:00", Decimal("3.00"), 2)]
    assert third == [("u", "12:00:00.001", Decimal("4.00"), 1)]
    # The watermark is 11:55: the state of `gone` is removed, the others are kept.
    assert state_rows(spark, tmp_path / "checkpoint", 0) == 2


def test_unbounded_totals_keep_their_state(spark: SparkSession, tmp_path: Path) -> None:
    batches = [
        [bought("1", "10:00:00", "1.00", "old")],
        [bought("2", "20:00:00", "1.00")],
        [bought("3", "20:00:00", "1.00")],
    ]
    run(spark, tmp_path, batches, None)
    assert state_rows(spark, tmp_path / "checkpoint", 0) == 2


def runs_of(purchases: list[tuple[int, int]]) -> list[Run]:
    runs: list[Run] = []
    for at_ms, cents in purchases:
        runs = add_purchase(runs, at_ms, Decimal(cents) / 100, TTL_MS)
    return runs


def test_the_order_of_arrival_does_not_change_the_runs() -> None:
    minutes = 60_000
    purchases = [(0, 1), (60 * minutes, 10), (110 * minutes, 100), (171 * minutes, 1000)]
    expected = [
        Run(0, 110 * minutes, Decimal("1.11"), 3),
        Run(171 * minutes, 171 * minutes, Decimal("10.00"), 1),
    ]
    for order in permutations(purchases):
        assert runs_of(list(order)) == expected


@pytest.mark.full
def test_a_random_history_within_the_watermark_ends_with_the_expected_totals(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(3)
    rows = []
    for number in range(300):
        at_ms = random.randrange(6 * 3_600_000)
        rows.append(
            (
                at_ms,
                bought(
                    f"e{number}",
                    at(at_ms / 1000),
                    f"{random.randrange(1000)}.37",
                    f"u{random.randrange(40)}",
                ),
            )
        )
    batches: list[list[Any]] = [[] for _ in range(7)]
    for at_ms, row in rows:
        part = (at_ms + random.randrange(540_000)) // 3_600_000
        batches[part] += [row] * random.choice([1, 1, 1, 2])
    expected: dict[str, list[Any]] = {}
    for at_ms, row in sorted(rows):
        total = expected.get(row[2])
        if total and at_ms - total[0] <= 3_600_000:
            expected[row[2]] = [at_ms, total[1] + row[4], total[2] + 1]
        else:
            expected[row[2]] = [at_ms, row[4], 1]
    found = run(spark, tmp_path, [batch for batch in batches if batch], TTL_MS)
    last = {
        user: [f"{when}.000"[:12], amount, count]
        for batch in found
        for user, when, amount, count in batch
    }
    assert last == {
        user: [at(at_ms / 1000), amount, count] for user, (at_ms, amount, count) in expected.items()
    }


def test_a_record_has_the_key_and_the_fields_of_the_contract(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = JOB.plans[Trigger.AVAILABLE_NOW]
    assert Options().state_retention == "unbounded"
    options = Options(state_retention="ttl")
    table = [actions(spark, [bought("1", "10:00:00.500", "12.50")])]
    first, *_ = run_stream(
        spark, tmp_path, table, lambda rows: plan.records(rows, options), "append"
    )
    assert [(row["key"], list(json.loads(row["value"]).items())) for row in first] == [
        (
            "u",
            [
                ("user_id", "u"),
                ("event_time", "2026-11-18T10:00:00.500Z"),
                ("amount_total", 12.5),
                ("purchase_count", 1),
            ],
        )
    ]
