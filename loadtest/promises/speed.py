"""The three speeds that the project promises, each with its reference or its bound, in one run.

Latency is taken from `scheduled_time`, when the load plan wanted the reading sent, to the moment at which a consumer
has the alert: a producer or a job that falls behind cannot hide the wait. One machine, one clock.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition

from broker.server import RunningBroker
from broker.topics import create_topics
from events import times, topics
from events.cli import PersonError
from events.settings import Settings
from jars.fetch import jar_paths, java
from loadtest.measure import catching_up, collect, left
from loadtest.processes import environment, produce, running
from loadtest.promises.stats import estimate, latency_line

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


def producer_against_reference(bench: Bench, count: int, repeats: int) -> float:
    """Return the ratio of our producer's records/s to ProducerPerformance's, same record size, order alternating."""
    ours: list[float] = []
    reference: list[float] = []
    size = _record_bytes(bench)
    for repeat in range(repeats):
        runs = [
            lambda r=repeat: ours.append(_ours(bench, f"speed-ours-{r}.", count)),
            lambda r=repeat: reference.append(
                _producer_performance(bench, f"speed-reference-{r}.", count, size)
            ),
        ]
        for run in runs if repeat % 2 == 0 else reversed(runs):
            run()
        bench.say(
            f"  {repeat + 1}/{repeats}: producer {ours[-1]:,.0f}/s, ProducerPerformance {reference[-1]:,.0f}/s"
        )
    ratio = estimate([a / b for a, b in zip(ours, reference, strict=True)])
    bench.say(f"producer: {estimate(ours)} records/s of {size} bytes; ratio to ProducerPerformance {ratio}")
    return ratio.median


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


def _ours(bench: Bench, prefix: str, count: int) -> float:
    env = bench.topics(prefix)
    return float(
        produce(env, "--rate", "max", "--count", str(count), "--racks", str(RACKS))["records_per_second"]
    )


def _producer_performance(bench: Bench, prefix: str, count: int, size: int) -> float:
    bench.topics(prefix)
    command = [
        java(), "-Xmx512m", "-cp", ":".join(map(str, jar_paths("broker", bench.settings))),
        "org.apache.kafka.tools.ProducerPerformance", "--topic", prefix + topics.RACK_READINGS.name,
        "--num-records", str(count), "--record-size", str(size), "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={bench.broker.bootstrap}", "acks=all",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    last = done.stdout.strip().splitlines()[-1]
    return float(last.split(" records sent, ")[1].split(" records/sec")[0])


def _record_bytes(bench: Bench) -> int:
    """Return the mean size of our records' values, from a small run read back."""
    prefix = "speed-size."
    count = 2000
    env = bench.topics(prefix)
    produce(env, "--rate", "max", "--count", str(count), "--racks", str(RACKS))
    reader = consumer(bench, prefix + topics.RACK_READINGS.name)
    sizes: list[int] = []
    while len(sizes) < count:
        sizes += [len(message.value() or b"") for message in reader.consume(count, timeout=5)]
    reader.close()
    return round(sum(sizes) / len(sizes))


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
