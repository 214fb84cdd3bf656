"""Setting up from nothing: what is missing or wrong on the machine is said in one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import setup_env
from tests.support import ROOT

JAVA_8 = 'openjdk version "1.8.0_392"'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_21 = 'openjdk version "21" 2023-09-19'
JAVA_25 = 'openjdk version "25-ea" 2026-09-16'


def fake_java(folder: Path, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def sentence(monkeypatch: pytest.MonkeyPatch, path: Path, home: Path | None = None) -> str:
    """Return what the check of Java says with this PATH and JAVA_HOME, nothing when it is content."""
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", str(home))
    try:
        setup_env.check_java()
    except SystemExit as ended:
        return str(ended.code)
    return ""


@pytest.mark.parametrize("says", [JAVA_17, JAVA_21])
def test_java_17_and_21_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    fake_java(tmp_path, says)
    assert sentence(monkeypatch, tmp_path) == ""


@pytest.mark.parametrize(
    ("says", "version"), [(JAVA_8, "8"), (JAVA_25, "25"), ("no Java here", "of an unknown version")]
)
def test_another_java_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, version: str
) -> None:
    java = fake_java(tmp_path, says)
    assert sentence(monkeypatch, tmp_path) == (
        f"setup: Java 17 or 21 is needed, {java} is Java {version}: set JAVA_HOME to one."
    )


def test_a_machine_without_java_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert sentence(monkeypatch, tmp_path) == (
        "setup: Java 17 or 21 is needed and none is on the PATH: "
        "install one (on Debian: openjdk-17-jre-headless)."
    )


def test_a_java_home_without_java_is_named_although_the_path_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "path", JAVA_17)
    said = sentence(monkeypatch, tmp_path / "path", tmp_path / "home")
    assert said.startswith(
        f"setup: Java 17 or 21 is needed and JAVA_HOME is {tmp_path / 'home'}, where none is:"
    )


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", JAVA_8)
    fake_java(tmp_path / "home" / "bin", JAVA_21)
    assert sentence(monkeypatch, tmp_path / "path", tmp_path / "home") == ""


def test_a_java_that_cannot_be_started_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "").write_bytes(b"\x7fELF, of another machine")
    assert "is Java of an unknown version" in sentence(monkeypatch, tmp_path)


def test_an_old_python_is_told_how_to_name_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(sys, "version", "3.9.2 (default)")
    with pytest.raises(SystemExit) as ended:
        setup_env.check_python()
    assert ended.value.code == (
        "setup: Python 3.11 or newer is needed, this is 3.9.2: run make PYTHON=python3.11."
    )


@pytest.mark.parametrize("lacking", ["venv", "ensurepip"])
def test_a_python_that_cannot_make_environments_is_told_the_package(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(setup_env, "find_spec", lambda name: None if name == lacking else name)
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        setup_env.check_python()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Set up an empty folder instead of this one, with commands noted and believed; return those noted."""
    for name, value in {"HERE": tmp_path, "VENV": tmp_path / "v", "STAMP": tmp_path / "v" / "stamp"}.items():
        monkeypatch.setattr(setup_env, name, value)
    monkeypatch.setattr(setup_env, "PYTHON", tmp_path / "v" / "bin" / "python")
    monkeypatch.setattr(setup_env, "LOCK", tmp_path / "lock")
    (tmp_path / "lock").write_text("one==1", encoding="utf-8")
    noted: list[list[str]] = []

    def call(command: list[str], **_: object) -> int:
        noted.append(command)
        if "venv" in command:
            (tmp_path / "v" / "bin").mkdir(parents=True)
            (tmp_path / "v" / "bin" / "python").touch()
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    return noted


def made(commands: list[list[str]]) -> bool:
    """Tell whether an environment was made since the last question."""
    found = any("--require-hashes" in command for command in commands)
    commands.clear()
    return found


def test_the_second_time_nothing_is_made(checkout: list[list[str]], tmp_path: Path) -> None:
    setup_env.main()
    assert made(checkout)
    setup_env.main()
    assert not made(checkout)
    (tmp_path / "lock").write_text("one==2", encoding="utf-8")
    setup_env.main()
    assert made(checkout), "another lock, another environment"
    (tmp_path / "v" / "bin" / "python").unlink()
    setup_env.main()
    assert made(checkout), "its Python is gone"


def test_a_failure_leaves_no_stamp_and_a_sentence(
    checkout: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not checkout
    monkeypatch.setattr(subprocess, "call", lambda *_, **__: 1)
    with pytest.raises(SystemExit, match=r"setup: making \.venv failed"):
        setup_env.main()
    assert not (tmp_path / "v" / "stamp").exists()


def test_it_needs_nothing_but_the_standard_library() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "setup_env.py")],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines() == [
        "setup: Java 17 or 21 is needed and none is on the PATH: "
        "install one (on Debian: openjdk-17-jre-headless)."
    ]
    assert done.returncode == 1
