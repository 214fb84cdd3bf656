"""The CDS archive of Spark's classes: the session uses it, and new packages get another."""

import os
import shlex
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from events.settings import Settings
from spark_jobs.runtime import cds_archive


def test_packages_installed_again_get_an_archive_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pyspark"
    (package / "jars").mkdir(parents=True)
    jar = package / "jars" / "spark.jar"
    jar.touch()
    monkeypatch.setattr(pyspark, "__path__", [str(package)])
    before = cds_archive.archive(Settings()).path
    os.utime(jar, (0, 0))
    assert cds_archive.archive(Settings()).path != before


def test_the_options_of_an_archive_in_a_folder_with_a_blank_are_quoted(tmp_path: Path) -> None:
    config = Settings(rackstream_jars=tmp_path / "with a blank")
    assert cds_archive.java_options(config) == ""
    path = cds_archive.archive(config).path
    path.parent.mkdir()
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in shlex.split(cds_archive.java_options(config))


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="only Linux tells what a process has mapped"
)
def test_the_session_loads_its_classes_from_the_archive(spark: SparkSession) -> None:
    archive = cds_archive.archive(Settings()).path
    assert archive.exists(), "make setup makes it"
    jvm = spark._jvm
    assert jvm is not None
    arguments = list(
        jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    )
    assert f"-XX:SharedArchiveFile={archive.resolve()}" in arguments
    maps = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps").read_text(
        encoding="utf-8"
    )
    assert archive.name in maps, "a JVM maps it if it fits"
    consumer = jvm.java.lang.Class.forName("org.apache.kafka.clients.consumer.KafkaConsumer")
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    assert consumer.getClassLoader().equals(loader), "an archive has classes of this loader only"
