"""Setup from nothing: one sentence names what the machine lacks, and nothing is made twice."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import setup_env
from tests.support import ROOT

JAVA_8 = 'openjdk version "1.8.0_392"'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_21 = 'openjdk version "21" 2023-09-19'
JAVA_25 = 'openjdk version "25-ea" 2026-09-16'
ENGINE_LOCKS = [
    f"loadtest/engines/python/requirements-{engine}.lock" for engine in ("bytewax", "quix")
]


def fake_java(folder: Path, version_text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{version_text}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def java_refusal(monkeypatch: pytest.MonkeyPatch, path: Path, home: Path | None = None) -> str:
    """Return why the check refuses the Java of this PATH and JAVA_HOME, or nothing."""
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", str(home))
    try:
        setup_env.check_java()
    except SystemExit as ended:
        return str(ended.code)
    return ""


@pytest.mark.parametrize("version_text", [JAVA_17, JAVA_21])
def test_java_17_and_21_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version_text: str
) -> None:
    fake_java(tmp_path, version_text)
    assert java_refusal(monkeypatch, tmp_path) == ""


@pytest.mark.parametrize(
    ("version_text", "version"),
    [(JAVA_8, "8"), (JAVA_25, "25"), ("no Java here", "of an unknown version")],
)
def test_another_java_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version_text: str, version: str
) -> None:
    java = fake_java(tmp_path, version_text)
    assert java_refusal(monkeypatch, tmp_path) == (
        f"setup: Java 17 or 21 is needed, {java} is Java {version}: set JAVA_HOME to one."
    )


def test_a_machine_without_java_gets_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert java_refusal(monkeypatch, tmp_path) == (
        "setup: Java 17 or 21 is needed and none is on the PATH: "
        "install one (on Debian: openjdk-17-jre-headless)."
    )


def test_a_java_home_without_java_is_named_although_the_path_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "path", JAVA_17)
    refusal = java_refusal(monkeypatch, tmp_path / "path", tmp_path / "home")
    assert refusal.startswith(
        f"setup: Java 17 or 21 is needed and JAVA_HOME is {tmp_path / 'home'}, where none is:"
    )


def test_java_home_overrides_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", JAVA_8)
    fake_java(tmp_path / "home" / "bin", JAVA_21)
    assert java_refusal(monkeypatch, tmp_path / "path", tmp_path / "home") == ""


def test_a_java_that_cannot_be_started_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "").write_bytes(b"\x7fELF, of another machine")
    assert "is Java of an unknown version" in java_refusal(monkeypatch, tmp_path)


def test_an_old_python_is_refused_with_the_way_to_name_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(sys, "version", "3.9.2 (default)")
    with pytest.raises(SystemExit) as ended:
        setup_env.check_python()
    assert ended.value.code == (
        "setup: Python 3.11 or newer is needed, this is 3.9.2: run make PYTHON=python3.11."
    )


@pytest.mark.parametrize("lacking", ["venv", "ensurepip"])
def test_a_python_without_venv_gets_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(setup_env, "find_spec", lambda name: None if name == lacking else name)
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        setup_env.check_python()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Set up an empty folder with commands that only succeed; return the list of their calls."""
    for name, value in {
        "HERE": tmp_path,
        "VENV": tmp_path / "v",
        "STAMP": tmp_path / "v" / "stamp",
    }.items():
        monkeypatch.setattr(setup_env, name, value)
    monkeypatch.setattr(sys, "argv", ["setup_env.py"])
    monkeypatch.setattr(setup_env, "PYTHON", tmp_path / "v" / "bin" / "python")
    monkeypatch.setattr(setup_env, "LOCK", tmp_path / "lock")
    (tmp_path / "lock").write_text("one==1", encoding="utf-8")
    calls: list[list[str]] = []

    def call(command: list[str], **_: object) -> int:
        calls.append(command)
        if "venv" in command:
            (tmp_path / "v" / "bin").mkdir(parents=True)
            (tmp_path / "v" / "bin" / "python").touch()
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setattr(setup_env, "run", call)
    return calls


def made(commands: list[list[str]]) -> bool:
    """Tell whether an environment was made since the last call."""
    found = any("--require-hashes" in command for command in commands)
    commands.clear()
    return found


def test_a_second_setup_makes_nothing(checkout: list[list[str]], tmp_path: Path) -> None:
    setup_env.main()
    assert made(checkout)
    setup_env.main()
    assert not made(checkout)
    (tmp_path / "lock").write_text("one==2", encoding="utf-8")
    setup_env.main()
    assert made(checkout), "the lock changed"
    (tmp_path / "v" / "bin" / "python").unlink()
    setup_env.main()
    assert made(checkout), "its Python is missing"


def test_the_demo_does_not_wait_for_the_cds_archive(
    checkout: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = {"broker.cds_archive", "spark_jobs.runtime.cds_archive"}
    setup_env.main()
    assert archives == {command[-1] for command in checkout if command[-1] in archives}
    checkout.clear()
    monkeypatch.setattr(sys, "argv", ["setup_env.py", "--without-cds"])
    setup_env.main()
    assert any("jars" in command for command in checkout)
    assert not archives & {word for command in checkout for word in command}


def test_a_failed_install_leaves_a_sentence_and_no_stamp(
    checkout: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not checkout
    monkeypatch.setattr(subprocess, "call", lambda *_, **__: 1)
    with pytest.raises(SystemExit, match=r"setup: making \.venv failed"):
        setup_env.main()
    assert not (tmp_path / "v" / "stamp").exists()


def installers(commands: list[list[str]]) -> list[str]:
    """Return the tools that were asked to install the lock, in order."""
    return [
        "uv" if "uv" in command else "pip" for command in commands if str(setup_env.LOCK) in command
    ]


def test_uv_installs_the_lock(checkout: list[list[str]]) -> None:
    setup_env.main()
    assert installers(checkout) == ["uv"]


@pytest.mark.parametrize("failing", ["uv.lock", "lock"], ids=["uv not found", "uv fails"])
def test_pip_installs_the_lock_where_uv_cannot(
    checkout: list[list[str]], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    succeed: Callable[..., int] = subprocess.call

    def call(command: list[str], **options: object) -> int:
        succeed(command, **options)
        return int(Path(command[-1]).name == failing and (failing != "lock" or "uv" in command))

    monkeypatch.setattr(subprocess, "call", call)
    setup_env.main()
    assert installers(checkout)[-1] == "pip"
    assert setup_env.STAMP.exists()


def test_uv_is_installed_with_its_version_and_hashes_from_the_lock() -> None:
    entry = setup_env.lock_entry("uv")
    assert re.fullmatch(r"uv==[\d.]+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n)+", entry)


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock", *ENGINE_LOCKS])
def test_python_locks_have_versions_and_hashes_but_no_addresses(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    requirements = re.split(r"(?<!\\)\n", text.strip())
    for requirement in requirements:
        assert re.match(r"(?s)[\w.-]+==[^ ]+ .*--hash=sha256:", requirement), requirement


@pytest.mark.parametrize("lock", ["jars/broker.lock", "jars/spark.lock"])
def test_jar_locks_have_versions_and_hashes_but_no_addresses(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    for line in text.splitlines():
        assert re.fullmatch(r"#.*|[\w.-]+:[\w.-]+:[\w.-]+ [0-9a-f]{64}", line), line


def test_setup_needs_only_the_standard_library() -> None:
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
