"""What do the programs take, and how much do the topics hold? Looked at twice a second while a point runs."""

import csv
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import psutil
from confluent_kafka import KafkaException, TopicPartition

from loadtest.measure.collect import consumer
from loadtest.measure.lag import Series

EVERY_S = 0.5
MIB = 2**20
JVM, WORKERS = " (JVM)", " (Python workers)"
OTHERS = "other programs"
"""What else the machine does, this tool included: on few processors the neighbours decide the tail."""


class Sampler:
    """Samples processes with all that they started, and the ends of the input topics, in a thread.

    `programs` are process numbers by name.
    """

    def __init__(
        self, programs: dict[str, int], servers: str, topics: Sequence[str], sinks: Sequence[str]
    ) -> None:
        self.rows: list[tuple[float, str, float, float]] = []
        """Moment (epoch s), program, percent of one processor since the sample before, resident MiB."""
        self.held: Series = []
        """How many records all input topics held at which moment."""
        self.ends: dict[str, int] = {}
        """How many each of them held last."""
        self.came = 0
        """How many records the output topics held last."""
        self._sinks = frozenset(sinks)
        self._programs, self._done = programs, Event()
        self._reader = consumer(servers, [*topics, *sinks])
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
        """Sample a program that has only just started too."""
        self._programs[name] = pid

    def write(self, path: Path) -> None:
        """Write the rows as CSV."""
        with path.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(("epoch_s", "program", "cpu_percent", "rss_mib"))
            out.writerows((f"{at:.2f}", name, f"{cpu:.1f}", f"{rss:.1f}") for at, name, cpu, rss in self.rows)

    def _watch(self) -> None:
        while not self._done.wait(EVERY_S):
            now = time.time()
            taken: dict[str, tuple[float, float]] = {}
            for name, pid in list(self._programs.items()):
                for part, cpu_s, rss in family(name, pid, self._spent):
                    before = taken.get(part, (0.0, 0.0))
                    taken[part] = (before[0] + cpu_s, before[1] + rss)
            busy_s = _busy_s()
            others_s = busy_s - self._busy_s - sum(cpu_s for cpu_s, _ in taken.values())
            taken[OTHERS], self._busy_s = (max(0.0, others_s), 0.0), busy_s
            for name, (cpu_s, rss) in taken.items():
                self.rows.append((now, name, 100 * cpu_s / (now - self._at), rss / MIB))
            self._at = now
            with suppress(KafkaException):
                ends = self._ends()
                self.came = sum(end for topic, end in ends.items() if topic in self._sinks)
                self.ends = {topic: end for topic, end in ends.items() if topic not in self._sinks}
                self.held.append((time.time(), float(sum(self.ends.values()))))

    def _ends(self) -> dict[str, int]:
        ends: dict[str, int] = {}
        for part in self._reader.assignment():
            _, end = self._reader.get_watermark_offsets(TopicPartition(part.topic, part.partition), timeout=5)
            ends[part.topic] = ends.get(part.topic, 0) + end
        return ends


def family(name: str, pid: int, spent: dict[int, float]) -> list[tuple[str, float, float]]:
    """Return of a program and its children the part that they belong to, seconds of processor since last, and bytes.

    `spent` holds what each process had spent at the last look, and is brought up to date.
    """
    found = []
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        for process, part in [(parent, name), *((child, "") for child in parent.children(recursive=True))]:
            with suppress(psutil.Error):
                times = process.cpu_times()
                total = times.user + times.system
                since = total - spent.get(process.pid, 0.0 if part == "" else total)
                spent[process.pid] = total
                of_java = Path(process.exe()).name == "java"
                # What a JVM is just starting is, for a moment, a copy with all its memory, by the name of a thread.
                copy = of_java and process.name() != "java"
                which = part or name + (JVM if of_java else WORKERS)
                found.append((which, max(since, 0.0), 0.0 if copy else float(process.memory_info().rss)))
    return found


def _busy_s() -> float:
    """Return the seconds that all processors have worked since the machine started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def mean_and_most(
    rows: Sequence[tuple[float, str, float, float]], begin_s: float, end_s: float
) -> Mapping[str, tuple[float, float]]:
    """Return of each program its mean percent of a processor and its most resident MiB, in a stretch of time."""
    by_name: dict[str, list[tuple[float, float]]] = {}
    for at, name, cpu, rss in rows:
        if begin_s <= at <= end_s:
            by_name.setdefault(name, []).append((cpu, rss))
    return {
        name: (sum(cpu for cpu, _ in taken) / len(taken), max(rss for _, rss in taken))
        for name, taken in by_name.items()
    }
