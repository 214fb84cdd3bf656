"""A user who starts jobs wrongly reads one sentence, without a stack trace; exit status 1."""

import re
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest

from broker.server import free_port
from tests.integration.conftest import Command
from tests.support import Kafka, eventually, kill, run

pytestmark = pytest.mark.full

SPARK_CLASS = Path(pyspark.__file__).with_name("bin") / "spark-class"
RUN = ("spark_jobs", "run", "rack_temperature", "--trigger=available-now")


def complaint(*options: str, env: dict[str, str]) -> str:
    """Return the one line on standard error of jobs that do not start."""
    done = run(*RUN, *options, env=env)
    assert done.returncode == 1, done.stderr
    return only_line(done.stderr)


def only_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line != "starting Spark ..."]
    assert len(lines) == 1, text
    return lines[0]


def test_no_broker_is_named_within_seconds() -> None:
    server = f"127.0.0.1:{free_port()}"
    assert complaint(env={"KAFKA_BOOTSTRAP_SERVERS": server}) == (
        f"spark_jobs: no broker answers at {server}: start one with `python -m broker up`, "
        "or set KAFKA_BOOTSTRAP_SERVERS to where one runs."
    )


def test_a_port_that_accepts_connections_and_never_answers_is_one_sentence_in_each_program(
    tmp_path: Path,
) -> None:
    # Nobody takes the connections that the kernel accepts.
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        server = f"127.0.0.1:{listener.getsockname()[1]}"
        env = {"KAFKA_BOOTSTRAP_SERVERS": server, "RACKSTREAM_HOME": str(tmp_path)}
        silent = f"something listens at {server}, but gave no answer as a Kafka broker within 10 s"
        sentences = {
            "spark_jobs run user_totals": f"spark_jobs: {silent}: check the port",
            "producer run --count=1": f"producer: no Kafka broker answers at {server}: start one",
            "alerting run": f"alerting: no broker answers at {server}: start one",
        }
        ended = pool.map(lambda command: run(*command.split(), env=env), sentences)
        for sentence, done in zip(sentences.values(), ended, strict=True):
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(sentence)
            assert done.stderr.count("\n") == 1


def test_a_missing_topic_is_named_with_the_command_that_makes_it(topics: Kafka) -> None:
    assert complaint(env={**topics.env, "TOPIC_PREFIX": "nowhere-"}) == (
        "spark_jobs: the topic nowhere-rack-readings is missing: run python -m broker topics."
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["heat_death"],
            "spark_jobs: there is no job 'heat_death': choose from rack_temperature, overheating",
        ),
        (
            ["--conf=spark.app.name"],
            "spark_jobs: --conf 'spark.app.name' is not of the form key=value.",
        ),
        (
            ["overheating", "--inventory=nowhere.jsonl"],
            "spark_jobs: the inventory nowhere.jsonl cannot be read (No such file",
        ),
        (
            ["--output-mode=replace"],
            "spark_jobs: --output-mode 'replace' is not known to rack_temperature: choose update",
        ),
        (
            ["user_sessions", "--device-gap=phone"],
            "spark_jobs: --device-gap 'phone' is not of the form key=value.",
        ),
        (
            ["--gap=1 hour"],
            "spark_jobs: --gap belongs to user_sessions, which is not among the jobs named.",
        ),
        (["--restarts=1"], "spark_jobs: --restarts has no effect on rack_temperature as available"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_starts(
    command: Command, monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    status, _, stderr = command(*RUN, *options)
    assert status == 1
    assert only_line(stderr).startswith(sentence)


def test_a_trigger_that_does_not_exist_is_wrong_usage(command: Command) -> None:
    status, _, stderr = command("spark_jobs", "run", "overheating", "--trigger=sometimes")
    assert status == 2
    assert "sometimes" in stderr
    assert "Traceback" not in stderr


def test_what_the_disk_refuses_is_one_sentence_too(topics: Kafka) -> None:
    refused = complaint("--checkpoint-root=/proc/nothing", env=topics.env)
    assert refused.startswith("spark_jobs: the lock file /proc/nothing/")


def test_the_list_names_every_job_with_its_question_and_its_topics(command: Command) -> None:
    status, stdout, stderr = command("spark_jobs", "list")
    assert status == 0, stderr
    lines = stdout.splitlines()
    assert [re.split("  +", line) for line in lines][:2] == [
        [
            "rack_temperature",
            "How warm is each rack, and the whole fleet?",
            "[real-time, micro-batch, available-now]",
            "rack-readings -> rack-temperature",
        ],
        [
            "overheating",
            "Which racks are overheating?",
            "[real-time, micro-batch, available-now]",
            "rack-readings -> alerts",
        ],
    ]
    assert len({line.index("[") for line in lines}) == 1, "the columns are aligned"


@pytest.fixture
def master_without_workers(tmp_path: Path) -> Iterator[str]:
    """Run a Spark master, and return its address."""
    port, log = free_port(), tmp_path / "master.log"
    address = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
    with log.open("wb") as out:
        master = subprocess.Popen(
            [SPARK_CLASS, "org.apache.spark.deploy.master.Master", *address],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        eventually(lambda: "New state: ALIVE" in log.read_text())
        yield f"spark://127.0.0.1:{port}"
    finally:
        kill(master)


def test_a_cluster_that_gives_no_executor_is_one_sentence(
    topics: Kafka, tmp_path: Path, master_without_workers: str
) -> None:
    done = run(
        "tests.impatient_jobs",
        *RUN[1:],
        f"--conf=spark.master={master_without_workers}",
        env={**topics.env, "RACKSTREAM_HOME": str(tmp_path)},
    )
    assert only_line(done.stderr) == (
        f"spark_jobs: {master_without_workers} has given this driver no executor: see whether the "
        "cluster has a worker with enough free cores and memory, and start the jobs again."
    )
    assert done.returncode == 1
