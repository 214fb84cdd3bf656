"""Fetching the jars: every lock's folder appears complete and checked, or not at all."""

import hashlib
from pathlib import Path

import pytest

from events.cli import UserFacingError
from events.settings import ENV_FILE_VARIABLE, Settings
from jars import fetch as jars_fetch
from jars.__main__ import fetch_command
from jars.fetch import JARS_PER_PROCESS, Jar, fetch, is_current, jar_paths, read_lock, relock


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return settings with an empty jars folder and two small locks; Ivy fetches `jar NAME`."""
    locks = {"broker": JARS_PER_PROCESS + 1, "spark": 2}
    for lock, count in locks.items():
        lines = [f"# {lock}", *(f"org:{lock}-{i}:1.0 {_digest(lock, i)}" for i in range(count))]
        (tmp_path / f"{lock}.lock").write_text("\n".join(lines) + "\n", encoding="utf-8")
    paths = {lock: tmp_path / f"{lock}.lock" for lock in locks}
    monkeypatch.setattr(jars_fetch, "LOCKS", paths)
    monkeypatch.setattr(jars_fetch, "_run_ivy", _fake_ivy)
    return Settings(rackstream_jars=tmp_path / "jars")


def _digest(lock: str, number: int) -> str:
    return hashlib.sha256(f"jar {lock}-{number}".encode()).hexdigest()


def _fake_ivy(jars: list[Jar], _scratch: Path, _number: int, target: Path) -> str:
    target.mkdir(exist_ok=True)
    for jar in jars:
        (target / jar.file_name).write_text(f"jar {jar.artifact}", encoding="utf-8")
    return ""


def test_missing_jars_are_fetched_once(settings: Settings) -> None:
    assert fetch(["broker", "spark"], settings) == JARS_PER_PROCESS + 3
    assert all(path.exists() for path in jar_paths("broker", settings))
    assert fetch(["broker", "spark"], settings) == 0
    assert {path.name for path in settings.jars_dir.iterdir()} == {"broker", "spark"}


def test_an_edited_lock_is_fetched_again_and_the_other_is_not(settings: Settings) -> None:
    fetch(["broker", "spark"], settings)
    lock = jars_fetch.LOCKS["spark"]
    lock.write_text(f"org:spark-7:1.0 {_digest('spark', 7)}\n", encoding="utf-8")
    assert fetch(["broker", "spark"], settings) == 1
    assert [path.name for path in jar_paths("spark", settings)] == ["spark-7-1.0.jar"]


def test_a_jar_that_was_deleted_is_noticed_and_fetched_again(settings: Settings) -> None:
    fetch(["spark"], settings)
    jar = jar_paths("spark", settings)[1]
    jar.unlink()
    with pytest.raises(UserFacingError, match="run make setup"):
        jar_paths("spark", settings)
    assert fetch(["spark"], settings) == 2
    assert jar.exists()


def test_a_jar_with_another_sha256_is_refused_and_nothing_is_kept(settings: Settings) -> None:
    lock = jars_fetch.LOCKS["spark"]
    lock.write_text(f"org:spark-0:1.0 {'0' * 64}\n", encoding="utf-8")
    with pytest.raises(UserFacingError, match=f"spark.lock wants {'0' * 64}"):
        fetch(["broker", "spark"], settings)
    assert not is_current("broker", settings)
    assert list(settings.jars_dir.iterdir()) == []


def test_jars_that_cannot_be_fetched_are_counted_and_the_log_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars_fetch, "_run_ivy", lambda *_: "no route to host")
    with pytest.raises(UserFacingError, match=r"^2 of 2 jars .* the first spark-0-1\.0\.jar: "):
        fetch(["spark"], settings)
    assert (settings.jars_dir / "ivy.log").read_text(encoding="utf-8") == "no route to host"


def test_a_folder_that_was_not_fetched_is_refused_and_not_touched(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = settings.jars_dir / "spark" / "mine.jar"
    mine.parent.mkdir(parents=True)
    mine.touch()
    monkeypatch.setenv("RACKSTREAM_JARS", str(settings.jars_dir))
    with pytest.raises(UserFacingError) as error:
        fetch_command()
    assert str(error.value) == (
        f"the jars cannot be written to {settings.jars_dir} ({mine.parent} has files that were not "
        "fetched): correct that, or set RACKSTREAM_JARS to another folder."
    )
    assert [path for path in settings.jars_dir.rglob("*") if path.is_file()] == [mine]


def test_with_such_a_folder_in_the_env_file_the_demo_still_gets_its_jars(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_env_file(tmp_path, monkeypatch, b"RACKSTREAM_JARS=own\n")
    mine = tmp_path / "own" / "spark" / "mine.jar"
    mine.parent.mkdir(parents=True)
    mine.touch()
    fetch_command()
    assert "(own/spark has files that were not fetched): correct RAC" in capsys.readouterr().err
    assert is_current("spark", Settings(rackstream_jars=tmp_path / ".rackstream" / "jars"))
    assert not is_current("spark", settings)
    assert mine.exists()


def test_an_empty_folder_is_filled(settings: Settings) -> None:
    (settings.jars_dir / "spark").mkdir(parents=True)
    assert fetch(["spark"], settings) == 2


@pytest.mark.parametrize("mistake", ["KAFKA_BOOTSTRAP_SERVERS=nowhere", "TOPIC_PREFIX=a b"])
def test_jars_go_where_the_demo_and_where_the_programs_look_whatever_else_env_says(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    write_env_file(tmp_path, monkeypatch, f"RACKSTREAM_JARS=own\n{mistake}\n".encode())
    fetch_command()
    assert is_current("spark", Settings(rackstream_jars=tmp_path / "own"))
    assert is_current("spark", Settings(rackstream_jars=tmp_path / ".rackstream" / "jars"))
    assert not is_current("spark", settings)


@pytest.mark.parametrize("text", [b"RACKSTREAM_JARS=\xff\n", b"RACKSTREAM_JARS=/proc/none\n"])
def test_the_demo_gets_its_jars_with_an_env_file_that_no_program_can_use(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    write_env_file(tmp_path, monkeypatch, text)
    fetch_command()
    assert is_current("spark", Settings(rackstream_jars=tmp_path / ".rackstream" / "jars"))
    assert not is_current("spark", settings)


def test_the_jars_of_one_lock_can_be_fetched_alone(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RACKSTREAM_JARS", str(settings.jars_dir))
    fetch_command("spark")
    assert is_current("spark", settings)
    assert not is_current("broker", settings)
    with pytest.raises(UserFacingError, match="there is no lock 'java': choose one of broker, sp"):
        fetch_command("java")


def write_env_file(folder: Path, monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """Write a `.env` that programs read, and enter its folder."""
    (folder / ".env").write_bytes(text)
    monkeypatch.chdir(folder)
    for name in (ENV_FILE_VARIABLE, "RACKSTREAM_JARS", "RACKSTREAM_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_lock_writes_the_sha256_of_edited_versions(settings: Settings) -> None:
    lock = jars_fetch.LOCKS["spark"]
    lock.write_text("# kept\norg:spark-5:2.0\n", encoding="utf-8")
    relock(["spark"], settings)
    assert lock.read_text(encoding="utf-8") == f"# kept\norg:spark-5:2.0 {_digest('spark', 5)}\n"
    assert [jar.coordinates for jar in read_lock("spark")] == ["org:spark-5:2.0"]
