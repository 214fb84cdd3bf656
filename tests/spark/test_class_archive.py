"""The archive of Spark's classes: used where it fits, and in nobody's way where it does not."""

import os
import sys
from pathlib import Path
from subprocess import run

import pytest
from pyspark.sql import SparkSession

from events.settings import Settings
from spark_jobs import class_archive
from tests.support import ROOT

SCRIPT = """
from events.settings import load
from spark_jobs.session import new_session
spark = new_session(load(), 1, 1)
print(spark.range(3).count())
spark.stop()
"""


def session_with(jars: Path, home: Path) -> str:
    """Return what a small session with these jars puts out."""
    env = os.environ | {"RACKSTREAM_JARS": str(jars), "RACKSTREAM_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what a process has mapped")
def test_the_sessions_jvm_has_its_classes_from_the_archive(spark: SparkSession) -> None:
    archive = class_archive.archive_path(Settings())
    assert archive.exists(), "make setup makes it"
    jvm = spark._jvm
    assert jvm is not None
    arguments = list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
    assert f"-XX:SharedArchiveFile={archive.resolve()}" in arguments
    maps = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps").read_text(encoding="utf-8")
    assert archive.name in maps, "a JVM maps it if it fits"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_an_archive_that_does_not_fit_or_is_none_is_passed_over_in_silence(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "spark").symlink_to((Settings().jars_dir / "spark").resolve())
    assert session_with(jars, tmp_path) == "3\n"
    config = Settings(rackstream_jars=jars)
    class_archive.archive_path(config).write_bytes(b"no archive" * 1000)
    assert class_archive.java_options(config)
    assert session_with(jars, tmp_path) == "3\n"


def test_another_java_or_other_packages_have_an_archive_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Settings(rackstream_jars=tmp_path)
    here = class_archive.archive_path(config)
    assert class_archive.java_options(config) == ""
    here.touch()
    assert str(here) in class_archive.java_options(config)
    with monkeypatch.context() as other:
        other.setattr(sys, "prefix", "/elsewhere")
        assert class_archive.archive_path(config) != here
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    with monkeypatch.context() as other:
        other.setenv("JAVA_HOME", str(tmp_path / "java"))
        first = class_archive.archive_path(config)
        (tmp_path / "java" / "release").write_text("17.0.99", encoding="utf-8")
        assert len({here, first, class_archive.archive_path(config)}) == 3


def test_an_archive_takes_the_place_of_its_environments_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Settings(rackstream_jars=tmp_path)
    with monkeypatch.context() as other:
        other.setattr(class_archive, "version", lambda _: "4.0.0")
        before = class_archive.archive_path(config)
        other.setattr(sys, "prefix", "/elsewhere")
        elsewhere = class_archive.archive_path(config)
    before.touch()
    elsewhere.touch()
    monkeypatch.setenv("RACKSTREAM_JARS", str(tmp_path))
    monkeypatch.setattr("spark_jobs.class_training.make", lambda _, archive: archive.touch())
    class_archive.main()
    assert set(tmp_path.iterdir()) == {class_archive.archive_path(config), elsewhere}
