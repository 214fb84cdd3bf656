"""Repeat a query's last batch at its start, for plans whose timers follow the wall clock.

After a batch, Spark runs another one without records if a timer may fire in it. After a start it
knows of no batch before, and waits for a record (`MicroBatchExecution.constructNextBatch`). While
everything is silent no timer would fire, and silence is what these rules are about.
"""

from pyspark.sql import SparkSession

from spark_jobs.runtime.hadoop import file_system


def repeat_last_batch(spark: SparkSession, checkpoint: str) -> None:
    """Make the query of a checkpoint begin with the batch that it ended last, if there is one.

    The commit of that batch is removed, as if the query had been killed just before it. Spark gives
    the batch the same records and the same time again, so its outputs have the same ids.
    """

    def last(log: str) -> int | None:
        files, folder = file_system(spark, f"{checkpoint}/{log}")
        found = files.listStatus(folder) if files.exists(folder) else ()
        names = (each.getPath().getName() for each in found)
        return max((int(name) for name in names if name.isdigit()), default=None)

    committed = last("commits")
    # A batch that was begun and not ended is repeated anyway.
    if committed is not None and committed == last("offsets"):
        files, commit = file_system(spark, f"{checkpoint}/commits/{committed}")
        files.delete(commit, False)
