"""The script that runs the archive's compaction beside a driver."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import ROOT, eventually, kill

SCRIPT = ROOT / "deploy" / "spark" / "with_compaction.sh"
FAKES = {
    # The compaction fails each time.
    "python": 'echo "$@" >>compactions\nexit 1',
    # The archive is made while the script waits for it. A pause after a compaction takes no time,
    # but the second one never ends.
    "sleep": """if [ ! -d "the folder" ]; then
  echo "$@ before $(cat compactions 2>/dev/null)" >>waits
  mkdir -p "the folder/landing"
else
  echo "$@" >>pauses
  [ "$(wc -l <pauses)" -lt 2 ] || exec cat never
fi""",
    # The driver runs until it gets a signal.
    "driver": 'printf "%s\\n" "$$" "$@" end >driver\nexec cat never',
}
COMPACTION = "-m spark_jobs compact --every=1h --archive=the folder"


@pytest.fixture
def script(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the script with programs that only note how they are called."""
    os.mkfifo(tmp_path / "never")  # nobody writes to it, so that its readers wait
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, lines in FAKES.items():
        (programs / name).write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    process = subprocess.Popen(
        ["bash", SCRIPT, "--archive=the folder", "driver", "run", "two words"],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # in a container, the end of the driver does this
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)


def lines_of(file: Path) -> list[str]:
    """Return the lines that have been written; none while there is no file."""
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_the_driver_replaces_the_shell_and_ends_it_at_a_signal(
    script: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    said = eventually(lambda: lines_of(tmp_path / "driver"), lambda lines: "end" in lines)
    assert said == [str(script.pid), "run", "two words", "end"]
    assert kill(script, signal.SIGTERM) == -signal.SIGTERM


def test_the_compaction_waits_for_the_archive_and_is_started_again_when_it_fails(
    script: "subprocess.Popen[bytes]",  # noqa: ARG001
    tmp_path: Path,
) -> None:
    pauses = eventually(lambda: lines_of(tmp_path / "pauses"), lambda lines: len(lines) >= 2)
    assert pauses == ["60", "60"]
    assert lines_of(tmp_path / "waits") == ["5 before "], "no compaction without an archive"
    assert lines_of(tmp_path / "compactions") == [COMPACTION, COMPACTION]
