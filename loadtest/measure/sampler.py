"""Sample the programs' CPU and memory, and topic sizes, twice a second during a point."""

import csv
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import psutil
from confluent_kafka import KafkaException

from loadtest.measure.collect import idle_consumer, partitions
from loadtest.measure.lag import Series

INTERVAL_S = 0.5
MIB = 2**20
JVM, WORKERS = " (JVM)", " (Python workers)"
OTHERS = "other programs"
"""All other programs on the machine, this tool included; they compete for the processors."""


class Sampler:
    """Samples process trees and topic sizes in a thread; `programs` are process ids by name."""

    def __init__(
        self, programs: dict[str, int], servers: str, topics: Sequence[str], sinks: Sequence[str]
    ) -> None:
        self.rows: list[tuple[float, str, float, float]] = []
        """Time (epoch s), program, percent of one processor since the last sample, resident MiB."""
        self.topic_sizes: Series = []
        """Number of records in all input topics over time."""
        self.ends: dict[str, int] = {}
        """The last known number of records by input topic."""
        self.output_count = 0
        """The last known number of records in the output topics."""
        self._sinks = frozenset(sinks)
        self._programs, self._done = programs, Event()
        # A consumer with partitions would fetch their records beside the measured jobs.
        self._reader = idle_consumer(servers)
        self._partitions = partitions(self._reader, [*topics, *sinks])
        self._spent: dict[int, float] = {}
        self._at, self._busy_s = time.time(), _busy_s()
        self._thread = Thread(target=self._watch, name="sampler", daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._reader.close()

    def add(self, name: str, pid: int) -> None:
        """Also sample this program."""
        self._programs[name] = pid

    def write(self, path: Path) -> None:
        """Write the rows as CSV."""
        with path.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(("epoch_s", "program", "cpu_percent", "rss_mib"))
            out.writerows(
                (f"{at:.2f}", name, f"{cpu:.1f}", f"{rss:.1f}") for at, name, cpu, rss in self.rows
            )

    def _watch(self) -> None:
        while not self._done.wait(INTERVAL_S):
            now = time.time()
            usage: dict[str, tuple[float, float]] = {}
            for name, pid in list(self._programs.items()):
                for part, cpu_s, rss in process_tree_usage(name, pid, self._spent):
                    before = usage.get(part, (0.0, 0.0))
                    usage[part] = (before[0] + cpu_s, before[1] + rss)
            busy_s = _busy_s()
            others_s = busy_s - self._busy_s - sum(cpu_s for cpu_s, _ in usage.values())
            usage[OTHERS], self._busy_s = (max(0.0, others_s), 0.0), busy_s
            for name, (cpu_s, rss) in usage.items():
                self.rows.append((now, name, 100 * cpu_s / (now - self._at), rss / MIB))
            self._at = now
            with suppress(KafkaException):
                ends = self._ends()
                self.output_count = sum(end for topic, end in ends.items() if topic in self._sinks)
                self.ends = {topic: end for topic, end in ends.items() if topic not in self._sinks}
                self.topic_sizes.append((time.time(), float(sum(self.ends.values()))))

    def _ends(self) -> dict[str, int]:
        ends: dict[str, int] = {}
        for part in self._partitions:
            _, end = self._reader.get_watermark_offsets(part, timeout=5)
            ends[part.topic] = ends.get(part.topic, 0) + end
        return ends


def process_tree_usage(
    name: str, pid: int, spent: dict[int, float]
) -> list[tuple[str, float, float]]:
    """Return each process of a program: its name, CPU seconds since the last call, and bytes.

    `spent` holds the CPU seconds of each process at the last call, and is updated.
    """
    found = []
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        for process, part in [
            (parent, name),
            *((child, "") for child in parent.children(recursive=True)),
        ]:
            with suppress(psutil.Error):
                times = process.cpu_times()
                total = times.user + times.system
                since = total - spent.get(process.pid, 0.0 if part == "" else total)
                spent[process.pid] = total
                of_java = Path(process.exe()).name == "java"
                # A child that a JVM forks is briefly a copy of it, named after a thread. Its memory
                # must not count twice.
                forked_copy = of_java and process.name() != "java"
                which = part or name + (JVM if of_java else WORKERS)
                found.append(
                    (
                        which,
                        max(since, 0.0),
                        0.0 if forked_copy else float(process.memory_info().rss),
                    )
                )
    return found


def _busy_s() -> float:
    """Return the busy CPU seconds of all processors since boot."""
    times = psutil.cpu_times()
    return float(
        sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
    )


def mean_and_max(
    rows: Sequence[tuple[float, str, float, float]], begin_s: float, end_s: float
) -> Mapping[str, tuple[float, float]]:
    """Return each program's mean CPU percent and highest resident MiB in an interval.

    The mean is over the whole interval: a program used no CPU while it did not run.
    """
    moments: set[float] = set()
    by_name: dict[str, list[tuple[float, float]]] = {}
    for at, name, cpu, rss in rows:
        if begin_s <= at <= end_s:
            moments.add(at)
            by_name.setdefault(name, []).append((cpu, rss))
    return {
        name: (sum(cpu for cpu, _ in used) / len(moments), max(rss for _, rss in used))
        for name, used in by_name.items()
    }


def max_jobs_mib(
    rows: Sequence[tuple[float, str, float, float]], begin_s: float, end_s: float
) -> float | None:
    """Return the highest resident MiB of all processes of the jobs together at one moment."""
    together: dict[float, float] = {}
    for at, name, _, rss in rows:
        if begin_s <= at <= end_s and name.startswith("jobs"):
            together[at] = together.get(at, 0.0) + rss
    return max(together.values(), default=None)
