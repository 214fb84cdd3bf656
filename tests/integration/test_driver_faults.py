"""Faults that a running driver overcomes, or that end it with a sentence; nothing gets lost."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, TopicPartition

from broker import server
from broker.server import RunningBroker
from events.topics import USER_ACTIONS
from tests.driver import Driver, python_workers
from tests.support import above, equal_to, eventually

pytestmark = pytest.mark.full

OUTAGE_S = float(os.environ.get("OUTAGE_SECONDS", "75"))
"""Long enough for Kafka's clients to give up after a minute; `OUTAGE_SECONDS=600` is the long form.
"""


def test_a_driver_overcomes_a_hanging_worker_a_broken_checkpoint_and_a_long_outage(
    own_broker: RunningBroker, tmp_path: Path
) -> None:
    driver = Driver(own_broker, tmp_path)

    def counts_all(timeout_s: float) -> None:
        driver.buy()
        eventually(driver.counted, equal_to(driver.purchases), timeout_s=timeout_s)

    def restarts() -> int:
        return int(driver.queries()["user_totals"]["restarts"])

    with driver.running("--no-dead-letters") as process:
        counts_all(120)
        counts_all(30)  # the first batch may take longer before it counts as stuck

        # Every Python worker hangs: health says so, and the query is stopped and started again.
        hanging = python_workers(process)
        assert hanging
        for worker in hanging:
            worker.suspend()
        driver.buy()
        driver.until_health_says("user_totals has ended no batch for", timeout_s=60)
        eventually(restarts, equal_to(1), timeout_s=120, every_s=0.5)
        for worker in hanging:
            with suppress(psutil.NoSuchProcess):
                worker.resume()
        counts_all(60)
        assert "failed and is started again now: it has ended no batch for" in driver.said()

        # The checkpoint cannot be written, until someone repairs it.
        (offsets,) = driver.root.glob("*user_totals*/**/offsets")
        kept = offsets.rename(offsets.with_name("kept"))
        offsets.touch()
        driver.buy()
        eventually(restarts, above(1), timeout_s=60, every_s=0.5)
        offsets.unlink()
        kept.rename(offsets)
        counts_all(60)
        (line,) = [one for one in driver.said().splitlines() if "a folder cannot be written" in one]
        assert line.startswith("user_totals failed and is started again now: ")
        assert str(offsets) in line

        # The broker is away for longer than its clients wait, and comes back with its data.
        own_broker.stop()
        back_at_s = time.monotonic() + OUTAGE_S
        driver.until_health_says("has not answered for", timeout_s=60)
        eventually(time.monotonic, above(back_at_s), timeout_s=OUTAGE_S, every_s=1)
        assert process.poll() is None, driver.said()
        restarted = server.start(own_broker.port, own_broker.data_dir)
        counts_all(90)
        driver.until_health_says("healthy: queries 1, processes 1", timeout_s=30)

        # Retention removes records that the driver has not read, which ends it.
        family = [one := psutil.Process(process.pid), *one.children(recursive=True)]
        for member in family:
            member.suspend()
        driver.buy()
        admin = KafkaAdminClient(bootstrap_servers=driver.kafka.bootstrap)
        topic = driver.kafka.name(USER_ACTIONS)
        numbers = driver.kafka.partitions(USER_ACTIONS)
        admin.delete_records({TopicPartition(topic, number): -1 for number in numbers})
        admin.close()
        driver.buy()
        for member in family:
            member.resume()
        assert process.wait(timeout=120) == 1
    restarted.stop()
    *_, last = driver.said().splitlines()
    assert re.fullmatch(
        r"spark_jobs: user_totals failed: the topic no longer holds the records that .*", last
    )
    status, said = driver.health()
    assert status == 1
    assert last.removeprefix("spark_jobs: ") in said
