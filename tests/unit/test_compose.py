"""The containers' files say what the code says: versions, settings, commands, volumes, gates, memory."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from alerting.__main__ import app as alerting_app
from broker.__main__ import app as broker_app
from events import settings, topics
from jars.fetch import read_lock
from producer.__main__ import app as producer_app
from spark_jobs.__main__ import app as spark_jobs_app
from tests.support import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PACKAGES = ("alerting", "broker", "events", "jars", "producer", "spark_jobs")
APPS = {
    "alerting": alerting_app,
    "broker": broker_app,
    "producer": producer_app,
    "spark_jobs": spark_jobs_app,
}
SETTINGS = {name.upper() for name in settings.Settings.model_fields}
ONE_SHOTS = {"topic-init", "world"}
BUDGET_MIB = 4096


def env_example() -> dict[str, str]:
    """Return the settings of .env.example, those in comments too."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", "\n".join(lines), re.MULTILINE))


def volumes(service: dict[str, Any]) -> dict[str, str]:
    """Return a service's volumes by where they are mounted."""
    pairs = (entry.split(":") for entry in service.get("volumes", []))
    return {target: name for name, target, *_ in pairs}


def test_the_broker_is_the_version_that_runs_without_docker() -> None:
    (kafka,) = (jar for jar in read_lock("broker") if jar.artifact == "kafka_2.13")
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{kafka.version}"


def test_every_image_is_pinned_and_no_line_asks_a_registry_for_the_builder() -> None:
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    stages = re.findall(r"^FROM .* AS (\S+)", DOCKERFILE, re.MULTILINE)
    assert {image for image in images if image not in stages} == {"python:3.11-slim-bookworm"}
    assert "syntax=" not in DOCKERFILE
    assert {service["image"] for service in OURS.values()} == {"rackstream:local"}


def test_the_services_of_the_stack_are_there() -> None:
    assert set(SERVICES) == {
        "kafka",
        "topic-init",
        "world",
        "producer",
        "realtime",
        "micro-batch",
        "alerting",
    }


def test_the_memory_limits_add_up_to_the_stated_budget() -> None:
    limits = {name: int(service["mem_limit"].removesuffix("m")) for name, service in SERVICES.items()}
    assert sum(limits.values()) == BUDGET_MIB
    assert "add up to 4 GiB" in (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["realtime", "micro-batch"])
def test_spark_is_given_less_heap_than_its_container_has(name: str) -> None:
    (heap,) = re.findall(r"spark\.driver\.memory=(\d+)m", " ".join(SERVICES[name]["command"]))
    assert int(heap) + 400 <= int(SERVICES[name]["mem_limit"].removesuffix("m"))


def test_every_named_volume_is_declared_and_used_and_belongs_to_the_images_user() -> None:
    mounted = {name for service in SERVICES.values() for name in volumes(service).values()}
    assert mounted == set(COMPOSE["volumes"])
    made = " ".join(re.findall(r"/var/lib/rackstream/\S+", DOCKERFILE)).split()
    assert {target for service in OURS.values() for target in volumes(service)} == set(made)


def test_the_volume_of_the_broker_is_where_its_data_lies() -> None:
    log_dirs = SERVICES["kafka"]["environment"]["KAFKA_LOG_DIRS"]
    assert volumes(SERVICES["kafka"]) == {log_dirs: "kafka-data"}


def test_paths_in_commands_lie_on_volumes() -> None:
    for name, service in OURS.items():
        for path in re.findall(r"=(/\S+)", " ".join(service["command"])):
            assert any(path.startswith(target) for target in volumes(service)), f"{name} loses {path}"


