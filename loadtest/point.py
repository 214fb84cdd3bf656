"""Run one point: fresh topics and checkpoints, the programs, the load, and the result.

Each program is a process of its own: collector, jobs, producer. The jobs run before the first
record is sent, so that no backlog of their start is measured. In a catch-up all records are in the
topics before the jobs start.
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
from events.catalog import JobName
from events.cli import UserFacingError
from events.times import now_ms, to_text
from events.topics import DEAD_LETTERS, Topic
from loadtest import commands, container, engines, topics
from loadtest.machine_speed import additions_per_us
from loadtest.measure import analysis, artifacts, lag, latency_attribution
from loadtest.measure.collect import Output, read_outputs
from loadtest.measure.correctness import compare_outputs
from loadtest.measure.gates import Gate
from loadtest.measure.inputs import read_inputs
from loadtest.measure.result import RESULT, PointResult, save
from loadtest.measure.sampler import Sampler
from loadtest.measure.series_files import write_series
from loadtest.measure.window_deadlines import WindowDeadlines, windows_of
from loadtest.plan import Gates, Point, PointSettings
from loadtest.processes import PYTHON_M, environment, kill
from loadtest.programs import ProgramFailedError, Programs
from spark_jobs.registry import JOBS

SETTLE_S = 3.0
"""After its queries have started, Spark starts their tasks."""
IDLE_S = {"real-time": 5.0, "micro-batch": 30.0}
"""Without output for this long nothing more is expected, unless Spark reports unread records."""
LONG_IDLE_S = 60.0
"""The same in a catch-up, and while expected outputs are missing: the first takes longer."""
COLLECT_S = 1.0
"""Time for the collector to receive the last outputs."""
DRAIN_S = 600.0
"""The longest wait for outputs after a load at a rate."""
STALL_S = 600.0
"""The longest time in which a catch-up that ends by itself may show no progress."""
POLL_S = 0.2

ShowStatus = Callable[[str], None]


@dataclass(slots=True)
class RunContext:
    """What every point of a run shares: the broker, the run's folder, and the status line."""

    broker: RunningBroker
    folder: Path
    show_status: ShowStatus
    rehearsed: bool = False
    """Whether a producer benchmark has warmed the broker up."""


def longest_idle_s(settings: PointSettings, outputs_missing: bool) -> float:
    """Return after how many seconds without output jobs that have unread records are given up.

    It is for plans without `idle_s`.
    """
    return LONG_IDLE_S if settings.count or outputs_missing else IDLE_S[settings.trigger]


