"""Which state store: what RocksDB and the HDFS-backed store cost in rows, memory and files.

The default, `HDFSBackedStateStoreProvider`, keeps the state of every partition in a map of the JVM,
and the last two versions of it. So memory grows with the rows, and the garbage collector has to
follow them. `RocksDBStateStoreProvider` keeps rows outside the heap, in write buffers, and beyond
those in files on local disk: a large state costs disk and a lookup per row.

Both write the changes of each batch to the checkpoint: the first as `.delta` files, RocksDB as
`.changelog` files when changelog checkpointing is on (otherwise it uploads its own files), and both
a snapshot from time to time. RocksDB does not know how many rows it holds. To count them it looks
up each key before it writes it (`trackTotalNumberOfRows`, on by default), so the price of the count
is a read for every write.

Data: 10,000 user names that the lesson generates, in files of 500, 9,500, and 10 known ones.
Notice: Without tracking RocksDB reads nothing to write 10 rows, and reports 0 rows. Twenty times as
many rows take more than ten times the memory of the HDFS-backed store, not of RocksDB, which begins
with a write buffer of 1 MB. The third batch has only 10 rows. It still nearly doubles the memory of
the HDFS-backed store, which keeps two versions. The bytes and times are measured, so they are
printed after the output. The store is chosen at a checkpoint's first start: the restart with
RocksDB wrote another `.delta`.
In production: `user_totals`, as every job, uses RocksDB, since Real-time Mode and own state in
transformWithState accept no other store. `ad_attribution` and `deduplicate` do not count the rows,
which saves the reads.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from lessons.harness.context import LessonContext, await_end, outcome
from lessons.own_totals import with_processor

OPTION = "spark.sql.streaming.stateStore"
HDFS, ROCKSDB = (
    f"org.apache.spark.sql.execution.streaming.state.{name}StateStoreProvider"
    for name in ("HDFSBacked", "RocksDB")
)
RUNS = {
    "HDFSBackedStateStoreProvider": (HDFS, "true"),
    "RocksDBStateStoreProvider": (ROCKSDB, "true"),
    "RocksDBStateStoreProvider without trackTotalNumberOfRows": (ROCKSDB, "false"),
}


def counted(context: LessonContext, checkpoint: str) -> list[StreamingQueryProgress]:
    """Count the names so far; return the progress of the new batches."""
    names = context.spark.readStream.option("maxFilesPerTrigger", 1).text(context.path("input"))
    counts = names.groupBy("value").count().writeStream.outputMode("update").format("noop")
    writer = counts.option("checkpointLocation", context.path(checkpoint))
    query = writer.trigger(availableNow=True).start()
    await_end(query)
    return query.recentProgress


def files_of_state(context: LessonContext, checkpoint: str) -> list[str]:
    """Return the names of the files in the state of the only partition."""
    folder = context.folder / checkpoint / "state" / "0" / "0"
    return sorted(path.name for path in folder.glob("[0-9]*.*"))


def run(context: LessonContext) -> Iterator[str]:
    """Count the same names with each store, and restart the first count with the other."""
    conf = context.spark.conf
    conf.unset(f"{OPTION}.providerClass")
    default = str(conf.get(f"{OPTION}.providerClass"))
    yield f"without a setting: {default.rpartition('.')[2]}"
    conf.set(f"{OPTION}.checkpointFormatVersion", "1")  # the HDFS-backed store has no other
    for number, (first, last) in enumerate(((0, 500), (500, 10_000), (0, 10))):
        names = "\n".join(f"user{n}" for n in range(first, last))
        context.add_file(names, f"input/{number}.txt")
    for name, (provider, track) in RUNS.items():
        conf.set(f"{OPTION}.providerClass", provider)
        conf.set(f"{OPTION}.rocksdb.trackTotalNumberOfRows", track)
        batches = counted(context, name)
        states = [batch.stateOperators[0] for batch in batches]
        yield f"{name}\n  rows after each batch: {[state.numRowsTotal for state in states]}"
        yield f"  rows written in each batch: {[state.numRowsUpdated for state in states]}"
        if provider == ROCKSDB:
            last_metrics = states[-1].customMetrics
            reads, writes = (last_metrics[f"rocksdb{kind}Count"] for kind in ("Get", "Put"))
            yield f"  in the last batch: {reads} reads to write {writes} rows"
        memory = [state.memoryUsedBytes for state in states]
        yield f"  more than 10 times the memory for 20 times the rows: {memory[1] > 10 * memory[0]}"
        yield f"  half as much again for a batch of 10 rows: {memory[2] > 1.5 * memory[1]}"
        yield f"  in the checkpoint: {', '.join(files_of_state(context, name))}"
        took = [batch.durationMs["addBatch"] for batch in batches]
        context.measurements.append(f"{name}: memory in bytes {memory}, batches in ms {took}")
    context.add_file("user0", "input/3.txt")
    counted(context, "HDFSBackedStateStoreProvider")
    written = files_of_state(context, "HDFSBackedStateStoreProvider")
    yield f"the first checkpoint, restarted with RocksDB: {written[-1]}"
    conf.set(f"{OPTION}.providerClass", HDFS)
    rows = context.spark.readStream.text(context.path("input"))
    amounts = rows.select(F.col("value").alias("userId"), F.lit(1).alias("amount"))
    totals = with_processor(amounts).writeStream.outputMode("update").format("noop")
    yield f"transformWithState with the HDFS-backed store: {outcome(totals.start)}"
