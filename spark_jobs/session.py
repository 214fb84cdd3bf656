"""The Spark session, once for all jobs: connector jars, state store, time zone, and why each setting is what it is."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from events.cli import PersonError
from events.settings import Settings
from jars.fetch import jar_paths
from spark_jobs import class_archive

LOG4J = Path(__file__).with_name("log4j2.properties")
METASPACE = "-XX:MetaspaceSize=256m"
"""Spark's classes and generated ones fill 170 MB; each time that they outgrow its guess, Java collects everything."""
PARALLEL = "-XX:+UseParallelGC -XX:+IgnoreUnrecognizedVMOptions -XX:-UsePSAdaptiveSurvivorSizePolicy"
"""With a small heap it costs less than G1, the default. Its survivor spaces, left to themselves, shrink until they
overflow: what is short-lived fills the old generation, and a collection of that stops all for 180 ms each minute."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
NOT_ON_A_DISK = {CHECKPOINT_FILES: f"{_CHECKPOINTING}.FileContextBasedCheckpointFileManager"}
"""Where a checkpoint lies in HDFS or an object store: only this one asks for a rename that replaces nothing."""

CONFIG = {
    # Times in outputs are UTC, whatever the machine's zone.
    "spark.sql.session.timeZone": "UTC",
    # Real-time Mode refuses the default store, and only RocksDB keeps state out of the heap.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Uploads what changed instead of whole files at each commit.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Names a version of state by who wrote it: by number alone, a task taken for dead could be believed.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # One store with column families instead of four for each partition of a join, and expired rows are found by time
    # instead of by reading all of them. RocksDB only; the default is 2. Fixed at a checkpoint's first start, as above.
    "spark.sql.streaming.join.stateFormatVersion": "4",
    # The usual manager of a checkpoint's files starts a chmod on a local disk for each of them: a third of the
    # processor time of small batches.
    CHECKPOINT_FILES: f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    # Counting rows costs a read before every write.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # A process killed in its very first batch leaves files behind without having committed anything.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # How long Real-time Mode's shuffle waits before it flushes: most of a record's latency by default (50 ms).
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    # As every reader of Parquet has them, and to the microsecond; the default is an old format of Spark's own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Bounded progress history; the jobs of a session are few and run for weeks.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Tables made here (the inventory) are small: broadcast by one task, not by one for every slot.
    "spark.default.parallelism": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A large function (with the thresholds of many racks) goes to Python with its task. Beyond a megabyte it would be
    # a broadcast variable, which the workers that keep state cannot read (Spark 4.3).
    "spark.broadcast.UDFCompressionThreshold": "1g",
    # No bound (the default is 64 MB): to know a batch's size Spark looks at all its columns for every row, a third of
    # what handing it to Python costs. Values that go there are short (`quick_reading`), and so are ids.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}


def new_session(
    settings: Settings,
    slots: int,
    state_partitions: int,
    extra: dict[str, str] | None = None,
    java_options: str | None = None,
) -> SparkSession:
    """Return the session of this process.

    `slots` is how many tasks can run at once in local mode (real-time queries hold theirs for ever),
    `state_partitions` over how many tasks state is spread (fixed at a checkpoint's first start), `extra` what
    overrides or adds to the settings here, `java_options` what the JVM is started with instead of the archive of its
    classes. A `spark.master` set by `spark-submit` is kept.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if java_options is None:
        java_options = class_archive.java_options(settings)
    connector = ",".join(str(path) for path in jar_paths("spark", settings))
    config: dict[str, str | bool | int | float | None] = {
        **CONFIG,
        "spark.sql.shuffle.partitions": str(state_partitions),
        "spark.jars": connector,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile={LOG4J}", METASPACE, _collector(java_options), java_options]
        ),
        "spark.sql.warehouse.dir": str((settings.rackstream_home / "warehouse").resolve()),
    }
    builder = SparkSession.builder.appName("rackstream")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not started by spark-submit, which names the master itself
        builder = builder.master(f"local[{slots}]")
    log = settings.rackstream_home / "spark.log"
    try:
        with _standard_error_to(log):
            return builder.config(map={**config, **(extra or {})}).getOrCreate()
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        raise PersonError(f"Spark did not start ({reason}): see {log} for its own words.") from None


def _collector(java_options: str) -> str:
    """Return the options for the garbage collector.

    Nothing where another is chosen already: Java refuses to start with two (docs/tuning.md has the figures).
    """
    chosen = [java_options, *(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))]
    return "" if re.search(r"\+Use\w+GC", " ".join(chosen)) else PARALLEL


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """Let the JVM started meanwhile, and its Python workers, write their errors to a file: for bugs, not for people."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
