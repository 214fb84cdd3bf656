"""One run through what jobs do, whose JVM archives the classes that it took (`class_archive` says what for)."""

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from events.records import RackReading
from events.settings import Settings
from spark_jobs.kafka import RECORD
from spark_jobs.parsing import parse
from spark_jobs.session import new_session


def make(config: Settings, archive: Path) -> None:
    """Run a session, and let its JVM write the archive when it ends."""
    config.jars_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=config.jars_dir) as scratch:
        made = Path(scratch).resolve() / "classes.jsa"
        own = Settings(rackstream_jars=config.jars_dir, rackstream_home=Path(scratch))
        session = new_session(own, 2, 2, java_options=f"-XX:ArchiveClassesAtExit={made} -Xlog:disable")
        _read_and_count(session, Path(scratch))
        jvm = session.sparkContext._gateway.proc  # type: ignore[union-attr]
        session.stop()
        jvm.stdin.close()  # by which PySpark's JVM sees that it is to end
        jvm.wait(timeout=300)
        made.rename(archive)


def _read_and_count(session: SparkSession, scratch: Path) -> None:
    """Parse, and count in windows with state and a checkpoint."""
    files = scratch / "records"
    table = session.createDataFrame([(b"rack", b"{}", 0, 0, None)], RECORD)
    table.withColumn("timestamp", F.current_timestamp()).write.parquet(str(files))
    parsed = parse(session.readStream.schema(RECORD).parquet(str(files)), RackReading)
    windows = parsed.withWatermark("timestamp", "1 minute").groupBy(
        F.window("timestamp", "1 minute"), "error"
    )
    query = (
        windows.count().writeStream.outputMode("update").format("noop")
        .option("checkpointLocation", str(scratch / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
