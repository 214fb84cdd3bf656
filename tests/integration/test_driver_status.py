"""Status, health and restarts of real queries on a real broker, while each part is stopped."""

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import closing, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest
from kafka import KafkaAdminClient

from broker.server import RunningBroker, free_port
from events.records import encode
from events.topics import RACK_READINGS, RACK_TEMPERATURE, USER_ACTIONS, USER_TOTALS
from tests.builders import action, reading
from tests.driver import Driver, python_workers
from tests.integration.test_jobs import SHUFFLE_WAIT
from tests.promises import Promises
from tests.spark.mixed_topic import output_differences
from tests.support import (
    SPARK_STARTS_WITHIN_S,
    Kafka,
    Sender,
    above,
    equal_to,
    eventually,
    kill,
    program,
    run,
)
from tests.unit.metrics import scrape

pytestmark = pytest.mark.full

KILLS = int(os.environ.get("QUERY_KILLS", "2"))
"""CI kills each query twice; `QUERY_KILLS=20` is the long form."""
BACK_WITHIN_S = 3.0
SILENCE_SHOWS_S = 30 + 20
"""A broker may be silent for 30 s; a request to it may wait for some seconds before that."""
JOBS = ("rack_temperature", "user_totals")


class Operator:
    """What an operator sees of a driver, a producer and alerting, each of which has metrics."""

    def __init__(self, driver: Driver, database: Path) -> None:
        self.ports = {name: free_port() for name in ("producer", "alerting")}
        self.ports["spark_jobs"] = driver.metrics_port
        self.env = driver.env | {"ALERTING_DATABASE": str(database)}

    def status(self) -> str:
        """Return what `spark_jobs status` shows in 80 columns, with its lines joined."""
        shown = run("spark_jobs", "status", env=self.env).stdout
        assert max(map(len, shown.splitlines())) <= 80
        return " ".join(shown.split())

    def health(self, *names: str) -> dict[str, str]:
        """Return what the command `health` of each program says, and its exit status."""
        done = {name: run(name, "health", env=self.env) for name in names or self.ports}
        return {
            name: f"{one.returncode} {one.stdout}{one.stderr}".strip() for name, one in done.items()
        }

    def metric(self, program_name: str, name: str, **labels: str) -> float | str | None:
        """Return the value of a metric, or that the program does not answer."""
        try:
            return scrape(self.ports[program_name])(name, **labels)
        except OSError:
            return "no answer"

    def metrics_say(self, value: int) -> bool:
        """Tell whether the metrics of health have a value in all programs."""
        return all(
            self.metric(name, "healthy") == self.metric(name, "broker_reachable") == value
            for name in self.ports
        )

    def health_where_metrics_say(self, value: int) -> dict[str, str]:
        """Return what each command says, or nothing where the metrics of health differ.

        The metrics are asked first, as each command starts a process.
        """
        return self.health() if self.metrics_say(value) else {}

    def sees_everything_work(self) -> bool:
        """Tell whether all programs are healthy."""
        said = self.health_where_metrics_say(1)
        return bool(said) and all(text.startswith("0 healthy: ") for text in said.values())

    def sees_that_one_was_killed(self, name: str, pid: int) -> None:
        """Check the three views of a process that no longer runs."""
        sentence = f"{name}: process {pid} was killed, "
        assert self.health(name)[name].startswith(f"1 {sentence}")
        assert f"! {sentence}" in self.status()
        assert self.metric(name, "healthy") == "no answer"


