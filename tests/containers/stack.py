"""Run the Compose file as a project of a test's own: start, read outputs, kill, remove."""

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from testcontainers.compose import DockerCompose

from broker.server import free_port
from demo.comparison import Comparison, Row
from demo.verdict import Truth, compare_alerts
from events.catalog import RULES
from producer.expected.rack_alerts import DEFAULT_RULES
from tests.demo import read_truth
from tests.support import ROOT, Kafka, equal_to, eventually

THREE_BROKERS = {
    "STACK_KAFKA_SERVERS": "kafka-1:9092,kafka-2:9092,kafka-3:9092",
    "STACK_REPLICATION": "3",
    "DATA_SUFFIX": "three-brokers",
}
"""What `make up-brokers` sets. The broker `kafka` must be left out."""
ONE_SHOTS = {"topic-init", "world"}
"""The containers that end when they have done their work."""
WORKER, MASTER, BROKER = "spark-worker-1", "spark-master", "kafka-1"
"""What a failover kills of the cluster and of three brokers."""
WORKERS = (WORKER, "spark-worker-2")
"""Each can run all jobs of the cluster."""
TRUTH = "/var/lib/rackstream/load/truth.jsonl"
READ_ALERTS = """
import os, sqlite3
database = sqlite3.connect(f"file:{os.environ['ALERTING_DATABASE']}?mode=ro", uri=True)
for (alert,) in database.execute("SELECT alert FROM alerts"):
    print(alert)
"""
READ_WORKER = """
import urllib.request
print(urllib.request.urlopen("http://localhost:8081/json/").read().decode())
"""
READ_PEAK = """
cat /sys/fs/cgroup/memory.peak 2>/dev/null || cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes
"""
"""The most memory that the container has used, cached files included; cgroup 2, else cgroup 1."""
PORTS = (
    "KAFKA_HOST_PORT",
    "KAFKA_1_HOST_PORT",
    "KAFKA_2_HOST_PORT",
    "KAFKA_3_HOST_PORT",
    "SPARK_HOST_PORT",
    "DASHBOARD_HOST_PORT",
)


def offered(rate: int) -> int:
    """Return the rate to send at, so that the measured one is at least `rate`.

    The rate is taken from the first send to the last answer, which comes after the last record's
    time: a sender that keeps its schedule to the millisecond is measured a little below it.
    """
    return rate * 11 // 10


