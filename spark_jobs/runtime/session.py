"""Start the Spark session of all jobs: its settings, and why each has its value."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from events.cli import UserFacingError
from events.files import writing
from events.settings import Settings
from jars.fetch import jar_paths

LOG4J = Path(__file__).with_name("log4j2.properties")
DAEMON = "spark_jobs.python_daemon"
"""What forks the Python workers in local mode; on a cluster its configuration decides."""
WORKER_PYTHON = Path(__file__).with_name("worker_python.sh")
"""What starts Python in local mode, unless `PYSPARK_PYTHON` names another program.

It starts the program that `WORKER_INTERPRETER` names.
"""
LOCAL_FILES = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""Hadoop's local file system, but Java sets a file's permissions.

Hadoop's own starts a chmod process for each new file and its checksum, unless Hadoop's native
library is installed: an eighth of the processor time of small batches (docs/tuning.md).
"""
METASPACE = "-XX:MetaspaceSize=256m"
"""Spark's classes and generated classes fill 170 MB.

Each time that they outgrow this size, Java collects all garbage.
"""
PARALLEL = (
    "-XX:+UseParallelGC -XX:+IgnoreUnrecognizedVMOptions -XX:-UsePSAdaptiveSurvivorSizePolicy"
)
"""With a small heap the parallel collector costs less than G1, the default.

Its survivor spaces must keep their size: if they adapt, they shrink until they overflow. Then
short-lived objects fill the old generation, whose collection stops all threads.
"""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
OBJECT_STORE_CONFIG = {CHECKPOINT_FILES: f"{_CHECKPOINTING}.FileContextBasedCheckpointFileManager"}
"""Settings for checkpoints in HDFS or an object store: this manager never replaces on rename."""

COUNT_STATE_ROWS = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"

CONFIG = {
    # Times in outputs are UTC, whatever the machine's zone.
    "spark.sql.session.timeZone": "UTC",
    # Real-time Mode refuses the default store, and only RocksDB keeps state out of the heap.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Each commit uploads changes instead of whole files.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Each version of state is named after the task that wrote it. With numbers alone, a task that
    # was given up but still runs could overwrite the state of its successor. A checkpoint does not
    # store this format, so it must not change.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # One store with column families instead of four for each partition of a join; expired rows are
    # found by time instead of by reading all rows. RocksDB only; the default is 2. A checkpoint
    # keeps the format of its first start.
    "spark.sql.streaming.join.stateFormatVersion": "4",
    # The default manager does not use LOCAL_FILES, but starts chmod and stat for each file.
    CHECKPOINT_FILES: f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    # Counting rows costs a read before every write; micro-batches of most jobs do it.
    COUNT_STATE_ROWS: "false",
    # A process that is killed in its very first batch leaves files but no commit.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # How long Real-time Mode's shuffle waits before it flushes. The default (50 ms) would be most
    # of a record's latency.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    # Every reader of Parquet knows this type; the default is an old one of Spark's own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # How often an idle query without an interval asks Kafka for new records. With the default (10
    # ms) a query and the broker use two thirds of a processor to wait (docs/tuning.md).
    "spark.sql.streaming.pollingDelay": "100ms",
    # How long to wait for a query that is stopped (the default is for ever): a driver whose query
    # hangs must be able to end.
    "spark.sql.streaming.stopTimeout": "30s",
    # A bounded history of progress: the jobs run for weeks.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Tables made in the driver (the inventory) are small: one task broadcasts them, not one for
    # each slot.
    "spark.default.parallelism": "1",
    # By default each call on a column or DataFrame first sends its line to the JVM, for the JVM's
    # error messages: a third of the driver's Python time at a start. Tracebacks have the line too.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark starts a set of Python workers for each environment that it gives them. By default,
    # stateful operators get another one than other functions, so that a rule has two sets.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Sends a large function (with the thresholds of many racks) to Python with its task. Spark
    # would make one of more than a megabyte a broadcast variable, which the Python workers of
    # stateful operators cannot read (Spark 4.3).
    "spark.broadcast.UDFCompressionThreshold": "1g",
    # No bound (the default is 64 MB). With one, Spark adds up the sizes of all columns for each
    # row: a third of the cost of handing a batch to Python. Only short values and ids go there.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}


def new_session(
    settings: Settings,
    slots: int,
    state_partitions: int,
    extra: dict[str, str] | None = None,
    java_options: str = "",
) -> SparkSession:
    """Return the session of this process.

    - `slots` is the number of tasks that can run at once in local mode.
    - `state_partitions` is the number of tasks over which state is spread. It is fixed at a
      checkpoint's first start.
    - `extra` adds to the settings here, or overrides them.
    - `java_options` are options of the JVM, such as those of `cds_archive.java_options`. One that
      may have a blank is in double quotes.

    A `spark.master` set by `spark-submit` is kept.
    """
    connector = [str(path) for path in jar_paths("spark", settings)]
    config: dict[str, str | bool | int | float | None] = {
        **CONFIG,
        "spark.sql.shuffle.partitions": str(state_partitions),
        "spark.jars": ",".join(connector),
        # A CDS archive has only classes of the class path.
        "spark.driver.extraClassPath": os.pathsep.join(connector),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Dlog4j2.configurationFile={LOG4J.as_uri()}",  # Spark splits at blanks
                METASPACE,
                _collector(java_options),
                java_options,
            ]
        ),
        "spark.sql.warehouse.dir": str((settings.rackstream_home / "warehouse").resolve()),
    }
    builder = SparkSession.builder.appName("rackstream")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit names the master itself. Its executors may lack the project's files.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", str(WORKER_PYTHON))
        os.environ["WORKER_INTERPRETER"] = sys.executable
        builder = builder.master(f"local[{slots}]").config(
            map={"spark.python.daemon.module": DAEMON, "spark.hadoop.fs.file.impl": LOCAL_FILES}
        )
    log = settings.rackstream_home / "spark.log"
    with writing(f"Spark's log {log}", "correct RACKSTREAM_HOME or the folder's owner"):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab").close()
    try:
        with redirected(2, log):  # its messages help with bugs; they are not for users
            return builder.config(map={**config, **(extra or {})}).getOrCreate()
    except (PySparkException, Py4JError, ConnectionError) as error:
        reason = str(error).splitlines()[0]
        raise UserFacingError(f"Spark did not start ({reason}): {log} has its messages.") from None


def _collector(java_options: str) -> str:
    """Return the options for the garbage collector; none where the user has chosen one.

    Java refuses to start with two (docs/tuning.md has the figures).
    """
    chosen = [
        java_options,
        *(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")),
    ]
    return "" if re.search(r"\+Use\w+GC", " ".join(chosen)) else PARALLEL


@contextmanager
def redirected(descriptor: int, file: Path) -> Iterator[None]:
    """Append what goes to standard output (1) or standard error (2) to a file meanwhile.

    A JVM that is started meanwhile keeps writing there, as do its Python workers.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    original = os.dup(descriptor)
    try:
        with file.open("ab") as target:
            os.dup2(target.fileno(), descriptor)
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(original)
