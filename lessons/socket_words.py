"""Word counts from a socket: easy to start, but the source cannot replay.

The socket source reads lines from a TCP server and holds them in the driver's memory. It cannot
request a line again, so it is suitable for experiments only.

Notice: The server sends a line on the connection of the stopped query. Nobody reads it, and the
server sees no error. The query cannot resume from its checkpoint, because the source no longer has
the data at offset 0. With a new checkpoint it starts from nothing: the first line's counts are
gone, and so is the line sent in between.
In production: `action_counts` and the other jobs read Kafka, which keeps records sent while the
jobs were down.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import BatchCollector, LessonContext, error_summary, started


def word_counts(lines: DataFrame) -> DataFrame:
    """Return `word` and `count` over a column `value` of text."""
    words = lines.select(F.explode(F.split("value", " ")).alias("word"))
    return words.groupBy("word").count()


def run(context: LessonContext) -> Iterator[str]:
    """Send lines during a query and after its end; restart it with the old and a new checkpoint."""
    first, lost, last = (context.data / "lines.txt").read_text(encoding="utf-8").splitlines()
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"sent to a query with a checkpoint: {first}"
        yield _counted(context, server, first, "checkpoint", sent_afterwards=lost)
        yield f"sent while no query runs: {lost}"
        for checkpoint in ("checkpoint", "new checkpoint"):
            yield f"sent to a query with a {checkpoint}: {last}"
            yield _counted(context, server, last, checkpoint)


def _counted(
    context: LessonContext,
    server: socket.socket,
    line: str,
    checkpoint: str,
    sent_afterwards: str | None = None,
) -> str:
    collector = BatchCollector()
    source = context.spark.readStream.format("socket").options(
        host="127.0.0.1", port=server.getsockname()[1]
    )
    writer = word_counts(source.load()).writeStream.outputMode("complete").foreachBatch(collector)
    writer = writer.option("checkpointLocation", context.path(checkpoint))
    with ExitStack() as until_the_end:
        with started(writer) as query:
            connection, _ = server.accept()
            until_the_end.enter_context(connection)
            connection.sendall(f"{line}\n".encode())
            try:
                while not any("spark" in text for text in collector.texts):
                    query.processAllAvailable()
            except StreamingQueryException as error:
                return f"refused, {error_summary(error)}"
        if sent_afterwards:
            connection.sendall(f"{sent_afterwards}\n".encode())
    return collector.texts[-1].partition("\n")[2]
