"""A streaming sum: steps per five minutes, appended to Parquet, with JSON inside JSON.

After the first two events, one follows every 50 seconds for five days. With windows of five minutes
and ten minutes of lateness, 1,450 windows close, and the last few wait for later events. The column
`value` contains JSON text, which the query parses separately. The first two events are published
ones.

Notice: One file per batch gives the same sums when the files are in time order. When each file
spans all days, the first moves the watermark to the end. The second batch still uses the previous
watermark; afterwards every row is late, so half of the four files is lost.
In production: A backlog is read in the order of the topic, which is close to time order. `archive`
writes Parquet.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end, format_table

SCHEMA = (
    "id long NOT NULL, user_id int, device_id int, num_steps int, miles_walked double,"
    " calories_burnt double, timestamp timestamp, value string"
)
EVENTS, EVERY_S, FILES = 8_712, 50, 4


def steps_per_five_minutes(events: DataFrame) -> DataFrame:
    """Return `window` and `sum(num_steps)` of events with a source in `value`."""
    value = F.from_json("value", "source string, battery int").alias("value")
    sent = events.select("timestamp", "num_steps", value).where("value.source IS NOT NULL")
    return (
        sent.withWatermark("timestamp", "10 minutes")
        .groupBy(F.window("timestamp", "5 minutes"))
        .sum("num_steps")
    )


def run(context: LessonContext) -> Iterator[str]:
    """Sum all files in one batch, one per batch, and one per batch in mixed order."""
    first = [
        json.loads(line)
        for line in (context.data / "first.json").read_text(encoding="utf-8").splitlines()
    ]
    events = [*first, *(_event(number, first) for number in range(2, EVENTS))]
    size = EVENTS // FILES
    for number in range(FILES):
        _write(context, events[number * size : (number + 1) * size], f"in_turn/{number}.json")
        _write(context, events[number::FILES], f"mixed/{number}.json")
    yield "the first two events"
    yield format_table(_first_two(context), ordered=True)
    for name, folder, files in (
        ("at once", "in_turn", FILES),
        ("file by file", "in_turn", 1),
        ("mixed", "mixed", 1),
    ):
        stream = (
            context.spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", files)
            .json(context.path(folder))
        )
        out = context.path(f"out/{name}")
        writer = steps_per_five_minutes(stream).writeStream.format("parquet").option("path", out)
        await_end(writer.trigger(availableNow=True).start())
        sums = context.spark.read.parquet(out)
        ((total,),) = sums.agg(F.sum("sum(num_steps)")).collect()
        sent = sum(event["num_steps"] for event in events)
        yield f"{name}: {sums.count()} windows closed, {total:,} of {sent:,} steps"
        yield format_table(sums.orderBy("window").limit(3), ordered=True)


def _first_two(context: LessonContext) -> DataFrame:
    events = context.spark.read.schema(SCHEMA).json(context.path("in_turn"))
    return events.orderBy("id").limit(2)


def _event(number: int, first: list[dict[str, Any]]) -> dict[str, Any]:
    steps = 1_000 + number * 7_919 % 9_000
    event_time = datetime.fromisoformat(first[1]["timestamp"]) + timedelta(
        seconds=EVERY_S * (number - 1)
    )
    amounts = {"num_steps": steps, "miles_walked": steps / 2_000, "calories_burnt": steps / 20}
    ids = {"id": first[0]["id"] + number, "user_id": number % 50, "device_id": number % 20}
    return (
        first[number % 2]
        | ids
        | amounts
        | {"timestamp": event_time.isoformat(timespec="milliseconds")}
    )


def _write(context: LessonContext, events: list[dict[str, Any]], name: str) -> None:
    context.add_file("\n".join(map(json.dumps, events)), name)
