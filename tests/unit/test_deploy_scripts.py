"""The scripts of `make up…` and `make verdict`: which containers they start, stop and judge."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

COMPOSE = """#!/bin/sh
echo "$* $DATA_SUFFIX $ARCHIVE_SUFFIX $CLOSED_WINDOWS" >>"$CALLS"
case $* in
*" ps "*) echo "$MADE" ;;
*" run "*verdict*) exit "$STATUS" ;;
*config*) printf '  dashboard:\\n        published: "8000"\\n' ;;
"port dashboard"*) echo 127.0.0.1:8000 ;;
*logs*) echo "2026-01-01T00:00:00Z error WARNING rack-overheating" ;;
esac
"""
SINGLE = "kafka\nalerting\nproducer\nreal-time"
CLUSTER = "kafka\nalerting\nproducer\ncluster-micro-batch"
BROKERS = "kafka-1\nkafka-2\nkafka-3\nalerting\nproducer\nreal-time"


def run_script(
    folder: Path, name: str, made: str, status: int = 0, form: str = ""
) -> tuple[int, str, list[str]]:
    """Run a script with a Compose that has made these services; return its calls, too."""
    compose, calls = folder / "compose", folder / "calls"
    compose.write_text(COMPOSE, encoding="utf-8")
    env = {
        "COMPOSE": f"sh {compose}",
        "CALLS": str(calls),
        "MADE": made,
        "STATUS": str(status),
        "FORM": form,
        "THREE_BROKERS": "DATA_SUFFIX=three-brokers",
    }
    done = subprocess.run(
        ["sh", f"deploy/{name}.sh"],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, calls.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("made", "target", "suffixes"),
    [
        (SINGLE, "up", "  "),
        (CLUSTER, "up-cluster", " cluster --no-closed-windows"),
        (BROKERS, "up-brokers", "three-brokers  "),
    ],
)
@pytest.mark.parametrize("status", [0, 1])
def test_the_verdict_judges_the_containers_that_were_made_and_says_how_to_resume(
    tmp_path: Path, made: str, target: str, suffixes: str, status: int
) -> None:
    result, said, calls = run_script(tmp_path, "verdict", made, status)
    assert result == status
    assert said == f"The producers have ended. Resume: make {target}. Stop: make down.\n"
    assert calls[1:] == [
        f"stop --timeout 60 producer clickstream {suffixes}",
        f"--profile verdict run --rm --no-deps verdict {suffixes}",
    ]


def test_a_verdict_without_containers_stops_nothing(tmp_path: Path) -> None:
    result, said, calls = run_script(tmp_path, "verdict", "")
    assert (result, len(calls)) == (1, 1)
    assert said == "There are no containers: start them with make up.\n"


@pytest.mark.parametrize(
    ("made", "form", "stopped"),
    [
        ("", "up", ""),
        (SINGLE, "up", ""),
        (SINGLE, "up-brokers", "up"),
        (CLUSTER, "up-cluster", ""),
        (CLUSTER, "up", "up-cluster"),
        (BROKERS, "up-cluster", "up-brokers"),
    ],
)
def test_containers_of_another_form_are_removed_before_the_start(
    tmp_path: Path, made: str, form: str, stopped: str
) -> None:
    result, said, calls = run_script(tmp_path, "up", made, form=form)
    assert result == 0, said
    downs = [number for number, call in enumerate(calls) if call.startswith("--profile * down")]
    ups = [number for number, call in enumerate(calls) if call.startswith("up --detach")]
    assert len(ups) == 1
    if stopped:
        assert f"Stopping the containers of make {stopped}; their data stays.\n" in said
        assert len(downs) == 1
        assert downs < ups
    else:
        assert "Stopping" not in said
        assert downs == []
    assert any("logs --no-log-prefix --since 20" in call for call in calls)


@pytest.mark.parametrize("made", ["", SINGLE, CLUSTER, BROKERS])
def test_monitoring_is_added_to_the_containers_that_were_made(tmp_path: Path, made: str) -> None:
    result, said, calls = run_script(tmp_path, "monitoring", made)
    assert result == 0, said
    (up,) = [call.strip() for call in calls if " up --detach" in call]
    wanted = "--profile monitoring up --detach --wait "
    added = wanted + "--no-deps prometheus alertmanager grafana"
    assert up == (added if made in (CLUSTER, BROKERS) else f"{wanted}--remove-orphans")
    assert [call for call in calls if " down" in call] == []
