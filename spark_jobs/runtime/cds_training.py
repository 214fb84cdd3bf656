"""A training run through what jobs do, whose JVM archives its classes (see `cds_archive`)."""

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from events.records import RackReading
from events.settings import JarsSettings, Settings
from spark_jobs.runtime.kafka_io import RECORD
from spark_jobs.runtime.parsing.strict import parse
from spark_jobs.runtime.session import new_session


def make(config: JarsSettings, archive: Path, scratch_prefix: str) -> None:
    """Run a session whose JVM writes the archive when it exits, in a folder with this prefix."""
    config.jars_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=scratch_prefix, dir=config.jars_dir) as scratch:
        made = Path(scratch).resolve() / "classes.jsa"
        own = Settings(rackstream_jars=config.jars_dir, rackstream_home=Path(scratch))
        session = new_session(
            own, 2, 2, java_options=f"-XX:ArchiveClassesAtExit={made} -Xlog:disable"
        )
        _read_and_count(session, Path(scratch))
        jvm = session.sparkContext._gateway.proc  # type: ignore[union-attr]
        session.stop()
        jvm.stdin.close()  # PySpark's JVM exits at the end of its input
        jvm.wait(timeout=300)
        made.rename(archive)


def _read_and_count(session: SparkSession, scratch: Path) -> None:
    """Parse records and count them in windows, with state and a checkpoint."""
    files = scratch / "records"
    values = {"key": F.lit(b"rack"), "value": F.lit(b"{}"), "timestamp": F.current_timestamp()}
    # Made in the JVM, as the image's build has no Python workers yet.
    columns = [
        values.get(field.name, F.lit(0)).cast(field.dataType).alias(field.name)
        for field in RECORD.fields
    ]
    session.range(1).select(columns).write.parquet(str(files))
    parsed = parse(session.readStream.schema(RECORD).parquet(str(files)), RackReading)
    windows = parsed.withWatermark("timestamp", "1 minute").groupBy(
        F.window("timestamp", "1 minute"), "error"
    )
    writer = windows.count().writeStream.outputMode("update").format("noop")
    checkpoint = str(scratch / "checkpoint")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