def test_the_broker_proves_its_health_on_the_port_that_the_programs_use() -> None:
    port = OURS["alerting"]["environment"]["KAFKA_BOOTSTRAP_SERVERS"].rpartition(":")[2]
    kafka = SERVICES["kafka"]
    assert kafka["healthcheck"]["test"][-1] == f"</dev/tcp/localhost/{port}"
    assert f"INSIDE://:{port}" in kafka["environment"]["KAFKA_LISTENERS"]
    assert f"INSIDE://kafka:{port}" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_the_host_reaches_the_broker_on_a_port_that_can_be_set() -> None:
    kafka = SERVICES["kafka"]
    (published,) = kafka["ports"]
    outside, inside = published.removeprefix("127.0.0.1:").rsplit(":", 1)
    assert outside == "${KAFKA_HOST_PORT:-9092}"
    assert f"HOST://:{inside}" in kafka["environment"]["KAFKA_LISTENERS"]
    assert f"HOST://localhost:{outside}" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_the_broker_never_makes_a_topic_by_itself() -> None:
    assert SERVICES["kafka"]["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert topics.TOPIC_CONFIG == {"message.timestamp.type": "LogAppendTime"}, "topic-init sets it per topic"


def test_nothing_starts_before_what_it_needs() -> None:
    done = {"condition": "service_completed_successfully"}
    gates = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    assert gates["topic-init"] == {"kafka": {"condition": "service_healthy"}}
    for name in ("producer", "realtime", "micro-batch"):
        assert gates[name] == {"topic-init": done, "world": done}, name
    assert gates["alerting"] == {"topic-init": done}
    for name in OURS:
        assert SERVICES[name]["restart"] == ("on-failure" if name in ONE_SHOTS else "unless-stopped"), name


def test_the_jobs_and_the_producer_have_the_same_world() -> None:
    (told,) = (part for part in SERVICES["world"]["command"] if part.startswith("--inventory"))
    (scenario,) = (part for part in SERVICES["world"]["command"] if part.startswith("--scenario"))
    assert scenario in SERVICES["producer"]["command"]
    assert (ROOT / scenario.partition("=")[2]).exists()
    for name in ("realtime", "micro-batch"):
        assert told in SERVICES[name]["command"], name


@pytest.mark.parametrize("name", OURS)
def test_each_program_runs_with_as_few_rights_as_it_can(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service, "the image's user is not root"
    assert not service.get("privileged")


def test_the_image_ends_as_a_user_who_is_not_root() -> None:
    (user,) = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert f" {user}" in DOCKERFILE.split("useradd", 1)[1].splitlines()[0]


@pytest.mark.parametrize("name", OURS)
def test_every_setting_given_to_a_program_is_one_that_it_knows(name: str) -> None:
    assert set(OURS[name]["environment"]) <= SETTINGS


def test_the_images_settings_are_known() -> None:
    given = set(re.findall(r"^(?:ENV| {3}) ([A-Z_]+)=", DOCKERFILE, re.MULTILINE))
    assert given - SETTINGS == {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "SPARK_LOCAL_DIRS"}
    assert {"RACKSTREAM_HOME", "RACKSTREAM_JARS"} <= given


@pytest.mark.parametrize("name", OURS)
def test_every_command_has_only_options_that_the_program_has(name: str) -> None:
    program, command, *arguments = OURS[name]["command"]
    assert 'ENTRYPOINT ["python", "-m"]' in DOCKERFILE
    group: Any = typer.main.get_command(APPS[program])
    known = {option for parameter in group.commands[command].params for option in parameter.opts}
    given = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    assert given <= known


def test_variables_that_the_file_asks_for_are_in_the_example() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{([A-Z_]+)", text)) <= set(env_example())


def test_the_image_has_every_package_that_its_programs_import() -> None:
    copied = set(re.findall(r"^COPY (\w+) /opt/rackstream/app/\1$", DOCKERFILE, re.MULTILINE))
    assert copied == set(PACKAGES)
    sent = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE))
    assert sent == {*PACKAGES, "requirements.lock"}
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    for package in PACKAGES:
        for source in (ROOT / package).rglob("*.py"):
            text = source.read_text(encoding="utf-8")
            imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)) & ours
            assert imported <= set(PACKAGES), source


def test_what_fetches_the_connector_has_all_that_it_imports() -> None:
    stage = DOCKERFILE.split(" AS connector", 1)[1].split("\nFROM", 1)[0]
    copied = set(re.findall(r"events/(\w+)\.py", stage))
    needed, seen = ["settings", "cli"], {"__init__"}
    while needed:
        module = needed.pop()
        seen.add(module)
        text = (ROOT / "events" / f"{module}.py").read_text(encoding="utf-8")
        found = re.findall(r"^from events\.(\w+) import", text, re.MULTILINE)
        found += re.findall(r"^from events import (\w+)", text, re.MULTILINE)
        needed += [name for name in found if name not in seen]
    assert copied == seen


def test_the_example_lists_every_setting_with_its_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert set(env_example()) >= SETTINGS
    for name in env_example():
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text((ROOT / ".env.example").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    read = settings.load()
    (tmp_path / ".env").unlink()
    assert read == settings.load()


def test_every_setting_of_the_example_is_explained() -> None:
    blocks = (ROOT / ".env.example").read_text(encoding="utf-8").strip().split("\n\n")[1:]
    assert len(blocks) == len(env_example())
    for block in blocks:
        assert re.match(r"# .+[.]\n(?:# )?[A-Z_]+=\S*$", block), block
