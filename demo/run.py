"""One demo from start to verdict: the broker first, then everything else at once."""

import os
import signal
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil
import typer
from rich.console import Console

from broker import server, topics
from broker.server import RunningBroker
from demo import processes, report
from demo.observe import Outputs, read_truth
from demo.processes import Child
from demo.verdict import Seen, Truth, judge
from events.inventory import write_inventory
from events.settings import Settings
from jars.java import QUICK_JAVA
from producer.scenario import Scenario
from producer.truth_alerts import OF_READINGS
from producer.world import make_world

DEFAULT_PORT = 9092
JOBS = ("rack_temperature", "overheating")
MORE_JOBS = (
    *("weak_signal", "lost_signal", "silent_sensor", "site_outage"),
    *("ad_attribution", "action_counts", "user_sessions", "user_totals"),
)
CLICKSTREAM_S = 60.0
"""How long clicks come in a demo without an end: their hours pass in seconds, so their end must be known."""
CLICKSTREAM_TIME = 240
"""Event seconds a second: an impression waits four hours before it is known to stay alone."""
JAVA_OPTIONS = f"{QUICK_JAVA} -XX:ReservedCodeCacheSize=160m"
"""31 s of processor time to the first alert, not 50; with a cache that holds the code of all jobs, for which that of a
JVM of this kind is too small."""
FIRST_NAME, MORE_NAME = "the Spark jobs", "the other Spark jobs"
LATEST_S = 60.0
"""How long nothing comes until what is still due is given up: on a busy machine Spark may have only just started."""
STEP_S = 0.2


class Interrupted(BaseException):
    """A signal asks the demo to end now."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(slots=True)
class Signals:
    """What signals do: the first Ctrl-C while alerts come ends the producing, everything else the demo."""

    producing: bool = False
    asked_to_finish: bool = False
    deaf: bool = False
    received: int | None = None

    def listen(self) -> None:
        """Take over SIGINT, SIGTERM and SIGHUP."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.handle)

    def check(self) -> None:
        """Raise what the handler raised, should it have been swallowed (as in a finalizer)."""
        if self.received is not None:
            raise Interrupted(self.received)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        if self.deaf:
            return
        if number == signal.SIGINT and self.producing and not self.asked_to_finish:
            self.asked_to_finish = True
            return
        self.deaf = True  # once is enough: what follows is cleaning up, which is bounded in time
        self.received = number
        raise Interrupted(number)


@dataclass(frozen=True, slots=True)
class Options:
    """What to play, by which rules, for how long (None: until Ctrl-C), and on which port (None: 9092 or a free one)."""

    scenario_path: Path
    scenario: Scenario
    rules_path: Path | None
    duration_s: float | None
    port: int | None


