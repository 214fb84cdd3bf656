"""The container files match the code: versions, settings, commands, volumes, order, memory."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from alerting.__main__ import app as alerting_app
from alerting.config import AlertingSettings
from broker.__main__ import app as broker_app
from dashboard import DEFAULT_PORT
from dashboard.__main__ import app as dashboard_app
from demo.__main__ import app as demo_app
from events import settings, topics
from events.status_file import FOLDER_VARIABLE
from events.topics import ALL
from events.triggers import Trigger
from jars.fetch import read_lock
from producer.__main__ import app as producer_app
from spark_jobs.__main__ import app as spark_jobs_app
from spark_jobs.registry import JOBS as JOBS_OF_SPARK
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.runner import SPARE_SLOTS, RunOptions, count_slots
from spark_jobs.runtime.session import DAEMON, WORKER_PYTHON
from spark_jobs.runtime.small_data import INTERPRETED_OPTIONS
from spark_jobs.storage.dead_letters import REPORTED_TOPICS, reporting_jobs
from tests.containers.operator_commands import OPEN_INCIDENT, commands_in, operator_commands
from tests.containers.test_image import LARGEST_BYTES
from tests.support import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SHORT_FAILOVER = yaml.safe_load(
    (ROOT / "tests" / "containers" / "failover.yml").read_text(encoding="utf-8")
)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DEFAULT = {name: service for name, service in SERVICES.items() if not service.get("profiles")}
BROKERS = {
    name: service
    for name, service in SERVICES.items()
    if service["image"].startswith("apache/kafka:")
}
JOBS = {
    name: service
    for name, service in OURS.items()
    if "driver.memory" in " ".join(service["command"])
}
CLUSTER_JOBS = {name for name in OURS if name.startswith("cluster-")}
WORKERS = {name for name in OURS if name.startswith("spark-worker-")}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n\t", "")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PACKAGES = (
    *("alerting", "broker", "dashboard", "demo", "events", "jars", "producer", "spark_jobs"),
)
APPS = {
    "alerting": alerting_app,
    "broker": broker_app,
    "dashboard": dashboard_app,
    "demo": demo_app,
    "producer": producer_app,
    "spark_jobs": spark_jobs_app,
}
SETTINGS = {name.upper() for name in settings.Settings.model_fields}
ALERTING_SETTINGS = {name.upper() for name in AlertingSettings.model_fields}
ONE_SHOTS = {"topic-init", "world"}
LONG_RUNNING = {
    name: service
    for name, service in SERVICES.items()
    if name not in ONE_SHOTS and {"cluster", "brokers"}.issuperset(service.get("profiles", []))
}
"""The services of `make up`, `make up-cluster` and `make up-brokers` that never end."""
BUDGET_MIB = 6144
MASTER_SCRIPT = "/opt/rackstream/spark/master.sh"


def env_example() -> dict[str, str]:
    """Return the settings of .env.example, those in comments too."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(re.findall(r"^(?:# )?([A-Z0-9_]+)=(.*)$", "\n".join(lines), re.MULTILINE))


def volumes(service: dict[str, Any]) -> dict[str, str]:
    """Return a service's volumes by where they are mounted."""
    pairs = (entry.split(":") for entry in service.get("volumes", []))
    return {target: name for name, target, *_ in pairs}


def limit_mib(service: dict[str, Any]) -> int:
    """Return a service's memory limit in MiB."""
    limit = str(service["mem_limit"])
    return int(limit[:-1]) * {"m": 1, "g": 1024}[limit[-1]]


def memory_mib() -> dict[str, int]:
    """Return the sum of the limits of what each target of make starts."""
    sums = {}
    for form in ("up", "up-brokers", "up-cluster"):
        (recipe,) = re.findall(rf"^{form}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
        profiles = {*re.findall(r"--profile (\w+)", recipe)}
        left_out = {*re.findall(r"--scale ([\w-]+)=0", recipe)}
        sums[form] = sum(
            limit_mib(service)
            for name, service in SERVICES.items()
            if profiles.issuperset(service.get("profiles", [])) and name not in left_out
        )
    for profile in ("verdict", "monitoring"):
        added = [each for each in SERVICES.values() if profile in each.get("profiles", [])]
        sums[profile] = sum(map(limit_mib, added))
    return sums


def program_words(service: dict[str, Any]) -> list[str]:
    """Return what follows `python -m` in a service's command, without a script around it."""
    words = [*service.get("entrypoint", ["python", "-m"]), *service["command"]]
    if words[0] == "bash":  # with_compaction.sh --archive=FOLDER COMMAND ...
        assert words[1] == "/opt/rackstream/spark/with_compaction.sh"
        assert words[2] in words[3:], "the compaction of another archive than the job's"
        words = words[3:]
    submit = ["spark-submit", "--properties-file=/opt/rackstream/spark/standalone.conf"]
    if words[:2] == submit:
        return ["spark_jobs", *words[words.index("submit.py") + 1 :]]
    assert words[:2] == ["python", "-m"]
    return words[2:]


def runs_spark_itself(service: dict[str, Any]) -> bool:
    """Tell whether a service is Spark's master or a worker."""
    return bool({"spark-class", MASTER_SCRIPT}.intersection(service.get("entrypoint", [])))


def reported_topics(*, real_time: bool) -> set[topics.Topic]:
    """Return the topics whose dead letters `run --all-real-time` or `--all-micro-batch` reports."""
    jobs = [
        ConfiguredJob(job, job.options(), job.default_trigger)
        for job in JOBS_OF_SPARK.values()
        if job.name != "dead_letters" and (job.default_trigger is Trigger.REAL_TIME) == real_time
    ]
    return {topic for one in reporting_jobs(jobs) for topic in one.topics_read}


def test_the_broker_is_the_version_that_runs_without_docker() -> None:
    (kafka,) = (jar for jar in read_lock("broker") if jar.artifact == "kafka_2.13")
    assert {service["image"] for service in BROKERS.values()} == {f"apache/kafka:{kafka.version}"}


def test_every_image_is_pinned_and_no_line_asks_a_registry_for_the_builder() -> None:
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    stages = re.findall(r"^FROM .* AS (\S+)", DOCKERFILE, re.MULTILINE)
    assert {image for image in images if image not in stages} == {"python:3.11-slim-bookworm"}
    assert "syntax=" not in DOCKERFILE
    assert {service["image"] for service in OURS.values()} == {"rackstream:local"}
    for service in SERVICES.values():
        assert re.fullmatch(r".+:(v?\d+(\.\d+)+|local)", service["image"])


def test_the_services_of_the_stack_are_there() -> None:
    assert set(DEFAULT) == {
        "kafka",
        "topic-init",
        "world",
        "producer",
        "clickstream",
        "real-time",
        "micro-batch",
        "closed-windows",
        "alerting",
        "dashboard",
    }
    profiles: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        for profile in service.get("profiles", []):
            profiles.setdefault(profile, set()).add(name)
    assert profiles == {
        "cluster": {"spark-master", *WORKERS, *CLUSTER_JOBS},
        "brokers": {"kafka-1", "kafka-2", "kafka-3"},
        "verdict": {"verdict"},
        "load": {"load"},
        "ui": {"kafka-ui"},
        "monitoring": {"prometheus", "alertmanager", "grafana"},
    }
    assert (len(WORKERS), len(CLUSTER_JOBS)) == (2, 2)


def test_the_memory_limits_add_up_to_the_stated_budget() -> None:
    assert sum(map(limit_mib, DEFAULT.values())) <= BUDGET_MIB
    assert "add up to at most 6 GiB" in (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert all("mem_limit" in service for service in SERVICES.values())


def test_the_memory_of_each_target_of_make_is_documented() -> None:
    section = OPERATIONS.split("\n### Memory\n")[1].split("\n### ")[0]
    row = r"^\| `make ([\w-]+)`(?:, in addition)? \| ([\d,]+) \|$"
    computed = memory_mib()
    assert dict(re.findall(row, section, re.MULTILINE)) == {
        target: f"{mib:,}" for target, mib in computed.items()
    }
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    needed_gib = (computed["up"] + computed["verdict"]) / 1024
    assert f"neither Python nor Java, but {needed_gib:g} GiB of memory" in readme


def test_the_memory_limit_of_each_container_is_documented() -> None:
    row = r"^\| (`[\w-]+`(?:, `[\w-]+`)*) \| .* \| ([\d, ]+) MiB \| .* \|$"
    documented: dict[str, str] = {}
    for names, limits in re.findall(row, OPERATIONS, re.MULTILINE):
        documented |= zip(re.findall(r"[\w-]+", names), limits.split(", "), strict=True)
    assert documented == {name: str(limit_mib(service)) for name, service in DEFAULT.items()}


def test_the_size_that_the_image_may_have_is_documented() -> None:
    assert f"at most {LARGEST_BYTES / 1e9:g} GB" in OPERATIONS


def test_the_log_of_each_container_takes_at_most_30_mb() -> None:
    bounded = {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}
    assert [name for name, service in SERVICES.items() if service.get("logging") != bounded] == []


@pytest.mark.parametrize("name", JOBS)
def test_spark_is_given_less_heap_than_its_container_has(name: str) -> None:
    (heap,) = re.findall(r"spark\.driver\.memory=(\d+)m", " ".join(SERVICES[name]["command"]))
    assert int(heap) + 400 <= limit_mib(SERVICES[name])


def test_a_jvm_without_the_second_compiler_has_room_for_the_code_of_all_jobs() -> None:
    conf = (ROOT / "deploy" / "spark" / "standalone.conf").read_text(encoding="utf-8")
    environments = [service.get("environment", {}) for service in SERVICES.values()]
    options = [str(each.get("JAVA_TOOL_OPTIONS", "")) for each in environments]
    limited = [text for text in [*options, *conf.splitlines()] if "TieredStopAtLevel=1" in text]
    # Two drivers of the default stack, and the drivers and executors of the cluster.
    assert len(limited) == 4
    assert [text for text in limited if "ReservedCodeCacheSize=160m" not in text] == []


@pytest.mark.parametrize("conf", ["standalone.conf", "kubernetes.conf"])
def test_the_executors_start_their_python_workers_as_in_local_mode(conf: str) -> None:
    text = (ROOT / "deploy" / "spark" / conf).read_text(encoding="utf-8")
    settings = [line.split() for line in text.splitlines()]
    assert ["spark.python.daemon.module", DAEMON] in settings
    python = f"/opt/rackstream/app/{WORKER_PYTHON.relative_to(ROOT)}"
    assert ["spark.pyspark.python", python] in settings


@pytest.mark.parametrize(
    "command",
    [
        SERVICES["micro-batch"]["command"],
        SHORT_FAILOVER["services"]["cluster-micro-batch"]["command"],
    ],
    ids=["default", "short failover"],
)
def test_the_micro_batches_are_interpreted_as_in_the_demo(command: list[str]) -> None:
    assert set(INTERPRETED_OPTIONS) <= set(command)


def test_every_named_volume_is_declared_and_used_and_belongs_to_the_images_user() -> None:
    mounted = {name for service in SERVICES.values() for name in volumes(service).values()}
    assert mounted == set(COMPOSE["volumes"])
    made = " ".join(re.findall(r"/var/lib/rackstream/\S+", DOCKERFILE)).split()
    assert {target for service in OURS.values() for target in volumes(service)} == set(made)


@pytest.mark.parametrize("name", BROKERS)
def test_the_volume_of_the_broker_is_where_its_data_lies(name: str) -> None:
    log_dirs = BROKERS[name]["environment"]["KAFKA_LOG_DIRS"]
    assert volumes(BROKERS[name]) == {log_dirs: f"{name}-data"}


def test_paths_in_commands_lie_on_volumes() -> None:
    for name, service in OURS.items():
        for path in re.findall(r"=(/\S+)", " ".join(service["command"])):
            assert any(path.startswith(target) for target in volumes(service)), (
                f"{name} loses {path}"
            )


@pytest.mark.parametrize("name", BROKERS)
def test_the_broker_proves_its_health_on_the_port_that_the_programs_use(name: str) -> None:
    port = (
        OURS["alerting"]["environment"]["KAFKA_BOOTSTRAP_SERVERS"]
        .rpartition(":")[2]
        .removesuffix("}")
    )
    kafka = BROKERS[name]
    assert f"/dev/tcp/localhost/{port} " in kafka["healthcheck"]["test"][-1]
    assert f"INSIDE://:{port}" in kafka["environment"]["KAFKA_LISTENERS"]
    assert f"INSIDE://{name}:{port}" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]


@pytest.mark.parametrize("name", BROKERS)
def test_the_host_reaches_the_broker_on_a_port_that_can_be_set(name: str) -> None:
    (published,) = BROKERS[name]["ports"]
    outside, inside = published.removeprefix("127.0.0.1:").rsplit(":", 1)
    assert re.fullmatch(r"\$\{KAFKA_(\d_)?HOST_PORT:-\d+\}", outside)
    assert f"HOST://:{inside}" in BROKERS[name]["environment"]["KAFKA_LISTENERS"]
    assert (
        f"HOST://localhost:{outside}" in BROKERS[name]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    )


def test_three_brokers_keep_each_record_when_one_of_them_is_lost() -> None:
    three = [name for name, service in BROKERS.items() if service.get("profiles")]
    voters = ",".join(f"{name.removeprefix('kafka-')}@{name}:9093" for name in three)
    for number, name in enumerate(three, start=1):
        set_to = BROKERS[name]["environment"]
        assert set_to["KAFKA_NODE_ID"] == number
        assert set_to["KAFKA_CONTROLLER_QUORUM_VOTERS"] == voters
        assert (
            set_to["KAFKA_DEFAULT_REPLICATION_FACTOR"],
            set_to["KAFKA_MIN_INSYNC_REPLICAS"],
        ) == (3, 2)
        assert set_to["CLUSTER_ID"] == BROKERS["kafka-1"]["environment"]["CLUSTER_ID"]
    servers = ",".join(f"{name}:9092" for name in three)
    assert f"STACK_KAFKA_SERVERS={servers} STACK_REPLICATION=3" in MAKEFILE


def test_each_worker_alone_has_slots_and_memory_for_the_real_time_jobs() -> None:
    text = (ROOT / "deploy" / "spark" / "standalone.conf").read_text(encoding="utf-8")
    conf = dict(
        line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")
    )
    real_time = [job for job in JOBS_OF_SPARK.values() if job.default_trigger is Trigger.REAL_TIME]
    jobs = [ConfiguredJob(job, job.options(), Trigger.REAL_TIME) for job in real_time]
    if "--no-dead-letters" not in SERVICES["cluster-real-time"]["command"]:
        jobs += reporting_jobs(jobs)
    counts = {topic.name: topic.partitions for topic in ALL}
    slots, most = count_slots(jobs, counts, RunOptions()), int(conf["spark.cores.max"])
    executors = most // int(conf["spark.executor.cores"])
    assert most == executors * int(conf["spark.executor.cores"]) >= slots
    tasks = slots - SPARE_SLOTS
    assert f" = {tasks}, and {most - tasks} spare." in text, "the comment that explains the number"
    for name in WORKERS:
        offered = SERVICES[name]["command"]
        assert int(offered[offered.index("--cores") + 1]) >= int(conf["spark.cores.max"])
        memory_mib = 1024 * int(offered[offered.index("--memory") + 1].removesuffix("g"))
        assert memory_mib >= executors * int(conf["spark.executor.memory"].removesuffix("m"))
        # Executors write checkpoints and the archive. Only the driver reads the inventory, and
        # writes its status.
        of_drivers = volumes(SERVICES["cluster-micro-batch"]).items()
        assert of_drivers - volumes(SERVICES[name]).items() == {
            ("/var/lib/rackstream/world", "world"),
            ("/var/lib/rackstream/status", "status"),
        }


def test_one_driver_of_the_cluster_reports_the_dead_letters_of_every_topic() -> None:
    reporting = [
        name for name in CLUSTER_JOBS if "--no-dead-letters" not in SERVICES[name]["command"]
    ]
    assert reporting == ["cluster-micro-batch"]
    assert reported_topics(real_time=False) == set(REPORTED_TOPICS)


def test_the_two_drivers_of_the_default_report_every_topic_and_share_the_locks() -> None:
    reporting = [name for name in JOBS if "--no-dead-letters" not in SERVICES[name]["command"]]
    assert reporting == ["real-time", "micro-batch"], "closed-windows is optional"
    both = reported_topics(real_time=True) | reported_topics(real_time=False)
    assert both == set(REPORTED_TOPICS)
    # The first of them to take a topic's lock, which lies below the checkpoints, reports the topic.
    roots = {
        word
        for name in reporting
        for word in SERVICES[name]["command"]
        if word.startswith("--checkpoint-root=")
    }
    mounted = {volumes(SERVICES[name])["/var/lib/rackstream/checkpoints"] for name in reporting}
    assert (len(roots), mounted) == (1, {"checkpoints"})


def test_the_broker_never_makes_a_topic_by_itself() -> None:
    for service in BROKERS.values():
        assert service["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert topics.TOPIC_CONFIG == {"message.timestamp.type": "LogAppendTime"}, (
        "topic-init sets it per topic"
    )


def test_dashboard_and_verdict_read_what_every_driver_and_alerting_say_of_themselves() -> None:
    folder = SERVICES["dashboard"]["environment"][FOLDER_VARIABLE]
    for name in ("dashboard", "verdict", "alerting", *JOBS, *CLUSTER_JOBS):
        assert SERVICES[name]["environment"][FOLDER_VARIABLE] == folder, name
        assert volumes(SERVICES[name])[folder] == "status", name


def test_the_dashboard_is_published_to_this_machine_only() -> None:
    (published,) = SERVICES["dashboard"]["ports"]
    inside = published.rpartition(":")[2]
    assert published.startswith("127.0.0.1:${DASHBOARD_HOST_PORT:-")
    assert f"--port={inside}" in SERVICES["dashboard"]["command"]
    assert int(inside) == DEFAULT_PORT, "the health check asks there"


def test_nothing_starts_before_what_it_needs() -> None:
    done, healthy = (
        {"condition": "service_completed_successfully"},
        {"condition": "service_healthy"},
    )
    gates = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    if_there = {name: {**healthy, "required": False} for name in BROKERS if name != "kafka"}
    assert gates["topic-init"] == {"kafka": healthy, **if_there}
    for name in ("producer", "clickstream", "dashboard", "load", *JOBS):
        assert gates[name] == {"topic-init": done, "world": done}, name
    for name in CLUSTER_JOBS:
        spark = dict.fromkeys(["spark-master", *WORKERS], healthy)
        assert gates[name] == {"topic-init": done, "world": done, **spark}, name
    assert gates["alerting"] == gates["kafka-ui"] == {"topic-init": done}
    ends = {"load": "no", "verdict": "no", **dict.fromkeys(ONE_SHOTS, "on-failure")}
    for name, service in SERVICES.items():
        assert service["restart"] == ends.get(name, "unless-stopped"), name
        waited_for = {
            gate for needs in gates.values() for gate, how in needs.items() if how != done
        }
        assert "healthcheck" in service or name not in waited_for, name


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_service_that_never_ends_has_a_health_check_and_a_program_its_own(name: str) -> None:
    service = LONG_RUNNING[name]
    check = service["healthcheck"]["test"]
    if name in BROKERS:
        assert "/dev/tcp/localhost/9092 " in check[-1]
    elif runs_spark_itself(service):
        words = service["command"]
        page = words[words.index("--webui-port") + 1]
        assert f"/dev/tcp/localhost/{page} " in check[-1]
    else:
        program, *_ = program_words(service)
        if check[0] == "CMD-SHELL":  # test_with_compaction.py has the rest of the line
            check = ["CMD", *check[1].partition(" && ")[0].split()]
        assert check == ["CMD", "python", "-m", program, "health"]
        group: Any = typer.main.get_command(APPS[program])
        assert "health" in group.commands


@pytest.mark.parametrize("services", [("real-time", "micro-batch"), sorted(CLUSTER_JOBS)])
def test_the_deployment_lists_no_job_and_runs_each_once(services: tuple[str, ...]) -> None:
    words = [word for name in services for word in SERVICES[name]["command"]]
    assert not set(words) & set(JOBS_OF_SPARK)
    assert sorted(word for word in words if word.startswith("--all")) == [
        "--all-micro-batch",
        "--all-real-time",
    ]


def test_the_jobs_and_the_producer_have_the_same_world() -> None:
    (inventory,) = (part for part in SERVICES["world"]["command"] if part.startswith("--inventory"))
    (scenario,) = (part for part in SERVICES["world"]["command"] if part.startswith("--scenario"))
    assert scenario in SERVICES["producer"]["command"]
    assert (ROOT / scenario.partition(":-")[2].removesuffix("}")).exists()
    for name in ("dashboard", "real-time", "micro-batch", *CLUSTER_JOBS):
        assert inventory in SERVICES[name]["command"], name


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
    javas = {
        "JAVA_TOOL_OPTIONS",
        "SPARK_NO_DAEMONIZE",
        "SPARK_DAEMON_JAVA_OPTS",
        "SPARK_DAEMON_MEMORY",
    }
    assert set(OURS[name]["environment"]) - javas - {FOLDER_VARIABLE} <= SETTINGS | (
        ALERTING_SETTINGS if name == "alerting" else set()
    )


def test_the_images_settings_are_known() -> None:
    given = set(re.findall(r"^(?:ENV| {3}) ([A-Z_]+)=", DOCKERFILE, re.MULTILINE))
    pythons = {"PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED"}
    assert given - SETTINGS == pythons | {"SPARK_LOCAL_DIRS"}
    assert {"RACKSTREAM_HOME", "RACKSTREAM_JARS"} <= given


@pytest.mark.parametrize("name", OURS)
def test_every_command_has_only_options_that_the_program_has(name: str) -> None:
    if runs_spark_itself(OURS[name]):
        return
    assert 'ENTRYPOINT ["python", "-m"]' in DOCKERFILE
    program, command, *arguments = program_words(OURS[name])
    group: Any = typer.main.get_command(APPS[program])
    known = {option for parameter in group.commands[command].params for option in parameter.opts}
    given = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    assert given <= known


@pytest.mark.parametrize("words", operator_commands(), ids=" ".join)
def test_a_documented_command_suits_the_container_of_the_default(words: list[str]) -> None:
    service, *interpreter, program, name = words[:5]
    assert service in DEFAULT
    assert interpreter == ["python", "-m"]
    assert program == program_words(SERVICES[service])[0]
    command: Any = typer.main.get_command(APPS[program])
    given = command.commands[name].make_context(name, words[5:]).params  # refuses what is invalid
    scenario = (ROOT / "producer" / "scenarios" / "demo.yaml").read_text(encoding="utf-8")
    assert str(given.get("subject", "")) in scenario


def test_commands_of_operators_are_found_in_blocks_and_in_sentences() -> None:
    documented = operator_commands()
    assert {words[4] for words in documented if words[0] == "alerting"} == {
        *("list", "show", "ack", "silence", "unsilence")
    }
    assert sum(OPEN_INCIDENT in words for words in documented) == 2
    text = "\n".join([
        "Run `docker compose exec one a",
        "  b`, or `docker compose",
        "exec two c`, and not `docker compose ps`:",
        "```",
        "$ docker compose exec three 'd e'",
        "docker compose exec one a b",
        "```",
    ])  # fmt: skip
    assert commands_in(text) == [["three", "d e"], ["one", "a", "b"], ["two", "c"]]


def test_who_archives_also_compacts() -> None:
    archiving = {
        name for name, service in OURS.items() if "--all-micro-batch" in service["command"]
    }
    compacting = {
        name
        for name, service in OURS.items()
        if "with_compaction.sh" in " ".join(service.get("entrypoint", []))
    }
    assert archiving == compacting == {"micro-batch", "cluster-micro-batch"}


def test_the_spark_master_keeps_what_it_recovers_from_on_a_volume() -> None:
    script = (ROOT / "deploy" / "spark" / Path(MASTER_SCRIPT).name).read_text(encoding="utf-8")
    (folder,) = re.findall(r"^cd (\S+) ", script, re.MULTILINE)
    assert volumes(SERVICES["spark-master"])[folder] == "spark-master"


def test_variables_that_the_file_asks_for_are_in_the_example() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{([A-Z0-9_]+)", text)) <= set(env_example())


def test_the_image_has_every_package_that_its_programs_import() -> None:
    copied = set(re.findall(r"^COPY (\w+) /opt/rackstream/app/\1$", DOCKERFILE, re.MULTILINE))
    assert copied == set(PACKAGES)
    sent = set(
        re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert sent == {*PACKAGES, "deploy/spark", "requirements.lock", "submit.py"}
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    for package in PACKAGES:
        for source in (ROOT / package).rglob("*.py"):
            text = source.read_text(encoding="utf-8")
            imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)) & ours
            assert imported <= set(PACKAGES), source


def test_the_documented_override_repeats_the_command_and_adds_a_rules_file() -> None:
    section = OPERATIONS.split("\n### A rules file in containers\n")[1].split("\n### ")[0]
    override = yaml.safe_load(section.split("```yaml\n")[1].split("```")[0])
    for name, service in override["services"].items():
        (mount,) = service["volumes"]
        file = mount.split(":")[1]
        assert service["command"] == [*SERVICES[name]["command"], f"--rules={file}"]
    named = {name for name in re.findall(r"`([a-z-]+)`", section) if name in OURS}
    take_rules = {"--all-real-time", "--all-micro-batch", "verdict"}
    with_rules = {name for name in OURS if take_rules & {*OURS[name].get("command", [])}}
    assert named == with_rules | {"closed-windows"}


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
    (tmp_path / ".env").write_text(
        (ROOT / ".env.example").read_text(encoding="utf-8"), encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    read = settings.load()
    (tmp_path / ".env").unlink()
    assert read == settings.load()


def test_every_setting_of_the_example_is_explained() -> None:
    blocks = (ROOT / ".env.example").read_text(encoding="utf-8").strip().split("\n\n")[1:]
    assert len(blocks) == len(env_example())
    for block in blocks:
        assert re.match(r"# .+[.]\n(?:# )?[A-Z0-9_]+=\S*$", block), block


def interpolated(text: str, variables: dict[str, str]) -> str:
    """Return a text with `${NAME:-DEFAULT}` replaced as Compose does; defaults may be nested."""
    innermost = re.compile(r"\$\{([A-Z0-9_]+):-([^${}]*)\}")
    while found := innermost.search(text):
        value = variables.get(found[1]) or found[2]
        text = text[: found.start()] + value + text[found.end() :]
    return text


def test_the_verdict_reads_what_the_producers_and_the_jobs_have_written() -> None:
    def option(service: str, name: str) -> set[str]:
        return {word for word in SERVICES[service]["command"] if word.startswith(f"--{name}=")}

    verdict = SERVICES["verdict"]
    ledgers = {*option("producer", "ledger"), *option("clickstream", "ledger")}
    assert ledgers == option("verdict", "ledger")
    assert option("micro-batch", "inventory") == option("verdict", "inventory")
    database = SERVICES["alerting"]["environment"]["ALERTING_DATABASE"]
    assert option("verdict", "database") == {f"--database={database}"}
    (archive,) = option("verdict", "archive")
    for suffix in ({}, {"DATA_SUFFIX": "second"}):
        (of_job,) = option("micro-batch", "archive")
        assert interpolated(archive, suffix) == interpolated(of_job, suffix)
    (of_job,) = option("cluster-micro-batch", "archive")
    assert interpolated(archive, {"DATA_SUFFIX": "a", "ARCHIVE_SUFFIX": "cluster"}) == of_job
    assert volumes(verdict).items() <= {
        item
        for service in OURS.values()
        if service is not verdict
        for item in volumes(service).items()
    }
