"""Run one demo from start to verdict: the broker first, then the producers and the jobs."""

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import psutil
import typer
from rich.console import Console

import dashboard
from broker import server, topics
from broker.server import RunningBroker
from demo import processes, report
from demo.archived import ArchiveCheck
from demo.comparison import Comparison
from demo.dashboard_figures import compare_dashboard
from demo.ledger_truth import read_ledger_truth
from demo.outputs import Outputs
from demo.processes import Child
from demo.verdict import Actual, Truth, compare_outputs
from events.catalog import RULE_JOBS, JobName
from events.cli import UserFacingError, handle_end
from events.constants import LOST_SIGNAL_WATERMARK
from events.driver_starts import read_starts
from events.inventory import read_inventory, write_inventory
from events.rules import Overheating, Rules, read_rules
from events.settings import Settings
from events.times import duration_ms
from jars.java import QUICK_JAVA
from producer.scenario import Scenario
from spark_jobs.runtime.small_data import INTERPRETED_OPTIONS

DEFAULT_PORT = 9092
REAL_TIME_JOBS: tuple[JobName, ...] = ("overheating", "weak_signal", "rack_temperature")
"""The jobs whose default trigger is real-time; that of the first alert comes first.

The registry knows them too, but it imports Spark, which would delay the demo's start.
"""
MICRO_BATCH_RULE_JOBS = tuple(job for job in RULE_JOBS.values() if job not in REAL_TIME_JOBS)
CLICKSTREAM_JOBS: tuple[JobName, ...] = (
    "ad_attribution",
    "action_counts",
    "user_sessions",
    "user_totals",
    "deduplicate",
)
STATISTICS_JOB: JobName = "signal_statistics"
REAL_TIME_OPTIONS = ("--conf=spark.shuffle.streaming.networkBufferMaxWaitTimeMs=10",)
"""Alerts come some milliseconds later; the other programs get a tenth of a processor more."""
RULES_BATCH_S, OTHERS_BATCH_S = 2, 20
"""The least time between two micro-batches of a rule, and of another job.

A batch costs up to half a second of a processor, and two processors run eleven queries.
"""
MICRO_BATCH_OPTIONS = (
    "--trigger=micro-batch",
    f"--rules-batch-seconds={RULES_BATCH_S}",
    f"--batch-seconds={OTHERS_BATCH_S}",
    *INTERPRETED_OPTIONS,
    "--state-partitions=1",
    "--read-tasks=1",
)
STATISTICS_OPTION = f"--statistics-seconds={OTHERS_BATCH_S}"
"""The default is too long to wait for at the end of the demo."""
ENDLESS_DEMO_CLICKSTREAM_S = 60.0
"""How long clicks come in a demo without `--duration`: the clickstream's producer needs an end."""
CLICKSTREAM_TIME_SCALE = 240
"""Event seconds per second, as an impression without a click waits four hours for its row."""
IDLE_TIMEOUT_S = 60.0
"""How long the demo waits without a new output: on a busy machine Spark starts slowly."""
START_TIMEOUT_S = 3 * IDLE_TIMEOUT_S
"""How long a Spark program may take to start all its queries, with `--start-jobs-first`."""
POLL_S = 0.2


class Interrupted(BaseException):
    """A signal asks the demo to end now."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(slots=True)
class Signals:
    """What signals do: while `producing`, the first Ctrl-C ends the producers; others the demo."""

    producing: bool = False
    asked_to_finish: bool = False
    ignoring: bool = False
    received: int | None = None

    def listen(self) -> None:
        """Take over the signals that end a program."""
        handle_end(self.handle)

    def check(self) -> None:
        """Raise again what the handler raised, in case it was swallowed (as in a finalizer)."""
        if self.received is not None:
            raise Interrupted(self.received)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.ignoring:
            return
        if number == signal.SIGINT and self.producing and not self.asked_to_finish:
            self.asked_to_finish = True
            return
        # One is enough: what follows is cleaning up, which is bounded in time.
        self.ignoring = True
        self.received = number
        raise Interrupted(number)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line; `python -m demo run --help` explains each."""

    scenario_path: Path
    scenario: Scenario
    rules_path: Path | None
    duration_s: float | None
    port: int | None
    watermark_s: float | None = None
    start_jobs_first: bool = False
    clickstream: bool = True
    dashboard_port: int | None = None
    rules_to_prove: Sequence[str] = ()
    """The rules of which the scenario has alerts of both states, unless it ends too early."""


