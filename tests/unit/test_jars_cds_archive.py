"""CDS archives: used where they fit, silently ignored elsewhere, replaced by newer ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from events.cli import UserFacingError
from events.settings import Settings
from jars.cds_archive import SCRATCH_PREFIX, CdsArchive, modified, of_lock
from jars.java import java


@pytest.fixture
def archive(tmp_path: Path) -> CdsArchive:
    """Return an archive that does not exist; its path has a blank."""
    folder = tmp_path / "with a blank"
    folder.mkdir()
    return CdsArchive(folder, "spark", ("4.0.0",))


def train(scratch: Path, option: str) -> None:
    """Write what a JVM would write at its exit."""
    assert scratch.is_dir()
    Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"classes")


def test_a_broken_archive_and_one_of_other_classes_are_ignored_without_output(
    archive: CdsArchive,
) -> None:
    of_the_broker = of_lock("broker", Settings()).path
    assert of_the_broker.exists(), "make setup makes it"
    for content in (b"no archive" * 1000, of_the_broker.read_bytes()):
        archive.path.write_bytes(content)
        command = [java(), *archive.java_options(), "-cp", "elsewhere.jar", "-version"]
        assert len(command) > 4
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout == ""


def test_another_java_environment_or_version_has_its_own_archive(
    archive: CdsArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = archive.path
    assert archive.java_options() == []
    here.touch()
    assert f"-XX:SharedArchiveFile={here}" in archive.java_options()
    assert CdsArchive(archive.folder, "spark", ("4.0.1",)).path != here
    with monkeypatch.context() as other:
        other.setattr(sys, "prefix", "/elsewhere")
        assert archive.path != here
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    with monkeypatch.context() as other:
        other.setenv("JAVA_HOME", str(tmp_path / "java"))
        first = archive.path
        (tmp_path / "java" / "release").write_text("17.0.99", encoding="utf-8")
        assert len({here, first, archive.path}) == 3


def test_a_jar_that_was_written_again_changes_the_versions(tmp_path: Path) -> None:
    jars = [tmp_path / "one.jar", tmp_path / "two.jar"]
    for seconds, jar in enumerate(jars):
        jar.touch()
        os.utime(jar, (seconds, seconds))
    before = modified(jars)
    os.utime(jars[0], (5, 5))
    assert modified(jars) != before
    assert modified([]) == "0"


def test_a_new_archive_replaces_the_older_ones_of_its_program_and_environment(
    archive: CdsArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CdsArchive(archive.folder, "spark", ("3.9.0",)).path
    others = [CdsArchive(archive.folder, "broker", ("3.9.0",)).path]
    with monkeypatch.context() as other:
        other.setattr(sys, "prefix", "/elsewhere")
        others.append(CdsArchive(archive.folder, "spark", ("3.9.0",)).path)
    for path in (before, *others):
        path.touch()
    archive.make(train, "classes")
    assert {*archive.folder.iterdir()} == {archive.path, *others}
    assert archive.path.read_bytes() == b"classes"


def test_an_archive_that_exists_is_not_made_again(archive: CdsArchive) -> None:
    archive.path.write_bytes(b"made before")
    archive.make(train, "classes")
    assert archive.path.read_bytes() == b"made before"


def test_a_training_run_that_fails_is_reported_and_leaves_nothing(
    archive: CdsArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise UserFacingError("no port is free")

    archive.make(fail, "classes (a minute, once)")
    assert [*archive.folder.iterdir()] == []
    assert capsys.readouterr().err == (
        "setup: making the CDS archive of classes (a minute, once); Ctrl-C skips it ...\n"
        "setup: that failed (no port is free); everything works without it, but starts later.\n"
    )


def test_the_folder_of_a_killed_training_run_is_removed(archive: CdsArchive) -> None:
    killed, running = (archive.folder / f"{SCRATCH_PREFIX}{n}" for n in ("killed", "running"))
    killed.mkdir()
    running.mkdir()
    os.utime(killed, (0, 0))
    archive.path.touch()
    archive.make(train, "classes")
    assert {*archive.folder.iterdir()} == {archive.path, running}
