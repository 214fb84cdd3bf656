"""One point: fresh topics and checkpoints, the programs around them, the load, the end of it, and what it says.

Each program is a process of its own: collector, jobs, producer. The jobs run before the first record is sent, so that
no backlog of their start is measured; in a catch-up all records are there before the jobs start.
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.server import RunningBroker
from events.cli import PersonError
from events.times import now_ms, to_text
from events.topics import DEAD_LETTERS, Topic
from loadtest import commands, peers, topics
from loadtest.measure import analysis, deciding, lag, left
from loadtest.measure.closing import Closing, windows_of
from loadtest.measure.collect import Output, outputs
from loadtest.measure.inputs import read_inputs
from loadtest.measure.judging import judge
from loadtest.measure.raw_files import write_raw
from loadtest.measure.result import RESULT, PointResult, save
from loadtest.measure.sampler import Sampler
from loadtest.plan import Gates, Point
from loadtest.processes import PYTHON_M, environment, kill
from loadtest.programs import Programs
from spark_jobs.job import JobOptions
from spark_jobs.registry import JOBS

SETTLE_S = 3.0
"""After its queries have started, Spark starts their tasks."""
QUIET_S = {"real-time": 5.0, "micro-batch": 30.0}
"""So long nothing comes out until nothing more is expected, where nobody says that all is read."""
CATCH_UP_QUIET_S = 60.0
"""The same where all records were there before: the first output takes its time."""
COLLECTED_S = 1.0
"""For the collector to have the last ones too."""
DRAIN_S = 600.0
"""What has not come by then will not."""
STEP_S = 0.2

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Bench:
    """What every point needs: the broker, the folder of the run, whether to keep what the points left, who is told."""

    broker: RunningBroker
    folder: Path
    tell: Tell


class OnePoint:
    """A point that is being run, in a folder of its own."""

    def __init__(self, bench: Bench, point: Point, bounds: Gates) -> None:
        self._bench, self._point, self._bounds = bench, point, bounds
        self._settings = point.settings
        self._folder = bench.folder / "points" / point.folder
        self._prefix = f"load-{point.folder}-{now_ms()}-"
        self._programs = Programs(self._folder, environment(bench.broker.bootstrap, self._prefix))
        jobs = [JOBS[name] for name in self._settings.jobs]
        sources = (topic for job in jobs for topic in job.sources(JobOptions()))
        self._sources: list[Topic] = list(dict.fromkeys(sources))
        self._sinks = [*dict.fromkeys(job.sink for job in jobs if job.sink), DEAD_LETTERS]

    def run(self) -> PointResult:
        """Run it and return what it says; its files lie in its folder afterwards."""
        began, servers = to_text(now_ms()), self._bench.broker.bootstrap
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        topics.make(servers, self._prefix, self._sources, self._settings.partitions)
        commands.write_scenario(self._point, self._folder)
        self._programs.to_end("world", *commands.world(self._folder))
        catch_up = bool(self._settings.count)
        if catch_up:
            self._say("sending all records")
            self._programs.to_end("producer", *commands.producer(self._point, self._folder))
        with ExitStack() as stack:
            names = [self._prefix + topic.name for topic in self._sinks]
            output = str(self._file("outputs.bin"))
            collect = self._programs.running("collector", "loadtest.measure.collect", servers, output, *names)
            collector = stack.enter_context(collect)
            self._programs.await_words("collector", ["ready"])
            sampler = Sampler(
                {"broker": self._bench.broker.pid, "collector": collector.pid},
                servers,
                [self._prefix + topic.name for topic in self._sources],
                names,
            )
            stack.enter_context(sampler)
            command, by, words = self._jobs()
            killed_ms = self._until_killed(command, sampler) if self._settings.kill_at else None
            with self._programs.running("jobs", *command, by=by) as jobs:
                sampler.add("jobs", jobs.pid)
                started_ms = now_ms()
                if not self._settings.ends_itself:
                    self._say(f"starting {self._settings.engine}")
                    self._programs.await_words("jobs", words)
                    started_ms = now_ms()
                if not catch_up:
                    time.sleep(SETTLE_S)
                    with self._programs.running(
                        "producer", *commands.producer(self._point, self._folder)
                    ) as sender:
                        sampler.add("producer", sender.pid)
                        self._while_sending(sender)
                self._drain(jobs if self._settings.ends_itself else None, sampler)
        starts_ms = (killed_ms or started_ms, started_ms if killed_ms else None)
        summary = left.summary(self._programs.log("producer"))
        sampler.write(self._file("samples.csv"))
        self._say("working out the result")
        return self._result(began, starts_ms, summary, sampler)

    def _jobs(self) -> tuple[list[str], tuple[str, ...], list[str]]:
        """Return the command of what decides, what runs the command, and the words that say that it runs."""
        settings = self._settings
        if settings.engine == "spark":
            started = [f"{name} ({settings.trigger})" for name in settings.jobs]
            return commands.jobs(self._point, self._folder), PYTHON_M, started
        options = commands.peer(self._folder, self._bench.broker.bootstrap, self._prefix)
        return options, peers.command(settings.engine), ["running"]

    def _until_killed(self, command: list[str], sampler: Sampler) -> int:
        """Run the jobs until they have read their share, kill them, and return when they started."""
        started_ms, due = now_ms(), (self._settings.kill_at or 0) * (self._settings.count or 0)
        with self._programs.running("killed-jobs", *command) as jobs:
            sampler.add("jobs", jobs.pid)
            while self._read() < due:
                self._say("catching up, to be killed")
                if jobs.poll() is not None:
                    raise PersonError(
                        "the jobs ended before they could be killed "
                        f"({self._programs.words('killed-jobs')}): raise count, or lower kill_at."
                    )
                time.sleep(STEP_S)
            kill(jobs.pid)
        return started_ms

    def _read(self) -> int:
        """Return how much the jobs have read, by Spark's word; of several jobs what the last of them has."""
        return min(lag.reached(rows[-1]) if rows else 0 for rows in self._main_batches())

    def _result(
        self, began: str, starts_ms: tuple[int, int | None], summary: dict[str, Any], sampler: Sampler
    ) -> PointResult:
        point, servers = self._point, self._bench.broker.bootstrap
        collected: list[Output] = list(outputs(self._file("outputs.bin")))
        rows = analysis.decode(collected)
        names, closing = [topic.name for topic in self._sinks], Closing(self._settings)
        deciders = None
        if not self._settings.count:
            wanted = {
                key
                for o, row in zip(collected, rows, strict=True)
                for key in analysis.keys_of(closing, names[o.topic], row)
            }
            deciders = deciding.Deciders(wanted, deciding.Windows(*windows_of(self._settings)))
        inputs = read_inputs(servers, self._prefix, self._sources, deciders)
        seen: dict[str, list[Any]] = {name: [] for name in names}
        for output, row in zip(collected, rows, strict=True):
            seen[names[output.topic]].append(row)
        checkpoint = self._file("checkpoint")
        raw = analysis.Raw(
            began=began,
            started_ms=starts_ms[0],
            restarted_ms=starts_ms[1],
            sent=summary,
            sinks=self._sinks,
            outputs=collected,
            rows=rows,
            inputs=inputs,
            found=deciders.found if deciders else {},
            compared=judge(self._settings, left.truth(self._file(commands.TRUTH)), seen)
            if self._settings.truth
            else {},
            batches=left.progress(self._file(commands.PROGRESS)),
            held=sampler.held,
            samples=sampler.rows,
            checkpoint_bytes=sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file()),
            flushes=len(self._sources) if self._settings.flush else 0,
        )
        done = analysis.analyse(point, raw, self._bounds)
        write_raw(self._folder, done, raw)
        save(done.result, self._file(RESULT))
        self._tidy(checkpoint)
        return done.result

    def _tidy(self, checkpoint: Path) -> None:
        """Remove what has been taken in: it is larger than all results together."""
        shutil.rmtree(checkpoint, ignore_errors=True)
        for name in ("outputs.bin", "truth.jsonl"):
            self._file(name).unlink(missing_ok=True)
        topics.remove(self._bench.broker.bootstrap, self._prefix)

    def _while_sending(self, sender: "subprocess.Popen[bytes]") -> None:
        begun = time.monotonic()
        while sender.poll() is None:
            self._programs.check()
            gone, whole = time.monotonic() - begun, self._point.seconds
            self._say(
                f"{min(gone, whole):.0f} of {whole:.0f} s" if gone < whole + 5 else "working out the truth"
            )
            time.sleep(STEP_S)
        if sender.returncode:
            raise PersonError(
                f"the producer ended with {sender.returncode}: {self._programs.words('producer')}"
            )

    def _drain(self, catching_up: "subprocess.Popen[bytes] | None", sampler: Sampler) -> None:
        """Wait until all is read, where Spark says so, or until nothing has come out for a while; or for the end."""
        give_up = quiet_since = time.monotonic()
        came, due = -1, self._due()
        while time.monotonic() < give_up + DRAIN_S:
            if catching_up is not None:
                self._say("catching up")
                if catching_up.poll() == 0:
                    time.sleep(COLLECTED_S)
                    return
                if catching_up.poll() is None:
                    time.sleep(STEP_S)
                    continue
            self._programs.check()
            self._say("draining")
            now = time.monotonic()
            if sampler.came != came:
                came, quiet_since = sampler.came, now
            quiet = now - quiet_since
            if due and came >= due:
                time.sleep(COLLECTED_S)
                return
            bound = CATCH_UP_QUIET_S if self._settings.count else QUIET_S[self._settings.trigger]
            if quiet > QUIET_S["real-time"] and (self._all_read(sampler) or quiet > bound):
                return
            time.sleep(STEP_S)

    def _due(self) -> int:
        """Return how many outputs are to come; 0 where that cannot be told beforehand, or while they are being sent."""
        settings = self._settings
        if (
            not settings.count
            or settings.ends_itself
            or not settings.truth
            or len(settings.rules) < len(settings.jobs)
        ):
            return 0
        return len(left.truth(self._file(commands.TRUTH)).get("alert", ()))

    def _all_read(self, sampler: Sampler) -> bool:
        return all(rows and not lag.unread(rows[-1], sampler.ends) for rows in self._main_batches())

    def _main_batches(self) -> list[list[left.Row]]:
        """Return what Spark has said so far of the batches of each job's main query."""
        progress = left.progress(self._file(commands.PROGRESS))
        return [progress.get(name, []) for name in self._settings.jobs]

    def _file(self, name: str) -> Path:
        return self._folder / name

    def _say(self, what: str) -> None:
        self._bench.tell(f"{self._point.label}, repeat {self._point.repeat + 1}: {what}")
