"""How fast are the clickstream's jobs: attribution under a steady load, and counts in catch-up.

Latency of attribution is from the click's `scheduled_time` to the moment at which a consumer has the joined row.
"""

import subprocess
from threading import Event, Thread
from typing import Any

import psutil

from events import topics
from loadtest.processes import produce, running
from loadtest.promises.speed import START_SECONDS, Bench, catch_up, latency_line, observe

MIB = 2**20
COUNTS_BATCH = 2_000_000
"""Actions in a batch of the catch-up: a batch has a fixed cost, and this one holds no record in memory."""
WARM_UP_SECONDS = 160
"""So long the JVM's compiler takes a third of two processors, and the backlog of the start is there."""


def attribution_latency(bench: Bench, rate: int, seconds: int, warm_up: int) -> tuple[list[float], float]:
    """Return the latencies of joined rows in ms at `rate` events/s (both streams), and the job's most memory in MiB.

    A job that cannot keep up shows it as latencies that grow with every second.
    """
    warm_up = max(warm_up, WARM_UP_SECONDS)
    prefix = f"speed-attribution-{rate}."
    env = bench.topics(prefix)
    job = ["spark_jobs", "run", "ad_attribution", "--trigger", "micro-batch",
           "--checkpoint-root", str(bench.folder / prefix)]  # fmt: skip
    with running(bench.folder / f"{prefix}jobs.log", env, *job) as jobs, _Memory(jobs) as most_bytes:
        load = [
            "--streams",
            "clicks",
            "--rate",
            str(rate),
            "--duration",
            str(seconds + warm_up + START_SECONDS),
        ]
        with running(bench.folder / f"{prefix}producer.log", env, "producer", "run", *load):
            latencies = observe(bench, prefix, topics.AD_ATTRIBUTION, _due, jobs, seconds, warm_up)
        most = max(most_bytes) / MIB
    bench.say(f"ad_attribution at {rate:,} events/s: {latency_line(latencies)} rows; at most {most:,.0f} MiB")
    return latencies, most


def counts_catch_up(bench: Bench, count: int) -> tuple[float, float]:
    """Return actions/s of `action_counts` catching up: of all its batches, and after the first one."""
    prefix = "speed-counts."
    env = bench.topics(prefix)
    sent = produce(env, "--streams", "actions", "--rate", "max", "--count", str(count))
    progress = bench.folder / "counts.jsonl"
    job = ["spark_jobs", "run", "action_counts", "--trigger", "available-now",
           "--checkpoint-root", str(bench.folder / prefix), "--progress", str(progress),
           "--records-per-batch", str(COUNTS_BATCH)]  # fmt: skip
    return catch_up(bench, env, prefix, job, progress, "action_counts", int(sent["acknowledged"]))


def _due(row: dict[str, Any]) -> str | None:
    # Without a time scale an event is scheduled for its own event time.
    moment: str | None = row["click_time"]
    return moment


class _Memory:
    """Watch the resident memory of a process and its children while the block runs."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._parent, self._done, self.seen = psutil.Process(process.pid), Event(), [0]
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self.seen

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(1):
            try:
                family = [self._parent, *self._parent.children(recursive=True)]
                self.seen.append(sum(process.memory_info().rss for process in family))
            except psutil.NoSuchProcess:
                continue  # one ended between the list and the look
