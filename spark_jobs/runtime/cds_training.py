"""Run through what jobs do in a JVM that archives its classes (see `cds_archive`)."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from events.records import RackReading
from events.settings import JarsSettings, Settings
from events.topics import RACK_READINGS
from events.triggers import Trigger
from jars.java import QUICK_JAVA
from spark_jobs.runtime.kafka_io import RECORD, ReadOptions, read_topic, to_record
from spark_jobs.runtime.parsing import parse
from spark_jobs.runtime.session import new_session


def train(config: JarsSettings, scratch: Path, option: str) -> None:
    """Run a session with an option of its JVM in a new folder, until the JVM has exited."""
    own = Settings(rackstream_jars=config.jars_dir, rackstream_home=scratch)
    session = new_session(own, 2, 2, java_options=f'"{option}" -Xlog:disable {QUICK_JAVA}')
    _read_and_count(session, scratch)
    _make_kafka_clients(session, own)
    jvm = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    session.stop()
    jvm.stdin.close()  # PySpark's JVM exits at the end of its input
    jvm.wait(timeout=300)


def _make_kafka_clients(session: SparkSession, settings: Settings) -> None:
    """Load the classes of the connector, of Kafka's clients, and of tables from Python.

    The clients are closed before they have looked for a broker.
    """
    session.createDataFrame(pa.table({"rack": ["rack-0001"]})).collect()
    raw = read_topic(session, settings, RACK_READINGS, Trigger.MICRO_BATCH, ReadOptions())
    parse(raw, RackReading, in_jvm=True).select(to_record(F.col("rack_id"), "rack_id")).schema  # noqa: B018
    jvm: Any = session._jvm
    bytes_ = "org.apache.kafka.common.serialization.ByteArray"
    options = {
        "bootstrap.servers": "127.0.0.1:9",
        "key.serializer": f"{bytes_}Serializer",
        "value.serializer": f"{bytes_}Serializer",
        "key.deserializer": f"{bytes_}Deserializer",
        "value.deserializer": f"{bytes_}Deserializer",
    }
    clients = jvm.org.apache.kafka.clients
    at_once = jvm.java.time.Duration.ZERO
    clients.producer.KafkaProducer(options).close(at_once)
    clients.consumer.KafkaConsumer(options).close(at_once)
    clients.admin.Admin.create(options).close(at_once)


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
    stream = session.readStream.schema(RECORD).parquet(str(files))
    parsed = parse(stream, RackReading, in_jvm=True)
    windows = parsed.withWatermark("timestamp", "1 minute").groupBy(
        F.window("timestamp", "1 minute"), "error"
    )
    writer = windows.count().writeStream.outputMode("update").format("noop")
    checkpoint = str(scratch / "checkpoint")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
