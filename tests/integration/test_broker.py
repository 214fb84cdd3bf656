"""The broker of all tests: what it keeps and refuses, and that it leaves no process behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from confluent_kafka import KafkaException
from kafka import KafkaConsumer
from kafka.admin import ConfigResource, ConfigResourceType

from broker import server
from broker.server import RunningBroker, free_port
from broker.topics import (
    admin_client,
    append,
    cluster_id,
    create_topics,
    partition_counts,
    read_to_end,
)
from events.settings import Settings
from events.topics import ALL, DEAD_LETTERS, INCIDENTS, RACK_READINGS
from jars import cds_archive
from tests.support import ROOT, Kafka, eventually, kill, program, run

pytestmark = pytest.mark.full


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder for a broker, and stop the broker that a failed test left there."""
    folder = tmp_path / "kafka data, é"
    yield folder
    server.stop(folder)


def processes_of(data_dir: Path) -> list[int]:
    """Return the pids of all brokers of the folder, forgotten ones included."""
    argument = f"-Drackstream.data-dir={data_dir}"
    return [
        p.pid for p in psutil.process_iter(["cmdline"]) if argument in (p.info["cmdline"] or ())
    ]


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="only Linux tells what a process has mapped"
)
def test_the_broker_loads_its_classes_from_the_archive(broker: RunningBroker) -> None:
    archive = cds_archive.of_lock("broker", Settings()).path
    assert archive.exists(), "make setup makes it"
    maps = Path(f"/proc/{broker.pid}/maps").read_text(encoding="utf-8")
    assert archive.name in maps, "a JVM maps it if it fits"


def test_the_archive_is_made_by_a_broker_that_does_not_outlive_an_end_of_the_run(
    tmp_path: Path,
) -> None:
    jars = tmp_path / "with a blank"
    jars.mkdir()
    (jars / "broker").symlink_to(Settings().jars_dir.resolve() / "broker")
    env = {"RACKSTREAM_JARS": str(jars)}

    def brokers() -> list[int]:
        found = psutil.process_iter(["cmdline", "name"])
        return [
            p.pid
            for p in found
            if p.info["name"] == "java" and str(jars) in " ".join(p.info["cmdline"] or ())
        ]

    with program("broker.cds_archive", env=env, output=tmp_path / "output.log") as process:
        eventually(brokers)
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert brokers() == []
    assert [path.name for path in jars.iterdir()] == ["broker"]
    made = run("broker.cds_archive", env=env, timeout_s=300)
    assert (made.returncode, brokers()) == (0, [])
    assert {path.name for path in jars.iterdir()} == {
        "broker",
        cds_archive.of_lock("broker", Settings(rackstream_jars=jars)).path.name,
    }


def test_what_is_sent_can_be_read_back_in_order(topics: Kafka) -> None:
    topics.send(RACK_READINGS, [(f"rack-{n % 7}", str(n).encode()) for n in range(1000)])
    # By offset: append times go back where the machine's clock is set back.
    records = sorted(topics.read_all(RACK_READINGS), key=lambda r: r.offset)
    assert sorted(int(r.value or b"") for r in records) == list(range(1000))
    for rack in range(7):
        of_rack = [r for r in records if r.key == f"rack-{rack}".encode()]
        assert len({r.partition for r in of_rack}) == 1
        assert [int(r.value or b"") for r in of_rack] == list(range(rack, 1000, 7))


def test_a_topic_is_read_to_its_end_and_what_cannot_be_read_or_appended_is_an_error(
    topics: Kafka,
) -> None:
    server, topic = topics.bootstrap, topics.name(RACK_READINGS)
    sent = [(f"rack-{n % 7}".encode(), str(n).encode()) for n in range(100)]
    append(server, topic, sent, timeout_s=10)
    records = [(r.key(), r.value(), r.partition()) for r in read_to_end(server, topic)]
    assert sorted(records) == sorted(
        (r.key, r.value, r.partition) for r in topics.read_all(RACK_READINGS)
    )
    for rack in range(7):
        numbers = [int(value or b"") for key, value, _ in records if key == f"rack-{rack}".encode()]
        assert numbers == list(range(rack, 100, 7))
    assert list(read_to_end(server, topics.name(DEAD_LETTERS))) == []
    for at, name in ((server, f"{topic}-of-nobody"), ("localhost:1", topic)):
        with pytest.raises(KafkaException):
            next(read_to_end(at, name, timeout_s=2))
    with pytest.raises(KafkaException):
        append("localhost:1", topic, sent, timeout_s=1)


