"""A streaming sum: steps per five minutes, appended to Parquet, with a JSON text inside the JSON.

Events go on from the first two, one every 50 seconds for five days. Windows of five minutes, ten minutes of lateness:
1,450 windows close, and the last few wait for later events. The column `value` is JSON in a text and is parsed apart.

Notice: One file at a time gives the same sums when the files follow each other in time. When each file spans all
days, the first moves the watermark to the end: after the second, which rows are still held against the watermark
before, everything is late, and half of the four files is lost.
In production: A backlog is read in the order of the topic, which is close to that of time; `archive` writes Parquet.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish, table

SCHEMA = (
    "id long NOT NULL, user_id int, device_id int, num_steps int, miles_walked double, calories_burnt double,"
    " timestamp timestamp, value string"
)
EVENTS, EVERY_S, FILES = 8_712, 50, 4


def steps_per_five_minutes(events: DataFrame) -> DataFrame:
    """Return `window` and `sum(num_steps)` of events that a watch or phone has sent."""
    value = F.from_json("value", "source string, battery int").alias("value")
    sent = events.select("timestamp", "num_steps", value).where("value.source IS NOT NULL")
    return (
        sent.withWatermark("timestamp", "10 minutes")
        .groupBy(F.window("timestamp", "5 minutes"))
        .sum("num_steps")
    )


def run(lab: Lab) -> Iterator[str]:
    """Sum all events at once, file by file, and file by file when every file spans all days."""
    first = [json.loads(line) for line in (lab.data / "first.json").read_text(encoding="utf-8").splitlines()]
    events = [*first, *(_event(at, first) for at in range(2, EVENTS))]
    size = EVENTS // FILES
    for number in range(FILES):
        _write(lab, events[number * size : (number + 1) * size], f"in_turn/{number}.json")
        _write(lab, events[number::FILES], f"mixed/{number}.json")
    for name, folder, files in (
        ("at once", "in_turn", FILES),
        ("file by file", "in_turn", 1),
        ("mixed", "mixed", 1),
    ):
        stream = (
            lab.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).json(lab.path(folder))
        )
        out = lab.path(f"out/{name}")
        writer = steps_per_five_minutes(stream).writeStream.format("parquet").option("path", out)
        finish(writer.trigger(availableNow=True).start())
        sums = lab.spark.read.parquet(out)
        ((total,),) = sums.agg(F.sum("sum(num_steps)")).collect()
        sent = sum(event["num_steps"] for event in events)
        yield f"{name}: {sums.count()} windows closed, {total:,} of {sent:,} steps"
        yield table(sums.orderBy("window").limit(3), ordered=True)


def _event(at: int, first: list[dict[str, Any]]) -> dict[str, Any]:
    steps = 1_000 + at * 7_919 % 9_000
    moment = datetime.fromisoformat(first[1]["timestamp"]) + timedelta(seconds=EVERY_S * (at - 1))
    figures = {"num_steps": steps, "miles_walked": steps / 2_000, "calories_burnt": steps / 20}
    who = {"id": first[0]["id"] + at, "user_id": at % 50, "device_id": at % 20}
    return first[at % 2] | who | figures | {"timestamp": moment.isoformat(timespec="milliseconds")}


def _write(lab: Lab, events: list[dict[str, Any]], name: str) -> None:
    lab.write("\n".join(map(json.dumps, events)), name)
