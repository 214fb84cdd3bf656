"""Two speeds that the project promises, each with its bound, in one run.

Latency is taken from `scheduled_time`, when the load plan wanted the reading sent, to the moment at which a consumer
has the alert: a producer or a job that falls behind cannot hide the wait. One machine, one clock.
"""

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Consumer, TopicPartition

from broker.server import RunningBroker
from broker.topics import create_topics
from events import times, topics
from events.cli import PersonError
from events.settings import Settings
from loadtest.measure import catching_up, collect, left
from loadtest.processes import environment, produce, running

RACKS = 400
START_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measurement needs: the broker, the settings, a folder for logs and checkpoints, a place to report."""

    broker: RunningBroker
    settings: Settings
    folder: Path
    say: Callable[[str], None]

    def topics(self, prefix: str) -> dict[str, str]:
        """Create fresh topics with the prefix; return the environment for the programs that use them."""
        create_topics(self.broker.bootstrap, prefix)
        return environment(self.broker.bootstrap, prefix)


def real_time_latency(bench: Bench, rate: int, seconds: int, warm_up: int) -> list[float]:
    """Return the latencies of `overheating` in Real-time Mode, in milliseconds, after the warm-up."""
    prefix = f"speed-latency-{rate}."
    env = bench.topics(prefix)
    inventory = bench.folder / "inventory.jsonl"
    load = [
        "--rate",
        str(rate),
        "--racks",
        str(RACKS),
        "--fault",
        f"hovering={RACKS // 4}",
        "--inventory",
        str(inventory),
    ]
    produce(env, *load, "--count", "1")
    job = ["spark_jobs", "run", "overheating", "--trigger", "real-time", "--inventory", str(inventory),
           "--checkpoint-root", str(bench.folder / prefix)]  # fmt: skip
    with running(bench.folder / f"{prefix}jobs.log", env, *job) as jobs:
        generator = ["producer", "run", *load, "--duration", str(seconds + warm_up + START_SECONDS)]
        with running(bench.folder / f"{prefix}producer.log", env, *generator):
            # Without a time scale a reading is scheduled for its own event time.
            latencies = observe(
                bench, prefix, topics.ALERTS, lambda alert: alert["event_time"], jobs, seconds, warm_up
            )
            bench.say(f"overheating, real-time: {latency_line(latencies)} alerts")
            return latencies


def micro_batch_catch_up(bench: Bench, count: int) -> tuple[float, float]:
    """Return readings/s of `overheating` catching up in micro-batches: of all its batches, and after the first one."""
    prefix = "speed-catch-up."
    env = bench.topics(prefix)
    inventory = bench.folder / "inventory.jsonl"
    produce(env, "--rate", "max", "--count", str(count), "--racks", str(RACKS), "--fault", "overheating=40",
            "--inventory", str(inventory))  # fmt: skip
    progress = bench.folder / "catch-up.jsonl"
    job = ["spark_jobs", "run", "overheating", "--trigger", "available-now", "--inventory", str(inventory),
           "--checkpoint-root", str(bench.folder / prefix), "--progress", str(progress)]  # fmt: skip
    return catch_up(bench, env, prefix, job, progress, "overheating", count)


def catch_up(
    bench: Bench, env: dict[str, str], prefix: str, command: list[str], progress: Path, query: str, count: int
) -> tuple[float, float]:
    """Run a job that ends; return records/s of its query: of all its batches, and after the first one.

    Raises `PersonError` when the job fails, or read another number of records than `count`.
    """
    log = bench.folder / f"{prefix}jobs.log"
    with running(log, env, *command) as jobs:
        if jobs.wait():
            raise PersonError(f"the job ended with {jobs.returncode}: see {log}.")
    batches = left.progress(progress).get(query, [])
    read = sum(batch["numInputRows"] for batch in batches)
    if read != count:
        raise PersonError(f"the job read {read} of {count} records: not a measurement.")
    whole, warm = catching_up.by_batches({query: batches})
    return whole or 0.0, warm or 0.0


def consumer(bench: Bench, topic: str) -> Consumer:
    """Return a consumer of all of a topic, from its beginning, that hands over each record at once."""
    return collect.consumer(bench.broker.bootstrap, [topic])


def read_all(bench: Bench, prefix: str, topic: topics.Topic) -> list[dict[str, Any]]:
    """Return the values of all records that a topic holds now, as the JSON objects that they are."""
    name = prefix + topic.name
    reader = consumer(bench, name)
    try:
        parts = reader.assignment()
        held = sum(reader.get_watermark_offsets(TopicPartition(name, p.partition))[1] for p in parts)
        values: list[bytes] = []
        while len(values) < held:
            values += [message.value() or b"" for message in reader.consume(10_000, timeout=1)]
        return [msgspec.json.decode(value) for value in values]
    finally:
        reader.close()


def observe(
    bench: Bench,
    prefix: str,
    topic: topics.Topic,
    due: Callable[[dict[str, Any]], str | None],
    jobs: "subprocess.Popen[bytes]",
    seconds: int,
    warm_up: int,
) -> list[float]:
    """Collect latencies of a job's records for `seconds`, in ms, once the first has come and the warm-up has passed.

    `due` says when what a record needs was to be sent, in the contract's text; None: it is not measured.
    """
    reader = consumer(bench, prefix + topic.name)
    decode = msgspec.json.Decoder().decode
    give_up, measure_from, until = time.monotonic() + START_SECONDS, float("inf"), float("inf")
    latencies: list[float] = []
    try:
        while (now := time.monotonic()) < until:
            if jobs.poll() is not None or (now > give_up and until == float("inf")):
                raise PersonError(f"no record came: see {bench.folder / f'{prefix}jobs.log'}.")
            message = reader.poll(0.05)  # at once when there is one; consume(n) would wait for n of them
            if message is None or message.error():
                continue
            seen_ms = time.time() * 1000
            if until == float("inf"):
                measure_from, until = now + warm_up, now + warm_up + seconds
            if now >= measure_from and (moment := due(decode(message.value() or b""))) is not None:
                latencies.append(seen_ms - times.to_ms(moment))
    finally:
        reader.close()
    return latencies


def latency_line(latencies_ms: Sequence[float]) -> str:
    """Return p50, p95, p99 and the maximum of latencies in milliseconds, as text."""
    p50, p95, p99, most = np.percentile(np.asarray(latencies_ms, dtype=float), [50, 95, 99, 100])
    return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms, max {most:.0f} ms of {len(latencies_ms):,}"
