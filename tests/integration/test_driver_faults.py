"""A driver at work: what its metrics cost, and faults that it overcomes or that end it."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from kafka import KafkaAdminClient, TopicPartition

from broker import server
from broker.server import RunningBroker
from events.topics import USER_ACTIONS
from tests.driver import Driver, python_workers
from tests.promises import Promises
from tests.support import SPARK_STARTS_WITHIN_S, above, equal_to, eventually, run
from tests.unit.metrics import await_value, scrape, value

pytestmark = pytest.mark.full

OUTAGE_S = float(os.environ.get("OUTAGE_SECONDS", "75"))
"""Long enough for Kafka's clients to give up after a minute; `OUTAGE_SECONDS=600` is the long form.
"""
SCRAPES = 200
SCRAPE_INTERVAL_S = 1.0
MAX_COST_PERCENT = 2.0
"""The most processor time of metrics, as a share of that of the jobs."""
AtWork = tuple[Driver, "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def at_work(
    own_broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AtWork]:
    """Run a driver and its job for a file."""
    driver = Driver(own_broker, tmp_path_factory.mktemp("driver"))
    with driver.running("--no-dead-letters") as process:
        yield driver, process


def test_a_driver_counts_its_batches_at_little_cost(at_work: AtWork, promises: Promises) -> None:
    driver, process = at_work
    port, query = driver.metrics_port, {"query": driver.jobs[0]}
    driver.buy(40)
    eventually(
        lambda: value(port, "query_input_rows_total", **query),
        equal_to(40),
        timeout_s=SPARK_STARTS_WITHIN_S,
    )
    first = scrape(port)
    driver.buy(5)
    second = await_value(45, port, "query_input_rows_total", **query)
    jobs_s = processor_share(process.pid, driver)
    program_itself = psutil.Process(process.pid)
    before_s = sum(program_itself.cpu_times()[:2])
    for _ in range(SCRAPES):
        scrape(port)
    scrape_s = (sum(program_itself.cpu_times()[:2]) - before_s) / SCRAPES
    batch = "query_batch_duration_seconds"
    assert (second(f"{batch}_count", **query) or 0) > (first(f"{batch}_count", **query) or 0) > 0
    phases_s = sum(
        one.value
        for one in second.samples
        if one.name == "rackstream_query_batch_phase_duration_seconds_sum"
    )
    assert 0 < phases_s <= (second(f"{batch}_sum", **query) or 0)
    assert second("query_active", **query) == 1
    assert second("query_restarts_total", **query) == 0
    cost = scrape_s / SCRAPE_INTERVAL_S / jobs_s
    print(  # noqa: T201 - for `-s`
        f"{1000 * scrape_s:.1f} ms of processor time for a scrape; every {SCRAPE_INTERVAL_S:g} s "
        f"that is {cost:.2%} of the {jobs_s:.2f} processors that the jobs use"
    )
    # Where other programs take the processors, the jobs use less of them.
    promises.compare("cost of metrics", 100 * cost, MAX_COST_PERCENT, "%", margin=1)


def processor_share(pid: int, driver: Driver) -> float:
    """Return how many processors a driver uses, its JVM included, while 200 actions/s arrive."""
    process = psutil.Process(pid)

    def used_s() -> float:
        return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))

    before_s, start_s = used_s(), time.monotonic()
    done = run("producer", "run", "--streams=actions", "--rate=200", "--duration=5", env=driver.env)
    assert done.returncode == 0, done.stderr
    return (used_s() - before_s) / (time.monotonic() - start_s)


def test_a_driver_overcomes_a_hanging_worker_a_broken_checkpoint_and_a_long_outage(
    own_broker: RunningBroker, at_work: AtWork
) -> None:
    driver, process = at_work

    def counts_all(timeout_s: float) -> None:
        driver.buy()
        eventually(driver.counted, equal_to(driver.purchases), timeout_s=timeout_s)

    def restarts() -> float:
        return driver.metric("query_restarts_total", query="user_totals") or 0

    counts_all(SPARK_STARTS_WITHIN_S)
    counts_all(60)  # the first batch may take longer before it counts as stuck

    # Every Python worker hangs: health says so, and the query is stopped and started again.
    hanging = python_workers(process)
    assert hanging
    for worker in hanging:
        worker.suspend()
    driver.buy()
    driver.until_health_says("user_totals has ended no batch for", timeout_s=60)
    eventually(restarts, equal_to(1), timeout_s=120, every_s=0.2)
    eventually(lambda: driver.queries()["user_totals"]["restarts"], equal_to(1))
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
    eventually(restarts, above(1), timeout_s=60, every_s=0.2)
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
    driver.until_health_says("healthy: queries 1, processes 1", timeout_s=60)

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