class PointRun:
    """The execution of one point, in a folder of its own."""

    def __init__(self, context: RunContext, point: Point, limits: Gates) -> None:
        self._context, self._point, self._limits = context, point, limits
        self._settings, self._began = point.settings, to_text(now_ms())
        self._machine_speed: float | None = None
        self._folder = context.folder / "points" / point.folder
        self._prefix = f"load-{point.folder}-{now_ms()}-"
        self._container = self._prefix.removesuffix("-")
        self._env = environment(context.broker.bootstrap, self._prefix)
        self._programs = Programs(self._folder, self._env)
        names = self._settings.jobs
        sources = (topic for name in names for topic in self._settings.topics_read(name))
        self._sources: list[Topic] = list(dict.fromkeys(sources))
        sinks = (JOBS[name].sink for name in names)
        self._sinks = list(dict.fromkeys([*(sink for sink in sinks if sink), DEAD_LETTERS]))
        self._progress, self._progress_at = (0, 0), 0.0

    def run(self) -> PointResult:
        """Run the point and return its result; its files stay in its folder."""
        self._machine_speed = additions_per_us()
        servers = self._context.broker.bootstrap
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        topics.create(servers, self._prefix, self._sources, self._settings.partitions)
        commands.write_scenario(self._point, self._folder)
        self._programs.run_to_end("world", *commands.world(self._folder))
        catch_up = bool(self._settings.count)
        if catch_up:
            self._show("sending all records")
            self._programs.run_to_end("producer", *commands.producer(self._point, self._folder))
        with ExitStack() as stack:
            sampler = self._start_observers(stack)
            killed_ms = (
                self._run_until_killed(sampler) if catch_up and self._settings.kills else None
            )
            started_ms = now_ms()
            jobs = self._start_jobs(stack, sampler)
            if not self._settings.terminates:
                self._show(f"starting {self._settings.engine}")
                self._await_jobs("jobs")
                started_ms = now_ms()
            if not catch_up:
                time.sleep(SETTLE_S)
                with self._programs.running(
                    "producer", *commands.producer(self._point, self._folder)
                ) as producer:
                    sampler.add("producer", producer.pid)
                    self._send_through_kills(stack, sampler, jobs, producer)
            idle = True
            if self._settings.terminates:
                self._await_end(jobs, sampler)
            else:
                idle = self._drain(sampler)
        starts_ms = (killed_ms or started_ms, started_ms if killed_ms else None)
        summary = artifacts.summary(self._programs.log("producer"))
        sampler.write(self._file("samples.csv"))
        self._show("computing the result")
        return self._result(starts_ms, summary, sampler, idle)

    def failed(self, error: ProgramFailedError) -> PointResult:
        """Save and return the invalid result of the point, which a failed program has ended."""
        point, settings = self._point, self._settings
        detail = str(error).replace(f"{self._context.folder}/", "")
        result = PointResult(
            label=point.label,
            variant=point.variant,
            rate=point.rate,
            repeat=point.repeat,
            jobs=settings.jobs,
            trigger=settings.trigger,
            engine=settings.engine,
            began=self._began,
            gates=[Gate("no program failed", False, detail, "a program failed")],
            racks=settings.racks,
            folder=point.folder,
        )
        save(result, self._file(RESULT))
        self._clean_up()
        return result

    def _start_observers(self, stack: ExitStack) -> Sampler:
        """Start the collector and the sampler."""
        servers = self._context.broker.bootstrap
        sinks = [self._prefix + topic.name for topic in self._sinks]
        output = str(self._file("outputs.bin"))
        collector = stack.enter_context(
            self._programs.running("collector", "loadtest.measure.collect", servers, output, *sinks)
        )
        self._programs.wait_for_output("collector", ["ready"])
        sampler = Sampler(
            {"broker": self._context.broker.pid, "collector": collector.pid},
            servers,
            [self._prefix + topic.name for topic in self._sources],
            sinks,
        )
        return stack.enter_context(sampler)

    def _start_jobs(
        self, stack: ExitStack, sampler: Sampler, log: str = "jobs"
    ) -> "subprocess.Popen[bytes]":
        command, launcher = self._jobs_command()
        in_container = self._settings.service is not None
        if in_container:
            stack.callback(container.remove, self._container)
        jobs = stack.enter_context(self._programs.running(log, *command, launcher=launcher))
        sampler.add("jobs", container.pid(self._container) if in_container else jobs.pid)
        return jobs

    def _jobs_command(self) -> tuple[list[str], tuple[str, ...]]:
        """Return the command of the jobs or the engine, and what launches it."""
        engine, service = self._settings.engine, self._settings.service
        if service:
            started = container.launcher(service, self._container, self._folder, self._env)
            return commands.jobs(self._point, self._folder), started
        if engine == "spark":
            return commands.jobs(self._point, self._folder), PYTHON_M
        bootstrap = self._context.broker.bootstrap
        options = commands.engine_options(
            self._folder, bootstrap, self._prefix, self._settings.options
        )
        (job,) = self._settings.jobs
        return options, engines.command(engine, job)

    def _await_jobs(self, log: str) -> None:
        """Wait until the jobs, `dead_letters` last, or the engine report that they run."""
        settings = self._settings
        reporting: tuple[JobName, ...] = ("dead_letters",) if settings.reports else ()
        started = [f"{name} ({settings.trigger})" for name in (*settings.jobs, *reporting)]
        self._programs.wait_for_output(log, started if settings.engine == "spark" else ["running"])

    def _run_until_killed(self, sampler: Sampler) -> int:
        """Run the jobs of a catch-up until they have read their share; return their start time."""
        (share,) = self._settings.kills
        started_ms, records = now_ms(), share * (self._settings.count or 0)
        with ExitStack() as stack:
            jobs = self._start_jobs(stack, sampler, "killed-jobs")
            self._progress_at = time.monotonic()
            while self._records_read() < records:
                self._show("catching up until the kill")
                if jobs.poll() is not None:
                    raise UserFacingError(
                        "the jobs ended before they could be killed "
                        f"({self._programs.last_output('killed-jobs')}): "
                        "raise count, or lower kill_at."
                    )
                self._check_progress(sampler, "killed-jobs")
                time.sleep(POLL_S)
            kill(jobs.pid)
        return started_ms

    def _send_through_kills(
        self,
        stack: ExitStack,
        sampler: Sampler,
        jobs: "subprocess.Popen[bytes]",
        producer: "subprocess.Popen[bytes]",
    ) -> None:
        """Wait for the producer's end; kill and restart the jobs at each share of the records."""
        began, log = time.monotonic(), "jobs"
        for number, share in enumerate(self._settings.kills, start=1):
            while self._records_read() < share * self._point.records:
                if producer.poll() is not None:
                    raise UserFacingError(
                        f"all records were sent before kill {number} of "
                        f"{len(self._settings.kills)}: lower kill_at, or raise duration."
                    )
                self._programs.check()
                self._show_sending(began)
                time.sleep(POLL_S)
            self._programs.kill(log)
            jobs.wait()
            log = f"jobs-{number + 1}"
            jobs = self._start_jobs(stack, sampler, log)
        while producer.poll() is None:
            self._programs.check()
            self._show_sending(began)
            time.sleep(POLL_S)
        self._programs.check()

    def _show_sending(self, began: float) -> None:
        elapsed, total = time.monotonic() - began, self._point.seconds
        self._show(
            f"{min(elapsed, total):.0f} of {total:.0f} s"
            if elapsed < total + 5
            else "computing the truth"
        )

    def _check_progress(self, sampler: Sampler, log: str) -> None:
        """Raise `UserFacingError` when the jobs have shown no batch and no output for `STALL_S`."""
        batches = self._file(commands.PROGRESS)
        progress = (batches.stat().st_size if batches.exists() else 0, sampler.output_count)
        now = time.monotonic()
        if progress != self._progress:
            self._progress, self._progress_at = progress, now
        elif now - self._progress_at > STALL_S:
            raise UserFacingError(
                f"the jobs did not end within {STALL_S:.0f} s of their last batch or output: "
                f"{self._programs.last_output(log)}"
            )

    def _await_end(self, jobs: "subprocess.Popen[bytes]", sampler: Sampler) -> None:
        """Wait until jobs that end by themselves have ended, for as long as they make progress."""
        self._progress_at = time.monotonic()
        while jobs.poll() is None:
            self._show("catching up")
            self._check_progress(sampler, "jobs")
            time.sleep(POLL_S)
        self._programs.check()
        time.sleep(COLLECT_S)

    def _drain(self, sampler: Sampler) -> bool:
        """Wait until all expected output or no more output has come; return whether it has.

        After a load at a rate this takes at most `DRAIN_S`; a catch-up may take any time.
        """
        began = last_output = time.monotonic()
        count, expected = -1, self._expected_outputs()
        while self._settings.count or time.monotonic() < began + DRAIN_S:
            self._programs.check()
            self._show("draining")
            now = time.monotonic()
            if sampler.output_count != count:
                count, last_output = sampler.output_count, now
            if self._settings.count and expected and count >= expected:
                time.sleep(COLLECT_S)
                return True
            if self._is_idle(now - last_output, count < expected, sampler):
                return True
            time.sleep(POLL_S)
        return False

    def _is_idle(self, idle_s: float, outputs_missing: bool, sampler: Sampler) -> bool:
        """Return whether no more output is expected after this time without any."""
        if self._settings.idle_s:
            return idle_s > self._settings.idle_s
        longest = longest_idle_s(self._settings, outputs_missing)
        return idle_s > IDLE_S["real-time"] and (self._all_read(sampler) or idle_s > longest)

    def _expected_outputs(self) -> int:
        """Return the number of outputs of jobs that do not end; 0 if unknown."""
        settings = self._settings
        if not settings.truth or len(settings.rules) < len(settings.jobs):
            return 0
        truth = artifacts.truth(self._file(commands.TRUTH))
        dead_letters = truth.get("dead-letter", ()) if settings.reports else ()
        return len(truth.get("alert", ())) + len(dead_letters)

    def _all_read(self, sampler: Sampler) -> bool:
        return all(rows and not lag.unread(rows[-1], sampler.ends) for rows in self._main_batches())

    def _records_read(self) -> int:
        """Return how many records Spark reports as read, by the slowest job."""
        return min(lag.reached(rows[-1]) if rows else 0 for rows in self._main_batches())

    def _main_batches(self) -> list[list[artifacts.Row]]:
        """Return Spark's progress so far of each job's main query."""
        progress = artifacts.progress(self._file(commands.PROGRESS))
        return [progress.get(name, []) for name in self._settings.main_queries]

    def _result(
        self,
        starts_ms: tuple[int, int | None],
        summary: dict[str, Any],
        sampler: Sampler,
        idle: bool,
    ) -> PointResult:
        point, servers = self._point, self._context.broker.bootstrap
        collected: list[Output] = list(read_outputs(self._file("outputs.bin")))
        rows = analysis.decode(collected)
        names, deadlines = [topic.name for topic in self._sinks], WindowDeadlines(self._settings)
        triggers = None
        if not self._settings.count:
            wanted = {
                key
                for o, row in zip(collected, rows, strict=True)
                for key in analysis.latency_keys(deadlines, names[o.topic], row)
            }
            windows = latency_attribution.WindowCounter(*windows_of(self._settings))
            triggers = latency_attribution.TriggerRecords(wanted, windows)
        inputs = read_inputs(servers, self._prefix, self._sources, triggers)
        by_topic: dict[str, list[Any]] = {name: [] for name in names}
        for output, row in zip(collected, rows, strict=True):
            by_topic[names[output.topic]].append(row)
        checkpoint = self._file(commands.CHECKPOINT)
        raw = analysis.RawData(
            began=self._began,
            machine_speed=self._machine_speed,
            started_ms=starts_ms[0],
            restarted_ms=starts_ms[1],
            summary=summary,
            sinks=self._sinks,
            outputs=collected,
            rows=rows,
            inputs=inputs,
            trigger_times=triggers.times if triggers else {},
            comparisons=compare_outputs(
                self._settings, artifacts.truth(self._file(commands.TRUTH)), by_topic
            )
            if self._settings.truth
            else {},
            batches=artifacts.progress(self._file(commands.PROGRESS)),
            topic_sizes=sampler.topic_sizes,
            samples=sampler.rows,
            checkpoint_bytes=sum(
                file.stat().st_size for file in checkpoint.rglob("*") if file.is_file()
            ),
            flushes=len(self._sources) if self._settings.flush else 0,
            idle=idle,
        )
        done = analysis.analyse(point, raw, self._limits)
        write_series(self._folder, done, raw)
        save(done.result, self._file(RESULT))
        self._clean_up()
        return done.result

    def _clean_up(self) -> None:
        """Remove what the result has absorbed: it is larger than all results together."""
        shutil.rmtree(self._file(commands.CHECKPOINT), ignore_errors=True)
        for name in ("outputs.bin", commands.TRUTH):
            self._file(name).unlink(missing_ok=True)
        topics.remove(self._context.broker.bootstrap, self._prefix)

    def _file(self, name: str) -> Path:
        return self._folder / name

    def _show(self, status: str) -> None:
        self._context.show_status(f"{self._point.label}, repeat {self._point.repeat + 1}: {status}")
