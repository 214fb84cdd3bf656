"""Measure what the dashboard's server costs when it holds all that it keeps, and is watched.

`python -m tests.browser.bench` starts a broker and the server, and fills all that the server keeps
up to its limits. Then it starts a replay of 1,000 racks at 5,000 readings/s, opens 20 streams, and
compares the server's processor time and memory with their limits.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import psutil
import typer
from confluent_kafka import Consumer, TopicPartition

from broker import server
from broker.server import free_port
from broker.topics import create_topics
from events import cli
from events.cli import UserFacingError
from events.inventory import write_inventory
from events.times import now_ms
from events.topics import RACK_READINGS
from tests.browser.dashboard import RunningDashboard, running_dashboard
from tests.browser.full_state import counts_of_each_kind, fill, full
from tests.browser.replay import inventory_of
from tests.support import Kafka, equal_to, eventually, program

MAX_PROCESSOR_SHARE = 0.15
MAX_MEMORY_MB = 150.0
LEAST_SHARE_OF_RATE = 0.95
"""With fewer readings than asked for, the measurement would say nothing."""

app = cli.new_app("Measure what the dashboard's server costs while browsers watch it.")


@app.command()
def main(
    racks: Annotated[int, typer.Option(help="How many racks.")] = 1_000,
    rate: Annotated[float, typer.Option(help="Readings per second, over all racks.")] = 5_000,
    browsers: Annotated[int, typer.Option(help="How many streams are open.")] = 20,
    seconds: Annotated[float, typer.Option(help="How long it is measured.")] = 60,
    warm_up: Annotated[float, typer.Option(help="Seconds before that.")] = 10,
) -> None:
    """Measure, and exit with 1 when a limit is exceeded."""
    with tempfile.TemporaryDirectory(prefix="rackstream-bench-") as name:
        folder = Path(name)
        broker = server.start(free_port(), folder / "kafka")
        try:
            kafka, inventory = Kafka(broker.bootstrap, "bench-"), folder / "inventory.jsonl"
            create_topics(kafka.bootstrap, kafka.prefix)
            write_inventory(inventory, inventory_of(racks))
            with running_dashboard(kafka, inventory, home=folder) as dashboard:
                typer.echo("Filling all that the server keeps ...")
                # Of readings that were sent before it reads, it reads only the last ones.
                eventually(dashboard.health, equal_to(HTTPStatus.OK))
                fill(kafka, inventory_of(racks), now_ms())
                eventually(
                    lambda: counts_of_each_kind(dashboard, inventory_of(racks)),
                    equal_to(full()),
                    timeout_s=120,
                )
                with replaying(kafka, folder / "replayed.jsonl", racks, rate, "--every-window"):
                    share, megabytes, received, sent = asyncio.run(
                        _measure(dashboard, kafka, browsers, warm_up, seconds)
                    )
        finally:
            broker.stop()
    typer.echo(
        f"{racks} racks, {sent:.0f} readings/s, {browsers} browsers, {seconds:g} s: "
        f"{100 * share:.1f} % of a processor (limit {100 * MAX_PROCESSOR_SHARE:g}), "
        f"{megabytes:.0f} MB (limit {MAX_MEMORY_MB:g}), "
        f"{received / 1e6 / seconds / browsers:.2f} MB/s per browser"
    )
    if sent < LEAST_SHARE_OF_RATE * rate:
        raise UserFacingError("the replay fell behind: repeat it while the machine is quiet.")
    if share > MAX_PROCESSOR_SHARE or megabytes > MAX_MEMORY_MB:
        raise UserFacingError("the server exceeds a limit: profile it.")


@contextmanager
def replaying(kafka: Kafka, inventory: Path, racks: int, rate: float, *more: str) -> Iterator[None]:
    """Run a replay in a process of its own; it has written the inventory when this yields."""
    options = (f"--racks={racks}", f"--rate={rate}", f"--inventory={inventory}", *more)
    output = inventory.with_name("replay.log")
    with program("tests.browser.replay", *options, env=kafka.env, output=output) as process:

        def has_begun() -> bool:
            assert process.poll() is None, output.read_text(encoding="utf-8")
            return inventory.exists()

        eventually(has_begun)
        yield


async def _measure(
    dashboard: RunningDashboard, kafka: Kafka, browsers: int, warm_up_s: float, seconds: float
) -> tuple[float, float, int, float]:
    """Return the share of a processor, the most memory in MB, bytes received, and readings/s."""
    received = [0]
    readers = [asyncio.create_task(_read(dashboard.port, received)) for _ in range(browsers)]
    process = psutil.Process(dashboard.process.pid)
    await asyncio.sleep(warm_up_s)
    readings = readings_in(kafka)
    before, began, received[0] = process.cpu_times(), time.monotonic(), 0
    megabytes = 0.0
    while time.monotonic() < began + seconds:
        await asyncio.sleep(1)
        megabytes = max(megabytes, process.memory_info().rss / 1e6)
    after, elapsed = process.cpu_times(), time.monotonic() - began
    for reader in readers:
        assert not reader.done(), "a stream has ended"
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    used = after.user + after.system - before.user - before.system
    sent = (readings_in(kafka) - readings) / elapsed
    return used / elapsed, megabytes, received[0], sent


def readings_in(kafka: Kafka) -> int:
    """Return how many readings the topic has got."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "bench"})
    with closing(consumer):
        return sum(
            consumer.get_watermark_offsets(TopicPartition(kafka.name(RACK_READINGS), number))[1]
            for number in range(RACK_READINGS.partitions)
        )


async def _read(port: int, received: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    try:
        while data := await reader.read(1 << 20):
            received[0] += len(data)
    finally:
        writer.close()


if __name__ == "__main__":
    cli.run(app, "tests.browser.bench")
