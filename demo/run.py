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
from producer.scenario import Scenario
from producer.world import make_world

DEFAULT_PORT = 9092
JOBS = ("rack_temperature", "overheating")
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that does not optimise what is soon ended: 31 s of processor time to the first alert, not 50."""
LATEST_S = 60.0
"""How long after the last reading something may still come, as Spark may have only just started."""
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
    """What to play, for how long (None: until Ctrl-C), and on which port (None: 9092 or a free one)."""

    scenario_path: Path
    scenario: Scenario
    duration_s: float | None
    port: int | None


class Demo:
    """One demo in its folder, which holds nothing else."""

    def __init__(self, options: Options, settings: Settings, folder: Path, signals: Signals) -> None:
        self._options = options
        self._folder = folder
        self._signals = signals
        self._first_alert_s: float | None = None
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
        os.environ.setdefault("KAFKA_HEAP_OPTS", f"-Xmx512m {QUICK_JAVA}")
        broker = server.start(port, self._folder / "kafka")
        topics.create_topics(broker.bootstrap, self._settings.topic_prefix)
        truth, seen = self._play(broker)
        verdict = judge(truth, seen)
        report.show(self._console, truth, seen, verdict, self._first_alert_s)
        return verdict.holds and not verdict.shortfalls

    def _play(self, broker: RunningBroker) -> tuple[Truth, Seen]:
        """Start the three programs, follow them until all that is due has come, and return both sides."""
        truth_path, inventory = self._folder / "truth.jsonl", self._folder / "inventory.jsonl"
        alert_log, database = self._folder / "alerts.jsonl", self._folder / "alerting.sqlite3"
        duration = [] if self._options.duration_s is None else [f"--duration={self._options.duration_s}"]
        scenario, checkpoints = self._options.scenario_path, self._folder / "checkpoints"
        temporary, java_options = str(self._folder / "tmp"), os.environ.get("JAVA_TOOL_OPTIONS", "")
        Path(temporary).mkdir()
        producer = self._start(
            "the producer",
            ["producer", "run", f"--scenario={scenario}", f"--truth={truth_path}", *duration],
        )
        spark = self._start(
            "the Spark jobs",
            [
                *("spark_jobs", "run", *JOBS, "--trigger=real-time"),
                *(f"--inventory={inventory}", f"--checkpoint-root={checkpoints}"),
            ],
            # Killed, it leaves its temporary files behind: here, where the next demo removes them.
            TMPDIR=temporary,
            SPARK_LOCAL_DIRS=temporary,
            JAVA_TOOL_OPTIONS=f'{QUICK_JAVA} "-Djava.io.tmpdir={temporary}" {java_options}',
        )
        alerting = self._start(
            "alerting",
            ["alerting", "run", f"--database={database}", f"--log-file={alert_log}"],
            shows=True,
        )
        watched = [_broker_as_child(broker), spark, alerting]
        with closing(Outputs(self._settings, alert_log, database)) as outputs:
            while producer.process.poll() is None and not self._signals.asked_to_finish:
                self._step(watched, outputs)
            self._signals.producing = False
            if self._signals.asked_to_finish:
                producer.process.terminate()
            while (
                producer.process.poll() is None
            ):  # working out the truth takes the longer, the more was sent
                self._step(watched, outputs)
            if producer.process.returncode:
                producer.check()
            truth = read_truth(truth_path)
            typer.echo(
                f"{truth.summary['seconds']:.0f} s of readings were sent; waiting for what is still due ..."
            )
            deadline = time.monotonic() + LATEST_S
            while not judge(truth, outputs.seen()).holds and time.monotonic() < deadline:
                self._step(watched, outputs)
            spark.end()
            watched.remove(spark)
            while outputs.are_behind() and time.monotonic() < deadline:
                self._step(watched, outputs)
            alerting.end()
            return truth, outputs.seen()

    def _start(self, name: str, command: list[str], *, shows: bool = False, **more: str) -> Child:
        env = os.environ | more
        env["KAFKA_BOOTSTRAP_SERVERS"] = self._settings.kafka_bootstrap_servers
        env["TOPIC_PREFIX"] = self._settings.topic_prefix
        log = self._folder / "logs" / f"{command[0]}.log"
        return processes.start(name, log, env, command, shows=shows)

    def _step(self, watched: list[Child], outputs: Outputs) -> None:
        self._signals.check()
        for child in watched:
            child.check()
        outputs.follow(STEP_S)
        if self._first_alert_s is None and outputs.has_alerts():
            self._first_alert_s = time.time() - psutil.Process().create_time()
            self._signals.producing = True


def choose_port(wanted: int | None, usual: int = DEFAULT_PORT) -> int:
    """Return the wanted port; without a wish the usual one or, saying so, a free one if that is taken."""
    if wanted is not None:
        return wanted
    if not _is_taken(usual):
        return usual
    port = server.free_port()
    typer.echo(f"Port {usual} is taken, so the demo's broker uses {port} (PORT= chooses another).")
    return port


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
