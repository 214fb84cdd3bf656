"""The session's own settings, as far as no job shows their effect."""

import gc
import re
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.runtime.session import LOCAL_FILES


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux counts page faults")
def test_checkpoint_files_on_a_local_disk_start_no_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm = spark._jvm
    assert jvm is not None
    pid = jvm.java.lang.ProcessHandle.current().pid()

    def faults_of_ended_processes() -> int:
        """Return how many page faults the processes had that the JVM started and that ended."""
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return int(stat.rpartition(")")[2].split()[8])

    before = faults_of_ended_processes()
    checkpoint = tmp_path / "checkpoint"
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query.trigger(once=True).start().awaitTermination(60)
    assert (checkpoint / "commits" / "0").stat().st_mode & 0o777 == 0o644
    assert faults_of_ended_processes() == before, LOCAL_FILES


def test_workers_load_the_installed_packages(spark: SparkSession) -> None:
    where = F.udf(lambda: f"{pyspark.__file__}:{':'.join(sys.path)}", "string")().alias("paths")
    row = spark.range(1).select(where).first()
    assert row is not None
    assert row.paths.partition(":")[0] == pyspark.__file__
    assert re.findall(r"pyspark\.zip|py4j-[^:]*\.zip|[^:]*\.jar", row.paths) == []


def test_workers_do_not_look_through_their_packages_for_garbage(spark: SparkSession) -> None:
    def looked_through() -> int:
        return len(gc.get_objects())

    count = F.udf(looked_through, "long")().alias("objects")
    row = spark.range(1).select(count).first()
    assert row is not None
    loaded = len(gc.get_objects())
    assert row.objects < loaded / 10, "gc.freeze() in spark_jobs.python_daemon"
