"""The containers name their alerting database once, on a volume, and let alerting end in order."""

from typing import Any

import pytest

from alerting.incidents import publisher
from alerting.notifications import delivery
from tests.unit.test_compose import OURS, volumes
from tests.unit.test_kubernetes import PODS

COMPOSE = OURS["alerting"]
POD_SPEC = PODS["alerting/StatefulSet/alerting"]
(POD,) = POD_SPEC["containers"]
DEPLOYMENTS: dict[str, tuple[Any, list[str], dict[str, str], list[str]]] = {
    "Compose": (
        COMPOSE["command"],
        COMPOSE["healthcheck"]["test"],
        COMPOSE["environment"],
        list(volumes(COMPOSE)),
    ),
    "Kubernetes": (
        POD["args"],
        POD["readinessProbe"]["exec"]["command"],
        {each["name"]: each["value"] for each in POD.get("env", [])},
        [mount["mountPath"] for mount in POD["volumeMounts"]],
    ),
}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_command_in_the_container_finds_the_database_without_a_path(name: str) -> None:
    command, health_check, environment, mount_paths = DEPLOYMENTS[name]
    assert command == ["alerting", "run"]
    assert health_check[-4:] == ["python", "-m", "alerting", "health"]
    folder, _, file_name = environment["ALERTING_DATABASE"].rpartition("/")
    assert folder in mount_paths and file_name


def test_a_container_is_not_killed_while_alerting_ends() -> None:
    grace_s = {
        "Compose": int(COMPOSE["stop_grace_period"].removesuffix("s")),
        "Kubernetes": POD_SPEC.get("terminationGracePeriodSeconds", 30),  # its default
    }
    longest_s = publisher.SHUTDOWN_SECONDS + delivery.SHUTDOWN_SECONDS
    assert min(grace_s.values()) > longest_s, grace_s
