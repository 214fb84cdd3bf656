"""Run the overheating rule in Quix Streams, from `rack-readings` to `alerts`.

Written as a Quix user would write it: a streaming dataframe, one stateful function, state in
RocksDB with a changelog topic, and `--workers` processes in one consumer group. It runs in an
environment of its own (`requirements-quix.lock` beside this file) and imports nothing of the
project but `rule.py`.

Limits: it skips malformed records and prints their number to stderr at the end, where the project
writes dead letters. A kill repeats alerts with the same ids. It never forgets a rack.
"""

import argparse
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from quixstreams import Application, State
from quixstreams.models import Deserializer
from quixstreams.models.serializers.exceptions import IgnoreMessage
from rule import DEFAULT_THRESHOLD_C, Reading, add_reading, alert_of, read_thresholds

STOP_TIMEOUT_S = 8.0
"""How long workers may take to stop: time for their last commit."""
CONSUMER = {
    # By default a full queue pauses fetching for 100 ms, and the queue runs empty.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 200_000,  # some seconds of work, so that a catch-up does not wait
    "fetch.wait.max.ms": 100,  # the broker answers at one byte, so this adds no latency
    "heartbeat.interval.ms": 500,  # detects a rebalance sooner than by default (3 s)
}
PRODUCER = {
    "linger.ms": 0,  # send each alert at once
    "partitioner": "murmur2_random",  # as in Java, so that alerts are in the contract's partitions
}
COMMIT_INTERVAL_S = 5.0
"""Quix's default: state and offsets are committed together, so a kill repeats at most 5 s."""


class Settings(NamedTuple):
    """The command line's options."""

    bootstrap: str
    prefix: str
    inventory: Path
    state: Path

    @property
    def group(self) -> str:
        """The consumer group, one per prefix."""
        return f"{self.prefix}quix-overheating"


class ReadingDeserializer(Deserializer):
    """Parses a record's value; counts and skips malformed ones."""

    def __init__(self) -> None:
        super().__init__()
        self.malformed = 0
        self._decode = msgspec.json.Decoder(Reading).decode

    def __call__(self, value: bytes, ctx: Any) -> Reading:  # noqa: ARG002 - Quix's interface
        """Return the reading."""
        try:
            return self._decode(value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.malformed += 1
            raise IgnoreMessage from None


def rule_step(thresholds: dict[str, float]) -> Callable[[Reading, State], list[bytes]]:
    """Return the stateful function: from a reading and its rack's state to at most one alert."""
    encode = msgspec.json.Encoder().encode

    def apply(reading: Reading, state: State) -> list[bytes]:
        last = state.get("last") or []
        threshold_c = thresholds.get(reading.rack_id, DEFAULT_THRESHOLD_C)
        measured = (reading.sequence, reading.event_id, reading.event_time, reading.temperature_c)
        after, warning = add_reading(last, measured, threshold_c)
        if after is not last:
            state.set("last", after)
        if warning is None:
            return []
        alert = alert_of(
            reading.rack_id, reading.site_id, measured, after, threshold_c, warning=warning
        )
        return [encode(alert)]

    return apply


def work(settings: Settings, worker: int) -> None:
    """Run one process of the group until SIGTERM."""
    app = Application(
        broker_address=settings.bootstrap,
        consumer_group=settings.group,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_INTERVAL_S,
        # Static membership: a restarted worker gets its partitions back at once, with their state.
        consumer_extra_config={**CONSUMER, "group.instance.id": str(worker)},
        producer_extra_config=PRODUCER,
        state_dir=settings.state / str(worker),  # one process per RocksDB
        loglevel="WARNING",
    )
    deserializer = ReadingDeserializer()
    readings = app.topic(
        f"{settings.prefix}rack-readings", key_deserializer="bytes", value_deserializer=deserializer
    )
    alerts = app.topic(f"{settings.prefix}alerts", key_serializer="bytes", value_serializer="bytes")
    # State is by the record's key, the rack, so no repartitioning is needed.
    changes = app.dataframe(readings).apply(
        rule_step(read_thresholds(settings.inventory)), stateful=True, expand=True
    )
    changes.to_topic(alerts)
    app.run()
    sys.stderr.write(f"worker {worker}: malformed records: {deserializer.malformed}\n")


def members(settings: Settings) -> set[str]:
    """Return the ids of the group's members with partitions; none during a rebalance."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap})
    group = admin.describe_consumer_groups([settings.group])[settings.group].result()
    if group.state != ConsumerGroupState.STABLE:
        return set()
    return {member.member_id for member in group.members if member.assignment.topic_partitions}


def wait_until_consuming(settings: Settings, workers: list[BaseProcess], before: set[str]) -> None:
    """Wait until all workers have partitions; return early when one has ended.

    In: the members before the start, because the group keeps killed ones for a while.
    """
    while all(worker.is_alive() for worker in workers):
        if len(members(settings) - before) == len(workers):
            return
        time.sleep(0.1)


def main() -> int:
    """Start the workers, print `running`, and stop them on SIGTERM; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--bootstrap", required=True, help="Kafka bootstrap servers, host:port[,host:port]."
    )
    parser.add_argument("--prefix", default="", help="Prefix of every topic's name.")
    parser.add_argument(
        "--inventory", type=Path, required=True, help="JSON lines with the racks' thresholds."
    )
    parser.add_argument("--state", type=Path, required=True, help="Folder of the state.")
    parser.add_argument("--workers", type=int, default=2, help="Number of processes.")
    options = vars(parser.parse_args())
    count = options.pop("workers")
    settings = Settings(**options)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
    # Spawn, because librdkafka's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    workers: list[BaseProcess] = [
        context.Process(target=work, args=(settings, i), daemon=True) for i in range(count)
    ]
    try:
        before = members(settings)
        for worker in workers:
            worker.start()
        wait_until_consuming(settings, workers, before)
        print("running", flush=True)  # noqa: T201
        wait([worker.sentinel for worker in workers])
        failed = True  # workers end by themselves only on errors
    except KeyboardInterrupt:
        failed = False
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop(workers)
    return int(failed)


def stop(workers: list[BaseProcess]) -> None:
    """Stop the started workers; kill those that do not stop in time."""
    started = [worker for worker in workers if worker.pid is not None]
    for worker in started:
        worker.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for worker in started:
        worker.join(max(0.0, deadline - time.monotonic()))
        worker.kill()


if __name__ == "__main__":
    sys.exit(main())
