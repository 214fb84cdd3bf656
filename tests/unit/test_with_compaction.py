"""The script that runs the archive's compaction beside a driver."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT, eventually, kill
from tests.unit.test_kubernetes import PODS

SCRIPT = ROOT / "deploy" / "spark" / "with_compaction.sh"
FAILURES, COMPACTIONS = 12, 14
FAKES = {
    # The first compactions fail, as the last one does.
    "python": f"""echo "$@" >>compactions
number=$(wc -l <compactions)
[ "$number" -gt {FAILURES} ] && [ "$number" -lt {COMPACTIONS} ]""",
    # The archive is made while the script waits for it. A pause after a compaction takes no time,
    # but the last one never ends.
    "sleep": f"""if [ ! -d "the folder" ]; then
  echo "$@ before $(cat compactions 2>/dev/null)" >>waits
  mkdir -p "the folder/landing"
else
  echo "$@ $(cat compaction-failed 2>/dev/null)" >>pauses
  [ "$(wc -l <pauses)" -lt {COMPACTIONS} ] || exec cat never
fi""",
    # The driver runs until it gets a signal.
    "driver": 'printf "%s\\n" "$$" "$@" end >driver\nexec cat never',
}
COMPACTION = "-m spark_jobs compact --archive=the folder"


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
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
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


def test_the_compaction_waits_for_the_archive_and_is_made_again_whether_or_not_it_fails(
    script: "subprocess.Popen[bytes]",  # noqa: ARG001
    tmp_path: Path,
) -> None:
    noted = eventually(
        lambda: lines_of(tmp_path / "pauses"), lambda lines: len(lines) == COMPACTIONS
    )
    assert lines_of(tmp_path / "waits") == ["5 before "], "no compaction without an archive"
    assert lines_of(tmp_path / "compactions") == [COMPACTION] * COMPACTIONS
    minutes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 60, 1]
    said = [
        f"Compactions that have failed in a row: {failures}. The next one begins in {pause} min."
        for failures, pause in enumerate(minutes[:FAILURES], 1)
    ]
    # A single failure is not noted: it may be that another compaction was running.
    in_the_file = ["", *said[1:], "", ""]
    assert noted == [
        f"{60 * pause} {text}" for pause, text in zip(minutes, in_the_file, strict=True)
    ]


def health_checks() -> dict[str, str]:
    """Return the shell command that checks each container which the script starts."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    checks = {}
    for service in ("micro-batch", "cluster-micro-batch"):
        kind, checks[service] = compose["services"][service]["healthcheck"]["test"]
        assert kind == "CMD-SHELL"
    (container,) = PODS["jobs/Deployment/micro-batch"]["containers"]
    *shell, checks["on Kubernetes"] = container["readinessProbe"]["exec"]["command"]
    assert shell == ["sh", "-c"]
    return checks


@pytest.mark.parametrize("check", health_checks().values(), ids=health_checks())
@pytest.mark.parametrize("driver_status", [0, 1])
@pytest.mark.parametrize("failed", ["", "Compactions that have failed in a row: 2."])
def test_the_container_is_unhealthy_while_the_driver_is_or_compactions_have_failed(
    tmp_path: Path, check: str, driver_status: int, failed: str
) -> None:
    assert "/tmp/compaction-failed" in check
    if failed:
        (tmp_path / "compaction-failed").write_text(failed, encoding="utf-8")
    health = 'test "$*" = "-m spark_jobs health" && exit "$DRIVER_STATUS"'
    (tmp_path / "python").write_text(f"#!/bin/sh\n{health}\n", encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", check.replace("/tmp/", f"{tmp_path}/")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "DRIVER_STATUS": str(driver_status)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (not failed and not driver_status)
    assert done.stdout == ("" if driver_status else failed)
