"""Restart continuous and real-time queries: what was committed does not come again, the rest does.

Both triggers write rows at once, but commit only at the end of an epoch (continuous) or of a batch
(real-time). A restart goes on after the last commit. Rows that were written after it are written
again, so a reader sees them at least once.

Notice: After a commit, the restart continues with the next reading, and the real-time query
continues its count. After a stop before the commit, the same readings come once more. Their counts
are the same too, because the state goes back with the offsets.
In production: `overheating` repeats alerts after a kill, with the same `alert_id`. `alerting` keeps
one record per id.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lessons.harness.context import LessonContext, has_committed, started, wait_until
from lessons.real_time import real_time

SHORT, LONG = "1 second", "1 hour"
"""Time between commits: within the lesson, the first passes and the second does not."""


def run(context: LessonContext) -> Iterator[str]:
    """Stop each query after a commit, restart and stop it before one, and restart it again."""
    context.spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
    first, following = (
        (context.data / name).read_text(encoding="utf-8").splitlines()
        for name in ("readings.json", "next.json")
    )
    for name in ("continuous", "real-time"):
        source = context.broker.create_topic(f"restart-{name}-in")
        sink = context.broker.create_topic(f"restart-{name}-out")
        for event, records, every, rows, committed in (
            ("first start, stopped after a commit", first, SHORT, 2, 2),
            ("restart, stopped before a commit", following, LONG, 1, None),
            ("restart again", [], SHORT, 1, 3),
        ):
            context.broker.send(source, records)
            expected = len(context.broker.read(sink)) + rows
            with started(_query(context, source, sink, name, every)):
                wait_until(
                    lambda topic, least: len(context.broker.read(topic)) >= least, sink, expected
                )
                if committed:
                    checkpoint = context.folder / f"checkpoint-{name}"
                    wait_until(has_committed, checkpoint, f'"0":{committed}}}')
            yield f"{name}, {event}\n  {context.broker.read_new(sink)}"


def _query(
    context: LessonContext, source: str, sink: str, name: str, every: str
) -> DataStreamWriter:
    """Return a query that copies readings, or counts them per rack in real time."""
    options = {"kafka.bootstrap.servers": context.broker.bootstrap}
    kafka = context.spark.readStream.format("kafka").options(**options, subscribe=source)
    readings = kafka.option("startingOffsets", "earliest").load().select("value")
    if name == "real-time":
        rack = F.get_json_object(F.col("value").cast("string"), "$.rack").alias("rack")
        readings = readings.groupBy(rack).count().select(F.to_json(F.struct("*")).alias("value"))
    writer = readings.writeStream.format("kafka").options(**options, topic=sink)
    writer = writer.option("checkpointLocation", context.path(f"checkpoint-{name}"))
    if name == "continuous":
        return writer.trigger(continuous=every)
    return real_time(writer.outputMode("update"), every)
