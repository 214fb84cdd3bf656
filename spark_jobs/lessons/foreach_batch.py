"""foreachBatch: a whole batch as a table, to as many sinks as you like.

The function runs in the driver with a DataFrame and the batch's number. Everything that works on tables works on it:
several sinks, formats that no stream can write, `show`, MERGE. Each action computes the batch anew, so persist it.

Notice: Without `persist` the rows were computed once for every sink. The function may run again for the same number,
so what it does should be the same when it is done twice (lesson idempotent_upsert).
In production: The jobs write to topics, and leave what else is to be done to those who read them.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish, table


def run(lab: Lab) -> Iterator[str]:
    """Write each batch as CSV and as Parquet, with and without persisting it, and count the computations."""
    devices = lab.stream("device string, signal double", "1.json", "2.json")
    computed = lab.spark.sparkContext.accumulator(0)

    @F.udf("double")
    def doubled(signal: float) -> float:
        computed.add(1)
        return 2 * signal

    for persist in (False, True):
        before = computed.value

        def write(rows: DataFrame, number: int, persist: bool = persist) -> None:
            if persist:
                rows.persist()
            rows.write.mode("overwrite").csv(lab.path(f"csv/batch={number}"))
            rows.write.mode("overwrite").parquet(lab.path(f"parquet/batch={number}"))
            rows.unpersist()

        finish(
            devices.select("device", doubled("signal").alias("double"))
            .writeStream.foreachBatch(write)
            .trigger(availableNow=True)
            .start()
        )
        yield f"persist={persist}: 3 rows to 2 sinks, computed {computed.value - before} times"
    for kind, reader in (
        ("csv", lab.spark.read.schema("device string, double double")),
        ("parquet", lab.spark.read),
    ):
        yield f"{kind}\n{table(reader.format(kind).load(lab.path(kind)))}"
