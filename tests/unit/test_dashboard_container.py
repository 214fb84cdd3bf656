"""The dashboard's container: the port that `make up` chooses, and its memory."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.browser.bench import MAX_MEMORY_MB
from tests.support import ROOT

LEAST_RESERVE = 1.25
"""The limit beyond what the bench allows, for what a container's limit counts besides."""

COMPOSE = """#!/bin/sh
case $1 in
config) printf 'services:\\n  alerting:\\n    ports:\\n      - published: "1"\\n  dashboard:\\n'
  printf '    ports:\\n      - target: 8000\\n        published: "8000"\\n  kafka:\\n'
  printf '    ports:\\n      - published: "9092"\\n' ;;
port) test -n "$RUNS_AT" && echo "127.0.0.1:$RUNS_AT" ;;
run) test -z "$REFUSAL" || { echo "$REFUSAL" >&2; exit 125; } ;;
esac
"""
IN_USE = (
    "Error starting userland proxy: listen tcp4 127.0.0.1:8000: bind: address already in use",
    "Bind for 127.0.0.1:8000 failed: port is already allocated",
    "ports are not available: exposing port TCP 127.0.0.1:8000",
)


@pytest.mark.parametrize(
    ("runs_at", "refusal", "port", "said"),
    [
        ("", "", "8000", ""),
        ("", "no space left on device", "8000", ""),
        ("8000", IN_USE[0], "8000", ""),
        ("49153", "", "8000", ""),
        *(("", refusal, "0", "Port 8000 is in use") for refusal in IN_USE),
        ("49153", IN_USE[0], "49153", "Port 8000 is in use"),
    ],
)
def test_a_port_in_use_is_replaced_and_named(
    tmp_path: Path, runs_at: str, refusal: str, port: str, said: str
) -> None:
    compose = tmp_path / "compose"
    compose.write_text(COMPOSE, encoding="utf-8")
    done = subprocess.run(
        ["sh", "deploy/dashboard_port.sh"],
        cwd=ROOT,
        env=os.environ | {"COMPOSE": f"sh {compose}", "RUNS_AT": runs_at, "REFUSAL": refusal},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{port}\n"
    assert done.stderr.startswith(said)
    assert bool(done.stderr) == bool(said)


def test_the_container_may_use_more_memory_than_the_bench_allows() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    limit = compose["services"]["dashboard"]["mem_limit"]
    assert limit.endswith("m")
    assert int(limit[:-1]) * 2**20 / 1e6 >= LEAST_RESERVE * MAX_MEMORY_MB