class Demo:
    """One demo in its folder, which holds nothing else."""

    def __init__(self, options: Options, settings: Settings, folder: Path, signals: Signals) -> None:
        self._options = options
        self._folder = folder
        self._signals = signals
        self._first_alert_s: float | None = None
        self._watched: list[Child] = []
        self._settings = settings
        self._console = Console(highlight=False, soft_wrap=True)

    def run(self) -> bool:
        """Play it and return whether everything came out that had to, in a scenario worth the name."""
        options = self._options
        port = choose_port(options.port)
        self._settings = self._settings.model_copy(
            update={
                "kafka_bootstrap_servers": f"localhost:{port}",
                "topic_prefix": f"demo-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-",
            }
        )
        scenario = options.scenario
        typer.echo(report.expectation(scenario, f"localhost:{port}", str(self._folder), options.duration_s))
        # Written here, not by the producer: the jobs read it when they start, which is at the same time.
        racks = make_world(scenario.seed, scenario.racks, scenario.sites)
        rate = scenario.rate if isinstance(scenario.rate, float) else 0.0
        write_inventory(self._folder / "inventory.jsonl", racks.inventory(rate / scenario.racks))
        os.environ.setdefault("KAFKA_HEAP_OPTS", f"-Xmx512m {JAVA_OPTIONS}")
        broker = server.start(port, self._folder / "kafka")
        topics.create_topics(broker.bootstrap, self._settings.topic_prefix)
        truth, seen = self._play(broker)
        verdict = judge(truth, seen)
        report.show(self._console, truth, seen, verdict, self._first_alert_s)
        return verdict.holds and not verdict.shortfalls

    def _play(self, broker: RunningBroker) -> tuple[Truth, Seen]:
        """Start the programs, follow them until all that is due has come, and return both sides."""
        racks_truth, clicks_truth = self._folder / "truth.jsonl", self._folder / "clickstream-truth.jsonl"
        alert_log, database = self._folder / "alerts.jsonl", self._folder / "alerting.sqlite3"
        duration = [] if self._options.duration_s is None else [f"--duration={self._options.duration_s}"]
        producing = ["producer", "run", f"--scenario={self._options.scenario_path}"]
        producers = [
            self._start(
                "the producer",
                [
                    *producing,
                    f"--truth={racks_truth}",
                    f"--alerts-of={','.join(OF_READINGS)}",
                    *self._rules(),
                    *duration,
                ],
            ),
            self._start(
                "the producer of clicks",
                [
                    *producing,
                    *("--streams=clicks,actions", f"--time-scale={CLICKSTREAM_TIME}", "--flush"),
                    *(f"--truth={clicks_truth}", f"--duration={self._options.duration_s or CLICKSTREAM_S}"),
                ],
            ),
        ]
        spark = self._start_spark(FIRST_NAME, JOBS, "--trigger=real-time", self._inventory())
        alerting = self._start(
            "alerting",
            ["alerting", "run", f"--database={database}", f"--log-file={alert_log}"],
            shows=True,
        )
        self._watched += [_broker_as_child(broker), spark, alerting]
        with closing(Outputs(self._settings, alert_log, database)) as outputs:
            while _any_runs(producers) and not self._signals.asked_to_finish:
                self._step(outputs)
            self._signals.producing = False
            if self._signals.asked_to_finish:
                for producer in producers:
                    producer.process.terminate()
            while _any_runs(producers):  # working out the truth takes the longer, the more was sent
                self._step(outputs)
            for producer in producers:
                if producer.process.returncode:
                    producer.check()
            self._start_more()
            truth = read_truth(racks_truth, clicks_truth, self._folder / "inventory.jsonl")
            typer.echo(
                f"{truth.summary['seconds']:.0f} s of readings were sent; waiting for what is still due ..."
            )
            waiting_since = time.monotonic()

            def may_come() -> bool:
                return time.monotonic() < max(waiting_since, outputs.latest) + LATEST_S

            while not judge(truth, outputs.seen()).holds and may_come():
                self._step(outputs)
            for job in [child for child in self._watched if child.name in (FIRST_NAME, MORE_NAME)]:
                self._watched.remove(job)
                job.end()
            while outputs.are_behind() and may_come():
                self._step(outputs)
            alerting.end()
            return truth, outputs.seen()

    def _start_more(self) -> None:
        """Start the other jobs, unless they run: after the first alert, which they would delay."""
        if all(child.name != MORE_NAME for child in self._watched):
            batches = (
                "--trigger=micro-batch",
                "--batch-seconds=2",
                "--state-partitions=1",
                self._inventory(),
            )
            self._watched.append(
                self._start_spark(MORE_NAME, MORE_JOBS, *batches, self._inventory(), *self._rules())
            )

    def _start_spark(self, name: str, jobs: tuple[str, ...], *options: str) -> Child:
        # Killed, it leaves its temporary files behind: here, where the next demo removes them.
        temporary, java_options = str(self._folder / "tmp"), os.environ.get("JAVA_TOOL_OPTIONS", "")
        Path(temporary).mkdir(exist_ok=True)
        return self._start(
            name,
            ["spark_jobs", "run", *jobs, f"--checkpoint-root={self._folder / 'checkpoints'}", *options],
            TMPDIR=temporary,
            SPARK_LOCAL_DIRS=temporary,
            JAVA_TOOL_OPTIONS=f'{JAVA_OPTIONS} "-Djava.io.tmpdir={temporary}" {java_options}',
        )

    def _rules(self) -> list[str]:
        return [f"--rules={self._options.rules_path}"] if self._options.rules_path else []

    def _inventory(self) -> str:
        return f"--inventory={self._folder / 'inventory.jsonl'}"

    def _start(self, name: str, command: list[str], *, shows: bool = False, **more: str) -> Child:
        env = os.environ | more
        env["KAFKA_BOOTSTRAP_SERVERS"] = self._settings.kafka_bootstrap_servers
        env["TOPIC_PREFIX"] = self._settings.topic_prefix
        log = self._folder / "logs" / f"{name.removeprefix('the ').replace(' ', '-')}.log"
        return processes.start(name, log, env, command, shows=shows)

    def _step(self, outputs: Outputs) -> None:
        self._signals.check()
        for child in self._watched:
            child.check()
        outputs.follow(STEP_S)
        if self._first_alert_s is None and outputs.has_alerts():
            self._first_alert_s = time.time() - psutil.Process().create_time()
            self._signals.producing = True
            self._start_more()


def choose_port(wanted: int | None, usual: int = DEFAULT_PORT) -> int:
    """Return the wanted port; without a wish the usual one or, saying so, a free one if that is taken."""
    if wanted is not None:
        return wanted
    if not _is_taken(usual):
        return usual
    port = server.free_port()
    typer.echo(f"Port {usual} is taken, so the demo's broker uses {port} (PORT= chooses another).")
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
