"""The CDS archive of Spark's classes: used where it fits, silently ignored elsewhere."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from subprocess import run

import pyspark
import pytest
from pyspark.sql import SparkSession

from events.settings import Settings
from jars.java import java
from spark_jobs.runtime import cds_archive


def test_packages_installed_again_get_an_archive_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pyspark"
    (package / "jars").mkdir(parents=True)
    jar = package / "jars" / "spark.jar"
    jar.touch()
    monkeypatch.setattr(pyspark, "__path__", [str(package)])
    before = cds_archive.archive_path(Settings())
    os.utime(jar, (0, 0))
    assert cds_archive.archive_path(Settings()) != before


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="only Linux tells what a process has mapped"
)
def test_the_session_loads_its_classes_from_the_archive(spark: SparkSession) -> None:
    archive = cds_archive.archive_path(Settings())
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


def printed_by_a_jvm_with(archive: Path, config: Settings) -> str:
    """Return the standard output of a JVM of another class path that is to use the archive."""
    shutil.copyfile(archive, cds_archive.archive_path(config))
    options = shlex.split(cds_archive.java_options(config))
    assert options
    command = [java(), *options, "-cp", "elsewhere.jar", "-version"]
    return run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_broken_archive_and_one_of_other_classes_are_ignored_without_output(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"no archive" * 1000)
    config = Settings(rackstream_jars=tmp_path)
    assert printed_by_a_jvm_with(broken, config) == ""
    assert printed_by_a_jvm_with(cds_archive.archive_path(Settings()), config) == ""


def test_another_java_or_environment_has_its_own_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "with a blank"
    jars.mkdir()
    config = Settings(rackstream_jars=jars)
    here = cds_archive.archive_path(config)
    assert cds_archive.java_options(config) == ""
    here.touch()
    assert f"-XX:SharedArchiveFile={here}" in shlex.split(cds_archive.java_options(config))
    with monkeypatch.context() as other:
        other.setattr(sys, "prefix", "/elsewhere")
        assert cds_archive.archive_path(config) != here
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    with monkeypatch.context() as other:
        other.setenv("JAVA_HOME", str(tmp_path / "java"))
        first = cds_archive.archive_path(config)
        (tmp_path / "java" / "release").write_text("17.0.99", encoding="utf-8")
        assert len({here, first, cds_archive.archive_path(config)}) == 3


def test_a_new_archive_replaces_the_older_ones_of_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Settings(rackstream_jars=tmp_path)
    with monkeypatch.context() as other:
        other.setattr(cds_archive, "version", lambda _: "4.0.0")
        before = cds_archive.archive_path(config)
        other.setattr(sys, "prefix", "/elsewhere")
        elsewhere = cds_archive.archive_path(config)
    before.touch()
    elsewhere.touch()
    monkeypatch.setenv("RACKSTREAM_JARS", str(tmp_path))
    monkeypatch.setattr(
        "spark_jobs.runtime.cds_training.make", lambda _, archive, __: archive.touch()
    )
    cds_archive.main()
    assert set(tmp_path.iterdir()) == {cds_archive.archive_path(config), elsewhere}


def test_the_folder_of_a_killed_training_run_is_removed(tmp_path: Path) -> None:
    config = Settings(rackstream_jars=tmp_path)
    killed, running = (tmp_path / f"{cds_archive.SCRATCH_PREFIX}{n}" for n in ("killed", "running"))
    killed.mkdir()
    running.mkdir()
    os.utime(killed, (0, 0))
    cds_archive.remove_older(config)
    assert list(tmp_path.iterdir()) == [running]
