"""How many rows were lost? The figure that Spark reports is a lower bound.

`numRowsDroppedByWatermark` counts where late rows are dropped: after the partial aggregation, in which all rows of a
group in a task have become one. Only an operator without partial aggregation reports rows.

Notice: 10,000 rows of 2,784 racks came too late, and 2,784 are reported. The number of rows that came in and the sum of
what was counted give the true figure. Deduplication, which does not aggregate first, reports all of them.
In production: The jobs' metrics call this figure a lower bound; the producer's truth knows how many were sent late.
"""

import json
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Batches, Lab, started


def run(lab: Lab) -> Iterator[str]:
    """Send one reading that moves the watermark, then 10,000 that are late, to a count and to a deduplication."""
    plan = json.loads((lab.data / "plan.json").read_bytes())

    def lines(ts: str, count: int) -> str:
        return "\n".join(
            json.dumps({"id": at, "rack": f"rack{at % plan['racks']}", "ts": ts}) for at in range(count)
        )

    queries = {
        "count per rack and hour": lambda late: late.groupBy(F.window("ts", "1 hour"), "rack").count(),
        "deduplication": lambda late: late.dropDuplicates(["id", "ts"]),
    }
    for name, query_of in queries.items():
        lab.write(lines(plan["newest"], 1), f"{name}/1.json")
        readings = lab.stream("id long, rack string, ts timestamp", into=name)
        rows: DataFrame = query_of(readings.withWatermark("ts", "10 minutes"))
        counted = Batches()
        with started(rows.writeStream.outputMode("update" if name[0] == "c" else "append").foreachBatch(counted)) as query:
            query.processAllAvailable()
            lab.write(lines(plan["late"], plan["late_rows"]), f"{name}/2.json")
            query.processAllAvailable()
            batches = [batch for batch in query.recentProgress if batch.numInputRows]
            dropped = [batch.stateOperators[0].numRowsDroppedByWatermark for batch in batches]
        came = [batch.numInputRows for batch in batches]
        yield f"{name}: rows that came {came}, reported as dropped {dropped}"
        yield counted.new()
