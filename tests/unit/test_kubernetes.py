"""The manifests match the code: commands, options, files, ports, volumes.

`make lint` checks their schema.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
import yaml

from spark_jobs.registry import JOBS
from tests.support import ROOT
from tests.unit.test_compose import APPS

MANIFESTS = {
    f"{path.stem}/{found['kind']}/{found['metadata']['name']}": found
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for found in yaml.safe_load_all(path.read_text(encoding="utf-8"))
}
CONF = ROOT / "deploy" / "spark" / "kubernetes.conf"


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each pod's description."""
    for name, manifest in MANIFESTS.items():
        if manifest["kind"] == "Pod":
            yield name, manifest["spec"]
        elif "template" in manifest.get("spec", {}):
            yield name, manifest["spec"]["template"]["spec"]


PODS = dict(pods())


@pytest.mark.parametrize("name", PODS)
def test_pods_run_the_image_with_few_rights_and_mount_what_they_declare(name: str) -> None:
    (container,) = PODS[name]["containers"]
    assert container["image"] == "rackstream:local"
    assert PODS[name]["securityContext"]["runAsUser"] == 10001
    assert "useradd --uid 10001" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    declared = {volume["name"] for volume in PODS[name].get("volumes", [])}
    own = MANIFESTS[name].get("spec", {}).get("volumeClaimTemplates", [])
    declared |= {claim["metadata"]["name"] for claim in own}
    assert {mount["name"] for mount in container.get("volumeMounts", [])} == declared
    for volume in PODS[name].get("volumes", []):
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            assert f"common/PersistentVolumeClaim/{claim}" in MANIFESTS


@pytest.mark.parametrize("name", [name for name in PODS if "args" in PODS[name]["containers"][0]])
def test_every_command_has_only_options_that_the_program_has(name: str) -> None:
    (container,) = PODS[name]["containers"]
    words, own = container["args"], container.get("command", [])
    if own[:1] == ["bash"]:  # with_compaction.sh --archive=FOLDER COMMAND ...
        assert own[1] == "/opt/rackstream/spark/with_compaction.sh"
        assert own[2] in words, "the compaction of another archive than the job's"
        own = own[3:]
    if own == ["spark-submit"]:
        words = ["spark_jobs", *words[words.index("submit.py") + 1 :]]
    program, command, *arguments = words
    group: Any = typer.main.get_command(APPS[program])
    known = {option for parameter in group.commands[command].params for option in parameter.opts}
    assert {
        argument.partition("=")[0] for argument in arguments if argument.startswith("--")
    } <= known
    paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
    for argument in arguments:
        _, _, path = argument.partition("=")
        assert not path.startswith("/") or any(path.startswith(mounted) for mounted in paths), (
            argument
        )


@pytest.mark.parametrize("service", ["producer", "clickstream"])
def test_the_producers_send_what_the_compose_files_do(service: str) -> None:
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    (container,) = PODS[f"producer/Deployment/{service}"]["containers"]

    def scenario(words: list[str]) -> list[str]:
        return [word for word in words if not word.startswith("--ledger")]

    in_compose = [
        word.replace("${SCENARIO:-producer/scenarios/demo.yaml}", "producer/scenarios/demo.yaml")
        for word in composed["services"][service]["command"]
    ]
    assert scenario(container["args"]) == scenario(in_compose)
    assert any(word.startswith("--ledger=") for word in container["args"]), (
        "a restart would send the history again"
    )
    assert container["readinessProbe"]["exec"]["command"] == ["python", "-m", "producer", "health"]


def test_the_drivers_list_no_job_and_run_each_once() -> None:
    words = [
        word
        for name in ("real-time", "micro-batch")
        for word in PODS[f"jobs/Deployment/{name}"]["containers"][0]["args"]
    ]
    assert not set(words) & set(JOBS)
    assert {"--all-real-time", "--all-micro-batch"} <= set(words)
    assert words.count("--no-dead-letters") == 1, "the pods may lie on different hosts"


def test_who_archives_also_compacts() -> None:
    archiving = {
        name
        for name, pod in PODS.items()
        if any(word.startswith("--archive=") for word in pod["containers"][0].get("args", []))
    }
    compacting = {
        name
        for name, pod in PODS.items()
        if "with_compaction.sh" in " ".join(pod["containers"][0].get("command", []))
    }
    assert archiving == compacting == {"jobs/Deployment/micro-batch"}


@pytest.mark.parametrize("job", ["real-time", "micro-batch"])
def test_executors_find_their_driver_and_their_template(job: str) -> None:
    text = CONF.read_text(encoding="utf-8")
    conf = dict(
        line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")
    )
    (driver,) = PODS[f"jobs/Deployment/{job}"]["containers"]
    service = MANIFESTS[f"jobs/Service/{job}"]["spec"]
    assert f"--conf=spark.driver.host={job}.rackstream.svc" in driver["args"]
    assert (
        service["selector"]
        == MANIFESTS[f"jobs/Deployment/{job}"]["spec"]["selector"]["matchLabels"]
    )
    # The driver is not ready before its executors work.
    probe = driver["readinessProbe"]["exec"]["command"]
    if probe[0] == "sh":  # test_with_compaction.py has the rest of the line
        probe = probe[-1].partition(" && ")[0].split()
    assert probe == ["python", "-m", "spark_jobs", "health"]
    assert service["publishNotReadyAddresses"]
    ports = {int(conf["spark.driver.port"]), int(conf["spark.blockManager.port"])}
    assert {port["port"] for port in service["ports"]} == ports
    assert ports <= {port["containerPort"] for port in driver["ports"]}
    folder, _, template = conf["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
    assert folder in {mount["mountPath"] for mount in driver["volumeMounts"]}
    assert (ROOT / "deploy" / "kubernetes" / template).exists()
    (executor,) = PODS["executor/Pod/executor"]["containers"]
    (start,) = executor["command"]
    assert (ROOT / "deploy" / "spark" / start.rpartition("/")[2]).stat().st_mode & 0o111
