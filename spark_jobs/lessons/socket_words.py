"""Words from a socket, counted: the first stream that everybody writes, and why nobody keeps it.

The socket source reads lines from a TCP server and holds them in the driver's memory. It has no way to ask for a line
again, so it is for trying things out only.

Notice: After a stop, the query cannot go on from its checkpoint: the source has forgotten what offset 0 was. Without
the checkpoint it begins from nothing: the first line's counts are gone, and so is the line that came in between.
In production: The jobs read Kafka, which keeps what was sent while they were down.
"""

import socket
from collections.abc import Iterator

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Batches, Lab, reason, started


def word_counts(lines: DataFrame) -> DataFrame:
    """Return `word` and `count` over a column `value` of text."""
    words = lines.select(F.explode(F.split("value", " ")).alias("word"))
    return words.groupBy("word").count()


def run(lab: Lab) -> Iterator[str]:
    """Send a line to a query over a real socket; then stop it, and start it again with and without checkpoint."""
    first, lost, last = (lab.data / "lines.txt").read_text(encoding="utf-8").splitlines()
    for line, checkpoint in ((first, "checkpoint"), (last, "checkpoint"), (last, "another")):
        if line == last and checkpoint == "checkpoint":
            yield f"sent while no query runs: {lost}"
        yield f"sent to a query with {checkpoint}: {line}"
        yield _counted(lab, line, checkpoint)


def _counted(lab: Lab, line: str, checkpoint: str) -> str:
    shown = Batches()
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = lab.spark.readStream.format("socket").options(host="127.0.0.1", port=server.getsockname()[1])
        writer = word_counts(source.load()).writeStream.outputMode("complete").foreachBatch(shown)
        with started(writer.option("checkpointLocation", lab.path(checkpoint))) as query:
            connection, _ = server.accept()
            with connection:
                connection.sendall(f"{line}\n".encode())
                try:
                    while not any("spark" in text for text in shown.texts):
                        query.processAllAvailable()
                except StreamingQueryException as error:
                    return f"refused, {reason(error)}"
    return shown.texts[-1].partition("\n")[2]
