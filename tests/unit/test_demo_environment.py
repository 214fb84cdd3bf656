"""The demo and the tests ignore a person's `.env` and pager; the programs by themselves do not."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from alerting import config
from demo.environment import ignore_personal_settings
from events import settings
from tests.support import ROOT

PRINT_CHANNELS = """
import os
from alerting import config
from events import settings
print("compose ignores .env:", os.environ.get("COMPOSE_DISABLE_ENV_FILE"))
channels = [channel.name[:9] for channel in config.load().channels()]
print("channels:", channels, settings.load().topic_prefix, settings.load().metrics_port)
"""
TEST_THAT_PRINTS_CHANNELS = f"""
import subprocess, sys

def test_what_a_program_of_a_test_reads():
    subprocess.run([sys.executable, "-c", {PRINT_CHANNELS!r}], check=True)
"""


@pytest.fixture
def personal_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write a `.env` that pages, enter its folder, and return an environment that notifies."""
    (tmp_path / ".env").write_text(
        "ALERTING_PAGERDUTY_KEY=somebody\nTOPIC_PREFIX=personal-\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(settings.ENV_FILE_VARIABLE, raising=False)
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "ALERTING_PAGERDUTY_KEY": "somebody",
        "alerting_apprise_urls": "json://localhost",
        "METRICS_PORT": "9464",
    }


def run(environment: dict[str, str], *arguments: str) -> str:
    """Run Python and return all that it printed."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    ).stdout


def test_a_program_by_itself_reads_the_env_file(personal_environment: dict[str, str]) -> None:
    assert "channels: ['pagerduty', 'apprise-j'] personal- 9464" in run(
        personal_environment, "-c", PRINT_CHANNELS
    )


def test_programs_of_the_tests_see_no_channels_and_no_metrics_port(
    personal_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("__init__.py", "calibration.py", "conftest.py", "promises.py", "support.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / "tests" / "test_it.py").write_text(TEST_THAT_PRINTS_CHANNELS, encoding="utf-8")
    command = ("-m", "pytest", "-s", "-c", str(ROOT / "pyproject.toml"), "--rootdir=.", "tests")
    said = run(personal_environment, *command, "-p", "no:cacheprovider")
    assert "compose ignores .env: 1\nchannels: []  None\n" in said


def test_programs_of_the_demo_see_no_channels_and_no_metrics_port(
    personal_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in personal_environment.items():
        monkeypatch.setenv(name, value)
    assert config.load().channels()
    ignore_personal_settings()
    assert "channels: []  None\n" in run(dict(os.environ), "-c", PRINT_CHANNELS)


def test_the_demo_ignores_an_env_file_that_would_stop_any_other_program(
    personal_environment: dict[str, str],
) -> None:
    Path(".env").write_text("KAFKA_BOOTSTRAP_SERVERS=nowhere\n", encoding="utf-8")
    jars = str(settings.Settings(_env_file=None).jars_dir)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        said = run(
            {**personal_environment, "RACKSTREAM_JARS": str((ROOT / jars).resolve())},
            *("-m", "demo", "run", f"--port={port}"),
        )
    assert f"demo: port {port} is in use by " in said
