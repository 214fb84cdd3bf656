"""Word counts from a socket: easy to start, but the source cannot replay.

The socket source reads lines from a TCP server and holds them in the driver's memory. It cannot
request a line again, so it is suitable for experiments only.

Notice: The query cannot resume from its checkpoint, because the source no longer has the data at
offset 0. With a new checkpoint it starts from nothing: the first line's counts are gone, and so is
the line sent in between.
In production: `action_counts` and the other jobs read Kafka, which keeps records sent while the
jobs were down.
"""

import socket
from collections.abc import Iterator

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import BatchCollector, LessonContext, error_summary, started


def word_counts(lines: DataFrame) -> DataFrame:
    """Return `word` and `count` over a column `value` of text."""
    words = lines.select(F.explode(F.split("value", " ")).alias("word"))
    return words.groupBy("word").count()


def run(context: LessonContext) -> Iterator[str]:
    """Send a line to a query, stop it, and restart it with the same and a new checkpoint."""
    first, lost, last = (context.data / "lines.txt").read_text(encoding="utf-8").splitlines()
    for line, checkpoint in (
        (first, "checkpoint"),
        (last, "checkpoint"),
        (last, "new checkpoint"),
    ):
        if line == last and checkpoint == "checkpoint":
            yield f"sent while no query runs: {lost}"
        yield f"sent to a query with a {checkpoint}: {line}"
        yield _counted(context, line, checkpoint)


def _counted(context: LessonContext, line: str, checkpoint: str) -> str:
    collector = BatchCollector()
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = context.spark.readStream.format("socket").options(
            host="127.0.0.1", port=server.getsockname()[1]
        )
        writer = (
            word_counts(source.load()).writeStream.outputMode("complete").foreachBatch(collector)
        )
        with started(writer.option("checkpointLocation", context.path(checkpoint))) as query:
            connection, _ = server.accept()
            with connection:
                connection.sendall(f"{line}\n".encode())
                try:
                    while not any("spark" in text for text in collector.texts):
                        query.processAllAvailable()
                except StreamingQueryException as error:
                    return f"refused, {error_summary(error)}"
    return collector.texts[-1].partition("\n")[2]
