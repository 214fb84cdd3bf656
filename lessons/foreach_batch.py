"""foreachBatch: your own code runs for every batch, with as many sinks as needed.

The function runs in the driver, with a DataFrame and the batch number. Everything that works on a
static DataFrame works on it: several sinks, formats that no stream can write, MERGE. Each action
computes the batch again unless the DataFrame is persisted.

Notice: Without `persist`, the rows were computed once for every sink. The function may run again
with the same number, so it has to be idempotent (lesson idempotent_upsert).
In production: No job uses it. `archive` writes Parquet with the file sink, and the others write to
topics. Whoever reads a topic decides what else to do.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end, format_table


def run(context: LessonContext) -> Iterator[str]:
    """Write each batch as CSV and Parquet, and count computations with and without persist."""
    devices = context.stream("device string, signal double", "1.json", "2.json")
    computed = context.spark.sparkContext.accumulator(0)

    @F.udf("double")
    def doubled(signal: float) -> float:
        computed.add(1)
        return 2 * signal

    for persist in (False, True):
        before = computed.value

        def write(rows: DataFrame, number: int, persist: bool = persist) -> None:
            if persist:
                rows.persist()
            rows.write.mode("overwrite").csv(context.path(f"csv/batch={number}"))
            rows.write.mode("overwrite").parquet(context.path(f"parquet/batch={number}"))
            rows.unpersist()

        await_end(
            devices.select("device", doubled("signal").alias("double"))
            .writeStream.foreachBatch(write)
            .trigger(availableNow=True)
            .start()
        )
        yield f"persist={persist}: 3 rows to 2 sinks, computed {computed.value - before} times"
    for kind, reader in (
        ("csv", context.spark.read.schema("device string, double double")),
        ("parquet", context.spark.read),
    ):
        yield f"{kind}\n{format_table(reader.format(kind).load(context.path(kind)))}"
