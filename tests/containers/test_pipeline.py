"""The pipeline over a broker in a container, compared with the producer's truth."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from broker.server import free_port
from broker.topics import create_topics
from demo.comparison import Row
from demo.verdict import compare_alerts, compare_dead_letters
from events.topics import DEAD_LETTERS
from tests.demo import read_truth
from tests.support import ROOT, Kafka, run

pytestmark = pytest.mark.full

SCENARIO = """
racks: 20
rate: 400
seed: 7
faults:
  - {fault: overheating, racks: 4, start_s: 1, length_s: 1, every_s: 2, stagger_s: 0.2}
  - {fault: duplicate, share: 0.04}
  - {fault: late, share: 0.02, max_s: 2}
  - {fault: out-of-order, share: 0.02}
  - {fault: malformed, share: 0.002}
"""


def broker_of_the_stack() -> dict[str, Any]:
    """Return the Compose file's broker: its image with the tag, and its settings."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return dict(compose["services"]["kafka"])


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    """Run the Compose file's broker, reachable from this machine, with all topics."""
    described, port = broker_of_the_stack(), free_port()
    settings = {name: str(value) for name, value in described["environment"].items()} | {
        "KAFKA_ADVERTISED_LISTENERS": f"INSIDE://localhost:9092,HOST://localhost:{port}",
        "KAFKA_HEAP_OPTS": "-Xmx384m -XX:TieredStopAtLevel=1",
    }
    container = (
        DockerContainer(described["image"]).with_envs(**settings).with_bind_ports(9094, port)
    )
    container.waiting_for(LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(60))
    with container:
        found = Kafka(f"localhost:{port}", "containers-")
        create_topics(found.bootstrap, found.prefix)
        yield found


def test_alerts_and_dead_letters_match_the_truth_over_a_broker_in_a_container(
    kafka: Kafka, tmp_path: Path
) -> None:
    scenario, inventory, truth_file = (
        tmp_path / name for name in ("s.yaml", "racks.jsonl", "truth.jsonl")
    )
    scenario.write_text(SCENARIO, encoding="utf-8")
    sent = run(
        "producer", "run", f"--scenario={scenario}", "--duration=10", f"--inventory={inventory}",
        f"--truth={truth_file}", env=kafka.env,
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr
    decided = run(
        "spark_jobs", "run", "overheating", "--trigger=available-now", f"--inventory={inventory}",
        f"--checkpoint-root={tmp_path / 'checkpoints'}", env=kafka.env, timeout_s=240,
    )  # fmt: skip
    assert decided.returncode == 0, decided.stderr[-2000:]
    logged = run(
        "alerting",
        "run",
        f"--database={tmp_path / 'alerts.sqlite3'}",
        "--idle-exit=1",
        env=kafka.env,
    )
    assert logged.returncode == 0, logged.stderr

    truth = read_truth(truth_file)
    alerts: list[Row] = [msgspec.json.decode(line) for line in logged.stdout.splitlines()]
    verdict = compare_alerts(truth.alerts, alerts)
    assert (verdict.missing, verdict.wrong) == ([], [])
    assert verdict.expected >= 20
    dead_letters = [
        msgspec.json.decode(record.value or b"") for record in kafka.read_all(DEAD_LETTERS)
    ]
    found = compare_dead_letters(truth.dead_letters, dead_letters)
    assert (found.missing, found.wrong) == ([], [])
    assert found.expected >= 1
    # The comparison is one that can fail.
    assert len(compare_alerts(truth.alerts, alerts[1:]).missing) == 1
