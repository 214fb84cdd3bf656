"""Is the join right? 200,000 impressions and their clicks against the truth, read at once, and live through two kills.

The scenario `join` sends what a join has to bear: late, too late, twice, out of order, without an impression. Every
row must be there that the producer's truth has, and no other; rows that depend on a too late event are counted apart.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import producer
from demo.clickstream import compare_attributions
from demo.comparison import Comparison
from events import topics
from events.cli import PersonError
from loadtest.processes import kill, produce, running, start
from loadtest.promises.speed import Bench, read_all

SCENARIO = Path(producer.__file__).parent / "scenarios" / "join.yaml"
HOURS = 12.2
"""How much event time the scenario's events span."""
KILLS = 2
BATCHES = 8
PATIENCE_S = 300.0

Result = dict[str, Comparison]


@dataclass(frozen=True, slots=True)
class Load:
    """How many impressions and clicks are sent, and how many a second where the join is live."""

    count: int
    rate: int


def at_once(bench: Bench, load: Load) -> Result:
    """Send everything, then join it under available-now."""
    prefix = "join-at-once."
    env = bench.topics(prefix)
    truth = bench.folder / f"{prefix}truth.jsonl"
    produce(env, *_scenario(load, truth))
    with running(bench.folder / f"{prefix}jobs.log", env, *_job(bench, load, prefix, "available-now")) as job:
        if job.wait():
            raise PersonError(
                f"the job ended with {job.returncode}: see {bench.folder / f'{prefix}jobs.log'}."
            )
    return compare_attributions(_rows(truth), read_all(bench, prefix, topics.AD_ATTRIBUTION))


def through_kills(bench: Bench, load: Load) -> Result:
    """Join while it is sent, and kill the job twice in the middle of a batch."""
    prefix = "join-live."
    env = bench.topics(prefix)
    truth, log = bench.folder / f"{prefix}truth.jsonl", bench.folder / f"{prefix}jobs.log"
    scale = HOURS * 3600 / (load.count / load.rate)
    live = [*_scenario(load, truth), f"--rate={load.rate}", f"--time-scale={scale:.0f}"]
    with running(bench.folder / f"{prefix}producer.log", env, "producer", "run", *live) as sender:
        for killed in range(KILLS):
            job = start(log, env, *_job(bench, load, prefix, "micro-batch"))
            try:
                _wait(partial(_in_a_batch_after, bench, prefix, killed + 1), "the job began no batch")
            finally:
                kill(job.pid)
            if sender.poll() is not None:
                # After a start, watermarks move again only when both topics bring something.
                raise PersonError(f"all was sent before kill {killed + 1} of {KILLS}: choose a lower --rate.")
            bench.say(f"  killed in the middle of a batch, {killed + 1} of {KILLS}")
        with running(log, env, *_job(bench, load, prefix, "micro-batch")) as last:
            _wait(lambda: sender.poll() is not None, "the producer did not end")
            if sender.returncode:
                raise PersonError(f"the producer ended with {sender.returncode}.")
            due = _rows(truth)
            result: Result = {}

            def complete() -> bool:
                nonlocal result
                if last.poll() is not None:
                    raise PersonError(f"the job ended with {last.returncode}: see {log}.")
                result = compare_attributions(due, read_all(bench, prefix, topics.AD_ATTRIBUTION))
                return all(compared.holds for compared in result.values())

            _wait(complete, "", every_s=2.0)
    return result


def _scenario(load: Load, truth: Path) -> list[str]:
    return [f"--scenario={SCENARIO}", "--flush", f"--count={load.count}", f"--truth={truth}"]


def _job(bench: Bench, load: Load, prefix: str, trigger: str) -> list[str]:
    # Many batches, as when it has run for long: in a single one nothing is ever late.
    return ["spark_jobs", "run", "ad_attribution", f"--trigger={trigger}",
            f"--records-per-batch={load.count // BATCHES}", f"--checkpoint-root={bench.folder / prefix}"]  # fmt: skip


def _in_a_batch_after(bench: Bench, prefix: str, done: int) -> bool:
    """Tell whether so many batches are done, and another has begun."""
    logs = {kind: len(_numbers(bench, prefix, kind)) for kind in ("offsets", "commits")}
    return logs["commits"] >= done and logs["offsets"] > logs["commits"]


def _numbers(bench: Bench, prefix: str, kind: str) -> list[str]:
    query = bench.folder / prefix / "ad_attribution" / "micro-batch"
    return [file.name for file in query.glob(f"*/{prefix}/{kind}/*") if file.name.isdigit()]


def _wait(look: Callable[[], bool], complaint: str, every_s: float = 0.05) -> None:
    """Wait until it is so; after the patience go on when there is no complaint, else raise it."""
    give_up = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > give_up:
            if not complaint:
                return
            raise PersonError(f"{complaint} within {PATIENCE_S:.0f} s.")
        time.sleep(every_s)


def _rows(truth: Path) -> list[dict[str, Any]]:
    rows = map(msgspec.json.decode, truth.read_bytes().splitlines())
    return [row for row in rows if row["kind"] == "attribution"]