@dataclass(frozen=True, slots=True)
class SparkProgram:
    """A process that runs some of the jobs."""

    child: Child
    jobs: Sequence[JobName]

    def has_started(self) -> bool:
        """Tell whether the queries of all its jobs run, by its log."""
        log = self.child.log.read_text(encoding="utf-8")
        return all(f"{job} (" in log for job in self.jobs)

    def wait_until_started(self, step: Callable[[], None]) -> None:
        """Call `step` until all queries run; raise `UserFacingError` after `START_TIMEOUT_S`."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.has_started():
            if time.monotonic() > deadline:
                late = f"{self.child.name} did not start within {START_TIMEOUT_S:.0f} s"
                raise UserFacingError(processes.with_log_tail(late, self.child.log))
            step()


class Demo:
    """One demo, with all its files in one folder."""

    def __init__(
        self, options: Options, settings: Settings, folder: Path, signals: Signals
    ) -> None:
        self._options = options
        self._settings = settings
        self._folder = folder
        self._signals = signals
        self._inventory_path = folder / "inventory.jsonl"
        self._ledger, self._archive = folder / "ledger", folder / "archive"
        self._progress = folder / "progress.jsonl"
        self._rules = Rules()
        self._spark: list[SparkProgram] = []
        self._others: list[Child] = []
        self._dashboard = ""
        self._first_alert_s: float | None = None
        self._console = Console(highlight=False, soft_wrap=True)

    def run(self) -> bool:
        """Run the demo; return whether the outputs are right, in a scenario that proves it."""
        options, scenario = self._options, self._options.scenario
        port = choose_port(options.port)
        dashboard_port = choose_port(
            options.dashboard_port, dashboard.DEFAULT_PORT, "dashboard", "--dashboard-port"
        )
        self._dashboard = f"http://localhost:{dashboard_port}/"
        self._settings = self._settings.model_copy(
            update={
                "kafka_bootstrap_servers": f"localhost:{port}",
                "topic_prefix": f"demo-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-",
            }
        )
        # Written here and not by the producer, as the jobs read it when they start.
        inventory = list(scenario.inventory(scenario.make_world()))
        write_inventory(self._inventory_path, inventory)
        if options.rules_path:
            self._rules = read_rules(options.rules_path, inventory)
        typer.echo(
            report.expectation(
                scenario,
                f"localhost:{port}",
                str(self._folder),
                options.duration_s,
                clickstream=options.clickstream,
                rules=options.rules_path if self._rules.of(Overheating) else None,
            )
        )
        typer.echo(f"Dashboard: {self._dashboard}")
        os.environ.setdefault("KAFKA_HEAP_OPTS", f"-Xmx512m {QUICK_JAVA}")
        broker = server.start(port, self._folder / "kafka")
        topics.create_topics(broker.bootstrap, self._settings.topic_prefix)
        command = ("dashboard", "run", f"--port={dashboard_port}")
        inventory_option = f"--inventory={self._inventory_path}"
        self._others.append(self._start("the dashboard", [*command, inventory_option]))
        truth, actual, archived, shown = self._play(broker)
        verdict = compare_outputs(truth, actual, archived=archived, dashboard=shown)
        report.show(self._console, truth, actual, verdict, self._first_alert_s)
        return verdict.proves_all

    def _play(self, broker: RunningBroker) -> tuple[Truth, Actual, Comparison, Comparison]:
        """Run the programs until every expected output exists.

        Returns the outputs, and the rows of the archive and the dashboard.
        """
        alert_log, database = self._folder / "alerts.jsonl", self._folder / "alerting.sqlite3"
        alerting = self._start(
            "alerting",
            ["alerting", "run", f"--database={database}", f"--log-file={alert_log}"],
            shows=True,
        )
        self._others += [_broker_as_child(broker), alerting]
        with closing(Outputs(self._settings, database, alert_log)) as outputs:
            if self._options.start_jobs_first:
                for _ in self._programs():
                    self._start_next_jobs()
                    self._spark[-1].wait_until_started(lambda: self._step(outputs))
            self._produce(outputs)
            truth = self._truth()
            typer.echo(
                f"Sent {truth.summary['seconds']:.0f} s of readings; "
                "waiting for the outputs that are still missing ..."
            )
            waiting_since = time.monotonic()

            def within_idle_timeout() -> bool:
                latest = max(waiting_since, outputs.latest_record_at)
                return time.monotonic() < latest + IDLE_TIMEOUT_S

            while not compare_outputs(truth, outputs.actual()).passed and within_idle_timeout():
                self._start_next_jobs()
                self._step(outputs)
            while self._spark:
                self._spark.pop().child.end()
            while outputs.has_unread_records() and within_idle_timeout():
                self._step(outputs)
            # While alerting still publishes incidents.
            shown = compare_dashboard(
                self._dashboard, outputs.actual(), lambda: self._step(outputs)
            )
            alerting.end()
            starts = read_starts(self._settings.rackstream_home, self._settings.topic_prefix)
            actual = replace(outputs.actual(up_to_date=True), starts=starts)
        self._archive_all()
        archived = ArchiveCheck(self._settings, self._archive, truth).compare()
        return truth, actual, archived, shown

    def _produce(self, outputs: Outputs) -> None:
        """Run the producers to their end; after the first alert, Ctrl-C ends them."""
        producers = self._start_producers()
        while _any_runs(producers) and not self._signals.asked_to_finish:
            self._start_next_jobs()
            self._step(outputs)
            self._signals.producing = self._first_alert_s is not None
        self._signals.producing = False
        if self._signals.asked_to_finish:
            for producer in producers:
                producer.process.terminate()
        while _any_runs(producers):
            self._start_next_jobs()
            self._step(outputs)
        for producer in producers:
            if producer.process.returncode:
                producer.check()

    def _archive_all(self) -> None:
        """Archive all topics, now that nothing is written any longer.

        Beside the other jobs its query per topic would take a processor from them.
        """
        typer.echo("Archiving all topics ...")
        options = ("--trigger=available-now", "--no-dead-letters", f"--archive={self._archive}")
        child = self._start_spark("the archive job", ["archive"], options)
        while child.process.poll() is None:
            self._signals.check()
            time.sleep(POLL_S)
        if child.process.returncode:
            child.check()

    def _truth(self) -> Truth:
        """Return what the jobs had to output of what the ledger says was sent."""
        watermark_s = self._options.watermark_s
        truth = read_ledger_truth(
            self._settings,
            self._ledger,
            read_inventory(self._inventory_path),
            self._rules,
            lost_signal_watermark_ms=duration_ms(LOST_SIGNAL_WATERMARK)
            if watermark_s is None
            else round(1000 * watermark_s),
            rules_to_prove=self._options.rules_to_prove,
            clickstream_required=self._options.clickstream,
        )
        if self._has_statistics():
            return truth
        return replace(truth, signal_statistics=(), statistics_required=False)

    def _start_producers(self) -> list[Child]:
        duration_s = self._options.duration_s
        run = [
            *("producer", "run", f"--scenario={self._options.scenario_path}"),
            f"--ledger={self._ledger}",
        ]
        racks = [] if duration_s is None else [f"--duration={duration_s}"]
        producers = [self._start("the producer", [*run, *racks])]
        if not self._options.clickstream:
            return producers
        clickstream = [*run, *clickstream_options(duration_s)]
        return [*producers, self._start("the producer of clicks", clickstream)]

    def _programs(self) -> list[tuple[str, Sequence[JobName], Sequence[str]]]:
        """Return name, jobs and options of each Spark program; the first gives the first alert.

        It runs each job with its default trigger: real-time, unless the rules file gives the
        overheating rule an option that only micro-batches have.
        """
        world = [f"--inventory={self._inventory_path}"]
        if self._options.rules_path:
            world.append(f"--rules={self._options.rules_path}")
        options = [*MICRO_BATCH_OPTIONS, f"--progress={self._progress}", *world]
        jobs = MICRO_BATCH_RULE_JOBS
        if self._options.clickstream:
            jobs += CLICKSTREAM_JOBS
        if self._has_statistics():
            jobs += (STATISTICS_JOB,)
            options.append(STATISTICS_OPTION)
        if self._options.watermark_s is not None:
            options.append(f"--watermark={self._options.watermark_s:g} seconds")
        return [
            ("the real-time jobs", REAL_TIME_JOBS, [*REAL_TIME_OPTIONS, *world]),
            ("the micro-batch jobs", jobs, options),
        ]

    def _has_statistics(self) -> bool:
        """Tell whether the demo has signal statistics.

        With `--watermark` their job would have that one, but their truth has the contract's.
        """
        return self._options.watermark_s is None

    def _start_next_jobs(self) -> None:
        """Start the next Spark program when the queries of the one before it run.

        Two that start side by side on two processors delay the first alert. Spark also gives up on
        a Python worker that takes 10 s to start.
        """
        for program in self._programs()[len(self._spark) :][:1]:
            if not self._spark or self._spark[-1].has_started():
                name, jobs, options = program
                self._spark.append(SparkProgram(self._start_spark(name, jobs, options), jobs))

    def _start_spark(self, name: str, jobs: Sequence[JobName], options: Sequence[str]) -> Child:
        # Killed, it leaves its temporary files behind: here, where the next demo removes them.
        temporary, java_options = str(self._folder / "tmp"), os.environ.get("JAVA_TOOL_OPTIONS", "")
        Path(temporary).mkdir(exist_ok=True)
        checkpoints = f"--checkpoint-root={self._folder / 'checkpoints'}"
        return self._start(
            name,
            [
                *("spark_jobs", "run", *jobs),
                *(checkpoints, *options),
            ],
            TMPDIR=temporary,
            SPARK_LOCAL_DIRS=temporary,
            JAVA_TOOL_OPTIONS=f'{QUICK_JAVA} "-Djava.io.tmpdir={temporary}" {java_options}',
        )

    def _start(self, name: str, command: list[str], *, shows: bool = False, **more: str) -> Child:
        env = os.environ | more
        env["KAFKA_BOOTSTRAP_SERVERS"] = self._settings.kafka_bootstrap_servers
        env["TOPIC_PREFIX"] = self._settings.topic_prefix
        log = self._folder / "logs" / f"{name.removeprefix('the ').replace(' ', '-')}.log"
        return processes.start(name, log, env, command, shows=shows)

    def _step(self, outputs: Outputs) -> None:
        """Check signals and processes, and read what the topics got."""
        self._signals.check()
        for child in [*self._others, *(program.child for program in self._spark)]:
            child.check()
        outputs.poll(POLL_S)
        if self._first_alert_s is None and outputs.has_alerts():
            self._first_alert_s = time.time() - psutil.Process().create_time()


def clickstream_options(duration_s: float | None) -> list[str]:
    """Return the options of the clickstream's producer; without a duration the demo is endless."""
    return [
        "--streams=clicks,actions",
        f"--time-scale={CLICKSTREAM_TIME_SCALE}",
        "--flush",
        f"--duration={ENDLESS_DEMO_CLICKSTREAM_S if duration_s is None else duration_s}",
    ]


def choose_port(
    wanted: int | None,
    default: int = DEFAULT_PORT,
    program: str = "broker",
    option: str = "PORT=",
) -> int:
    """Return the wanted port; if none is, the default or, with a message, a free one.

    The message names the demo's program, and the option that chooses its port.
    """
    if wanted is not None:
        return wanted
    if not _is_taken(default):
        return default
    port = server.free_port()
    typer.echo(
        f"Port {default} is in use, so the demo's {program} uses {port} ({option} chooses another)."
    )
    return port


def _any_runs(producers: list[Child]) -> bool:
    return any(producer.process.poll() is None for producer in producers)


def _is_taken(port: int) -> bool:
    for address in ("127.0.0.1", "::1"):
        try:
            with socket.create_connection((address, port), timeout=1):
                return True
        except OSError:
            continue
    return False


def _broker_as_child(broker: RunningBroker) -> Child:
    if broker.child is None:
        raise AssertionError("the demo starts its broker itself")
    return Child("the broker", broker.child, broker.data_dir / "broker.log")