def test_the_containers_health_check_needs_an_answer(broker: RunningBroker) -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    command, *options, script = compose["services"]["kafka"]["healthcheck"]["test"][1:]

    def is_healthy(port: int | str, timeout_s: float) -> bool:
        check = [command, *options, script.replace("localhost/9092", f"localhost/{port}")]
        return subprocess.run(check, timeout=timeout_s, check=False).returncode == 0

    assert is_healthy(broker.bootstrap.rpartition(":")[2], 20)
    assert not is_healthy(free_port(), 20)
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(subprocess.TimeoutExpired),
    ):
        is_healthy(mute.getsockname()[1], 1)


def test_topics_have_the_partitions_of_the_contract_and_append_time(topics: Kafka) -> None:
    names = [topics.name(topic) for topic in ALL]
    with admin_client(topics.bootstrap) as admin:
        described = admin.describe_topics(names)
        configs = admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        )
    partitions = {topic["name"]: len(topic["partitions"]) for topic in described}
    assert partitions == {name: 1 if name.endswith(DEAD_LETTERS.name) else 4 for name in names}
    settings = {
        name: (
            config["message.timestamp.type"]["value"],
            config.get("cleanup.policy", {"value": "delete"})["value"],  # unlisted: the default
        )
        for name, config in configs["topic"].items()
    }
    compacted = {topics.name(INCIDENTS): ("LogAppendTime", "compact")}
    assert settings == dict.fromkeys(names, ("LogAppendTime", "delete")) | compacted


def test_creating_topics_leaves_existing_ones_as_they_are(topics: Kafka) -> None:
    prefix = topics.prefix + "again-"
    with admin_client(topics.bootstrap) as admin:
        admin.create_topics(
            {
                prefix + RACK_READINGS.name: {
                    "num_partitions": 7,
                    "replication_factor": 1,
                    "configs": RACK_READINGS.config,
                }
            },
            wait_for_metadata=True,
        )
    made = create_topics(topics.bootstrap, prefix)
    assert len(made) == len(ALL) - 1
    assert create_topics(topics.bootstrap, prefix) == []
    assert len(Kafka(topics.bootstrap, prefix).partitions(RACK_READINGS)) == 7
    assert partition_counts(topics.bootstrap, prefix) == {
        prefix + topic.name: 7 if topic is RACK_READINGS else topic.partitions for topic in ALL
    }

    env = {"KAFKA_BOOTSTRAP_SERVERS": topics.bootstrap, "TOPIC_PREFIX": prefix}
    done = run("broker", "topics", env=env)
    assert (done.returncode, done.stdout) == (0, "0 topics created, 15 existed.\n")
    refused = run(
        "broker", "topics", "--replication-factor=3", env=env | {"TOPIC_PREFIX": prefix + "3-"}
    )
    assert refused.returncode == 1
    assert "replication factor" in refused.stderr.lower()