def test_what_is_stopped_or_deleted_shows_in_the_status_the_health_and_the_metrics(
    own_broker: RunningBroker, tmp_path: Path
) -> None:
    driver = Driver(own_broker, tmp_path, "rack_temperature")
    operator = Operator(driver, tmp_path / "alerts")
    producer_port, alerting_port = (
        f"--metrics-port={operator.ports[name]}" for name in ("producer", "alerting")
    )
    sends = ("producer", "run", "--streams=racks", "--rate=20", "--racks=5", producer_port)
    logs = ("alerting", "run", alerting_port)
    with (
        driver.running(SHUFFLE_WAIT) as process,
        program(*sends, env=operator.env, output=tmp_path / "producer.log") as producer,
        program(*logs, env=operator.env, output=tmp_path / "alerting.log") as alerting,
    ):
        driver.buy()
        eventually(driver.counted, equal_to(driver.purchases), timeout_s=SPARK_STARTS_WITHIN_S)
        driver.until_health_says("healthy: queries 4, processes 1", timeout_s=60)
        eventually(operator.sees_everything_work)
        behind = partial(driver.metric, "query_records_behind", query="user_totals")
        queries = eventually(
            lambda: driver.queries() if behind() == 0 else {},
            lambda found: bool(found) and found["user_totals"].get("records_behind") == 0,
        )
        totals, temperature = queries["user_totals"], queries["rack_temperature"]
        assert "records_behind" not in temperature and "state_rows" not in temperature
        # It keeps the id of each purchase, to remove repeats, and one user's total.
        assert totals["state_rows"] == driver.purchases + 1
        assert totals["state_bytes"] > 0
        for name in ("state_rows", "state_bytes"):
            assert (
                operator.metric("spark_jobs", f"query_{name}", query="user_totals") == totals[name]
            )

        # A Python worker dies: its query is started again, the others go on. Idle workers are only
        # replaced, so this looks often enough to meet a batch, which is short.
        def has_failed_after_kill() -> bool:
            driver.buy()
            for worker in python_workers(process):
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
            return "user_totals failed and is started again now" in driver.said()

        eventually(has_failed_after_kill, timeout_s=60)
        restarts = partial(driver.metric, "query_restarts_total", query="user_totals")
        eventually(lambda: restarts() or 0, above(0))
        eventually(driver.counted, equal_to(driver.purchases), timeout_s=60)
        queries = eventually(driver.queries, lambda found: found["user_totals"]["restarts"] > 0)
        assert queries["rack_temperature"]["restarts"] == 0

        # The broker accepts connections and does not answer.
        psutil.Process(own_broker.pid).suspend()
        silent = f"the broker at {own_broker.bootstrap} has not answered for "
        eventually(
            lambda: operator.health_where_metrics_say(0),
            lambda said: said and all(f"1 {name}: {silent}" in said[name] for name in said),
            timeout_s=SILENCE_SHOWS_S,
            every_s=0.2,
        )
        shown = operator.status()
        assert f"the broker at {own_broker.bootstrap} does not answer" in shown
        assert all(f"! {name}{silent}" in shown for name in ("", "producer: ", "alerting: "))
        assert operator.metrics_say(0)
        psutil.Process(own_broker.pid).resume()
        eventually(operator.sees_everything_work, timeout_s=60)
        driver.buy()
        eventually(driver.counted, equal_to(driver.purchases), timeout_s=SPARK_STARTS_WITHIN_S)

        for name, victim in (("producer", producer), ("alerting", alerting)):
            kill(victim)
            operator.sees_that_one_was_killed(name, victim.pid)

        # A topic is deleted, which ends the driver.
        admin = KafkaAdminClient(bootstrap_servers=driver.kafka.bootstrap)
        admin.delete_topics([driver.kafka.name(USER_ACTIONS)])
        admin.close()
        assert process.wait(timeout=120) == 1
    *_, last = driver.said().splitlines()
    # Which of the queries notices first, and how, is chance.
    assert re.fullmatch(
        r"spark_jobs: (user_totals|dead_letters-user-actions) failed: "
        r"(a topic is missing: run|the topic no longer holds) .*",
        last,
    )
    status, said = driver.health()
    assert status == 1
    ended = f"process {process.pid} has ended: {last.removeprefix('spark_jobs: ')}"
    assert ended in said
    assert f"! {ended}" in operator.status()
    assert operator.metric("spark_jobs", "healthy") == "no answer"


def lost(kafka: Kafka, sent: int) -> object:
    """Return what the outputs lack; nothing when they are right."""
    rows = [json.loads(record.value or b"") for record in kafka.read_all(USER_TOTALS)]
    purchases = max((row["purchase_count"] for row in rows), default=0)
    return (sent - purchases) or output_differences(kafka, {}, ["rack_temperature"])


@pytest.mark.alone
def test_killed_queries_are_back_within_three_seconds_and_lose_nothing(
    topics: Kafka,
    tmp_path: Path,
    promises: Promises,
    record_property: Callable[[str, object], None],
) -> None:
    end, sent = Event(), [0]

    def send() -> None:
        with closing(Sender(topics)) as sender:
            while not end.wait(0.1):
                number = sent[0]
                purchase, one = action(f"a{number}", amount=Decimal("1.00")), reading(number)
                sender.send(USER_ACTIONS, [("user", encode(purchase))])
                sender.send(RACK_READINGS, [(one.rack_id, encode(one))])
                sent[0] += 1

    env = topics.env | {"RACKSTREAM_HOME": str(tmp_path)}
    sender = Thread(target=send)
    sender.start()
    output = tmp_path / "kills.log"
    command = ("tests.query_kills", str(KILLS), tmp_path / "checkpoints", *JOBS)
    try:
        with program(*command, env=env, output=output) as process:

            def kills_done() -> list[dict[str, Any]]:
                text = output.read_text(encoding="utf-8")
                assert process.poll() is None, text[-2000:]
                return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

            kills = eventually(
                kills_done,
                lambda done: len(done) == KILLS * len(JOBS),
                timeout_s=60 + 25 * KILLS,
                every_s=0.5,
            )
            end.set()
            sender.join()
            eventually(lambda: lost(topics, sent[0]), lambda found: not found, timeout_s=60)
            assert kill(process, signal.SIGTERM) == 0
    finally:
        end.set()
        sender.join()
    for job, sink in zip(JOBS, (RACK_TEMPERATURE, USER_TOTALS), strict=True):
        own = [one for one in kills if one["job"] == job]
        active_s = [(one["active_ms"] - one["killed_ms"]) / 1000 for one in own]
        outputs = [record.timestamp_ms for record in topics.read_all(sink)]
        output_s = [
            (next(at for at in outputs if at > one["active_ms"]) - one["killed_ms"]) / 1000
            for one in own
        ]
        print(f"{job}: active again after {active_s} s, first output after {output_s} s")  # noqa: T201
        record_property(f"{job}_active_s", active_s)
        record_property(f"{job}_output_s", output_s)
        assert len(active_s) == KILLS
        promises.compare(f"{job} back after a kill", max(active_s), BACK_WITHIN_S, margin=1)