def output_of(
    command: Sequence[str], env: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run a command in the checkout with more environment, and return its status and output."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def docker(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `docker ARGUMENTS`: unlike `docker compose`, it reads no Compose file.

    A call takes 0.02 instead of 0.14 s of a processor, which tests that ask again and again would
    take from what they test.
    """
    return output_of(["docker", *arguments], {}, timeout_s=180)


class Stack:
    """One project. Its name and its ports are its own, so that it meets no other that runs here.

    `also` is a file that overrides parts of the Compose file.
    """

    def __init__(self, folder: Path, profiles: Iterable[str], also: str = "") -> None:
        self.folder = folder
        self.env = {name: str(free_port()) for name in PORTS}
        self.env["COMPOSE_PROJECT_NAME"] = f"rackstream-test-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.compose = DockerCompose(
            ROOT,
            compose_file_name=["docker-compose.yml", *([also] if also else [])],
            profiles=list(profiles),
        )

    @property
    def kafka(self) -> Kafka:
        """The broker as programs on this machine reach it."""
        return Kafka(f"localhost:{self.env['KAFKA_HOST_PORT']}", "")

    def up(self, *services: str, without: Collection[str] = ()) -> None:
        """Start services and their dependencies, except some, and wait until they are healthy."""
        if without:
            left_out = [f"--scale={name}=0" for name in without]
            self.command("up", "--wait", *left_out, *services, timeout_s=300)
        else:
            self.compose.services = list(services)
            self.compose.start()

    def start(self, service: str) -> None:
        """Start one service without waiting for it."""
        self.command("up", "--detach", "--no-deps", service)

    def command(self, *arguments: str, timeout_s: float = 180) -> str:
        """Run `docker compose ARGUMENTS`, which must succeed, and return its output."""
        done = self.attempt(*arguments, timeout_s=timeout_s)
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}: {done.stderr[-2000:]}"
        return done.stdout

    def attempt(
        self, *arguments: str, timeout_s: float = 180
    ) -> "subprocess.CompletedProcess[str]":
        """Run `docker compose ARGUMENTS`, and return its status and output."""
        return output_of([*self.compose.compose_command_property, *arguments], self.env, timeout_s)

    def container(self, service: str) -> str:
        """Return the name that Compose gives the container of a service."""
        return f"{self.env['COMPOSE_PROJECT_NAME']}-{service}-1"

    def inspect(self, *services: str) -> list[dict[str, Any]]:
        """Return what `docker inspect` prints of services' containers, running or not."""
        done = docker("inspect", *map(self.container, services))
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    def kill(self, *services: str) -> None:
        """Kill the processes of containers, so that their restart policies restart them."""
        before = [found["RestartCount"] for found in self.inspect(*services)]
        for name in services:
            self.command("exec", "--no-TTY", name, "sh", "-c", "kill -9 -1")

        def not_back() -> list[str]:
            return [
                name
                for name, count, now in zip(services, before, self.inspect(*services), strict=True)
                if now["RestartCount"] <= count or not now["State"]["Running"]
            ]

        eventually(not_back, lambda names: not names, timeout_s=120, every_s=1)

    def last_lines(self) -> str:
        """Return the states of all containers and the last lines that each has written."""
        everything = ("--profile", "*")
        states = self.attempt(*everything, "ps", "--all")
        lines = self.attempt(*everything, "logs", "--no-color", "--tail", "8")
        return "".join(each.stdout + each.stderr for each in (states, lines))

    def not_working(self, *services: str) -> dict[str, str]:
        """Return what `docker compose ps --all` shows of the services that are not healthy.

        This is their state, or the status of the health check while they run. Containers that are
        done (`topic-init`, `world`) are left out. Without names it looks at all services.
        """
        shown = self.command("ps", "--all", "--format", "json", *services)
        rows = map(json.loads, shown.splitlines())
        statuses = {
            row["Service"]: row["Health"] if row["State"] == "running" else row["State"]
            for row in rows
            if row["Service"] not in ONE_SHOTS
        }
        missing = {name: "missing" for name in services if name not in statuses}
        return missing | {name: status for name, status in statuses.items() if status != "healthy"}

    def await_healthy(self, *services: str) -> None:
        """Wait until the services work; without names, all."""
        eventually(lambda: self.not_working(*services), equal_to({}), timeout_s=240, every_s=2)

    def memory_peak_mib(self, service: str) -> float:
        """Return the most memory that a container has used since its start, in MiB."""
        done = docker("exec", self.container(service), "sh", "-c", READ_PEAK)
        assert done.returncode == 0, done.stderr
        return int(done.stdout) / 2**20

    def compact(self, service: str, archive: str) -> None:
        """Compact an archive as an operator does, while the job writes; it must find new files."""
        folder = f"--archive=/var/lib/rackstream/archive/{archive}"
        command = ("exec", "--no-TTY", service, "python", "-m", "spark_jobs", "compact", folder)
        before_mib, done = eventually(
            lambda: (self.memory_peak_mib(service), self.attempt(*command)),
            lambda found: found[1].returncode == 0 and "rack-readings: " in found[1].stdout,
            timeout_s=180,
            every_s=5,
        )
        limit_mib = self.inspect(service)[0]["HostConfig"]["Memory"] / 2**20
        print(  # noqa: T201 - the figures of this run
            f"\n{done.stdout}most memory of {service}: {before_mib:.0f} MiB before the compaction,"
            f" {self.memory_peak_mib(service):.0f} MiB after it, limit {limit_mib:.0f} MiB"
        )

    def page(self) -> str:
        """Return the dashboard's page, or why it does not come."""
        port = int(self.env["DASHBOARD_HOST_PORT"])
        try:
            with closing(HTTPConnection("localhost", port, timeout=10)) as connection:
                connection.request("GET", "/")
                return connection.getresponse().read().decode()
        except (OSError, HTTPException) as error:
            return f"{type(error).__name__}: {error}"

    def await_log(self, service: str, words: str) -> None:
        """Wait until a service's log contains the words."""

        def log() -> str:
            done = docker("logs", self.container(service))
            return done.stdout + done.stderr

        eventually(log, lambda said: words in said, timeout_s=180, every_s=1)

    def await_history(self) -> None:
        """Wait until the clickstream's history has been sent, which takes a minute.

        A broker that is killed meanwhile would make hours of it late.
        """
        self.await_log("clickstream", '"sent":')

    def alerts(self, rules: Collection[str] = RULES) -> list[Row]:
        """Return the alerts of the rules that alerting has logged.

        Its container may be restarting: without a broker alerting exits.
        """
        done = eventually(
            lambda: docker("exec", self.container("alerting"), "python", "-c", READ_ALERTS),
            lambda done: done.returncode == 0,
            timeout_s=120,
            every_s=1,
        )
        logged = [json.loads(line) for line in done.stdout.splitlines()]
        return [row for row in logged if row["rule"] in rules]

    def busiest_worker(self) -> tuple[str, int]:
        """Return the worker with executors of most applications, and how many these are."""
        count = {worker: len(self.applications_on(worker)) for worker in WORKERS}
        busiest = max(WORKERS, key=count.__getitem__)
        return busiest, count[busiest]

    def applications(self) -> set[str]:
        """Return the ids of the applications that have an executor."""
        return set().union(*map(self.applications_on, WORKERS))

    def applications_on(self, worker: str) -> set[str]:
        """Return the ids of the applications that have an executor on a Spark worker."""
        page = json.loads(self.command("exec", "--no-TTY", worker, "python", "-c", READ_WORKER))
        return {executor["appid"] for executor in page["executors"]}

    def drivers(self, service: str) -> list[Row]:
        """Return the statuses of the drivers of a service and of those that share its folder."""
        command = ("python", "-m", "spark_jobs", "status", "--json")
        return list(json.loads(self.command("exec", "--no-TTY", service, *command)))

    def truth(self, service: str) -> Truth:
        """Return the expected output that the finished producer or load wrote."""
        path = self.folder / "truth.jsonl"
        self.command("cp", f"{service}:{TRUTH}", str(path))
        return read_truth(path)

    def verdict(self) -> tuple[int, str]:
        """Run `make verdict`, and return its exit status and what it printed."""
        done = output_of(["make", "--no-print-directory", "verdict"], self.env, timeout_s=600)
        return done.returncode, done.stdout + done.stderr

    def await_alerts(
        self, enough: Callable[[list[Row]], object], timeout_s: float, every_s: float = 4
    ) -> list[Row]:
        """Wait until enough alerts have been logged."""
        return eventually(self.alerts, enough, timeout_s=timeout_s, every_s=every_s)

    def compared(
        self, truth: Truth, timeout_s: float, rules: Collection[str] = DEFAULT_RULES
    ) -> Comparison:
        """Compare the logged with the expected alerts; wait for missing ones until the timeout.

        `rules` are those whose alerts the truth has: alerts of other rules are not compared.
        """
        due = {row["alert_id"] for row in truth.alerts}
        deadline = time.monotonic() + timeout_s
        seen = eventually(
            lambda: self.alerts(rules),
            lambda rows: due <= {row["alert_id"] for row in rows} or time.monotonic() > deadline,
            timeout_s=timeout_s + 60,
            every_s=2,
        )
        return compare_alerts(truth.alerts, seen)

    def remove(self) -> None:
        """Stop it and remove its containers and volumes."""
        self.command("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "3")