def test_an_existing_topic_with_the_senders_time_is_an_error(topics: Kafka) -> None:
    prefix = topics.prefix + "own-"
    name = prefix + RACK_READINGS.name
    with admin_client(topics.bootstrap) as admin:
        admin.create_topics(
            {name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
        )
    env = {"KAFKA_BOOTSTRAP_SERVERS": topics.bootstrap, "TOPIC_PREFIX": prefix}
    done = run("broker", "topics", env=env)
    assert (done.returncode, done.stdout) == (1, "14 topics created, 1 existed.\n")
    assert f"the sender's time in {name}, so" in done.stderr
    assert "set message.timestamp.type=LogAppendTime" in done.stderr
    assert done.stderr.count("\n") == 1


def test_reading_a_topic_never_creates_it(topics: Kafka) -> None:
    mistyped = topics.name(RACK_READINGS) + "-mistyped"
    consumer = KafkaConsumer(
        mistyped, bootstrap_servers=topics.bootstrap, allow_auto_create_topics=True
    )
    consumer.poll(timeout_ms=1000)
    consumer.close()
    with admin_client(topics.bootstrap) as admin:
        assert mistyped not in admin.list_topics()


def test_clients_reach_the_broker_by_name_and_by_every_loopback_address(topics: Kafka) -> None:
    port = topics.bootstrap.rpartition(":")[2]
    hosts = ["localhost", "127.0.0.1"] + (["[::1]"] if len(server._loopback()) > 1 else [])
    assert len({cluster_id(f"{host}:{port}") for host in hosts}) == 1
    addresses = {
        c.laddr.ip for c in psutil.net_connections() if c.laddr and c.laddr.port == int(port)
    }
    assert {address.removeprefix("::ffff:") for address in addresses} <= {"127.0.0.1", "::1"}
    assert addresses, "the broker's port is among the connections"


def test_up_status_down_kill_and_fresh(data_dir: Path) -> None:
    port = free_port()
    options = (f"--port={port}", f"--data-dir={data_dir}")
    kafka = Kafka(f"localhost:{port}", "life-")
    env = {"TOPIC_PREFIX": kafka.prefix}

    racing = [
        subprocess.Popen(
            [sys.executable, "-m", "broker", "up", *options],
            cwd=ROOT,
            env=os.environ | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    # That the output can be read to its end shows that the broker did not inherit it.
    printed = {process.communicate(timeout=120)[0]: process.returncode for process in racing}
    (pid,) = processes_of(data_dir)
    printed_by = {status: text for text, status in printed.items()}
    assert sorted(printed.values()) == [0, 1]
    assert f"already runs on port {port} (process {pid})" in printed_by[1]
    assert f"runs on localhost:{port} (process {pid})" in printed_by[0]
    status = run("broker", "status", *options, env=env)
    assert status.returncode == 0
    assert (
        f"(process {pid}, data in {data_dir}), 15 of 15 topics with prefix life- exist."
        in status.stdout
    )
    kafka.send(RACK_READINGS, [("rack-1", b"kept")])
    cluster = cluster_id(kafka.bootstrap)

    elsewhere = run("broker", "up", f"--port={port}", f"--data-dir={data_dir}-2")
    assert elsewhere.returncode == 1
    assert f"port {port} is in use by " in elsewhere.stderr
    wrong_port = run("broker", "down", f"--port={port + 1}", f"--data-dir={data_dir}")
    assert wrong_port.returncode == 1
    assert f"runs on port {port}, not {port + 1}" in wrong_port.stderr
    assert processes_of(data_dir) == [pid]

    down = run("broker", "down", *options)
    assert (down.returncode, down.stdout) == (0, f"The broker of {data_dir} has stopped.\n")
    assert processes_of(data_dir) == []
    again = run("broker", "down", *options)
    assert (again.returncode, again.stdout) == (0, f"No broker runs in {data_dir}.\n")
    assert run("broker", "status", *options).returncode == 1

    second = server.start(port, data_dir)
    assert cluster_id(kafka.bootstrap) == cluster
    assert [r.value for r in kafka.read_all(RACK_READINGS)] == [b"kept"]
    os.kill(second.pid, signal.SIGKILL)
    assert second.child is not None
    second.child.wait()
    assert (data_dir / "process.json").exists()
    assert "No broker answers at" in run("broker", "status", *options).stdout

    third = run("broker", "up", "--fresh", *options, env=env)
    assert third.returncode == 0
    assert cluster_id(kafka.bootstrap) != cluster
    assert kafka.read_all(RACK_READINGS) == []
    assert server.stop(data_dir)
    assert processes_of(data_dir) == []


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_up_leaves_no_process(
    data_dir: Path, tmp_path: Path, with_signal: signal.Signals
) -> None:
    command = ("broker", "up", f"--port={free_port()}", f"--data-dir={data_dir}")
    with program(*command, output=tmp_path / "output") as process:
        eventually((data_dir / "process.json").exists)
        (pid,) = processes_of(data_dir)
        assert kill(process, with_signal) == 128 + with_signal
    assert not psutil.pid_exists(pid)
    assert processes_of(data_dir) == []
    assert not (data_dir / "process.json").exists()


def test_a_broker_that_dies_while_starting_says_why(data_dir: Path) -> None:
    done = run(
        "broker",
        "up",
        f"--port={free_port()}",
        f"--data-dir={data_dir}",
        env={"KAFKA_HEAP_OPTS": "-Xmx1k"},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("broker: the broker died while starting: ")
    assert "heap" in done.stderr
    assert processes_of(data_dir) == []


def test_the_user_of_a_port_is_named(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        up = run("broker", "up", f"--port={port}", f"--data-dir={data_dir}")
        status = run("broker", "status", f"--port={port}", f"--data-dir={data_dir}")
    assert up.returncode == 1
    assert f"port {port} is in use by " in up.stderr
    assert status.returncode == 1
    assert "gave no answer as a Kafka broker" in status.stdout
    assert processes_of(data_dir) == []


def test_without_a_broker_creating_topics_ends_in_a_sentence() -> None:
    done = run("broker", "topics", env={"KAFKA_BOOTSTRAP_SERVERS": f"localhost:{free_port()}"})
    assert done.returncode == 1
    assert "no broker answers at localhost:" in done.stderr
    assert done.stderr.count("\n") == 1
