"""Which racks are overheating? The contract's rule in Quix Streams. Topics: `rack-readings` to `alerts`.

Written as its users would write it: a streaming dataframe, one stateful function, state in RocksDB with a changelog
topic, and as many processes of one consumer group as there are `--workers`. It runs in an environment of its own
(`requirements.lock` beside this file) and takes nothing of the project, so that both can be measured against each
other.

What it gets wrong: a record that cannot be read is skipped and counted on standard error at the end, where the
project writes a dead letter. A kill repeats alerts (their ids are the same). It never forgets a rack.
"""

import argparse
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from msgspec import Meta, Struct
from quixstreams import Application, State
from quixstreams.models import Deserializer
from quixstreams.models.serializers.exceptions import IgnoreMessage

RULE = "rack-overheating"
IN_A_ROW = 3
DEFAULT_THRESHOLD_C = 100.0
SAYS = {
    "WARNING": f"overheating: its last {IN_A_ROW} readings are",
    "NORMAL": f"back to normal: its last {IN_A_ROW} readings are no longer",
}
END_S = 8.0
"""How long workers may take to end: time for their last commit."""
CONSUMER = {
    "fetch.queue.backoff.ms": 5,  # a full queue otherwise pauses fetching for 100 ms, and the queue runs dry
    "queued.min.messages": 200_000,  # some seconds of work ahead, so that catching up never waits for the broker
    "fetch.wait.max.ms": 100,  # asked again soon; one byte is enough for an answer, so this costs no latency
    "heartbeat.interval.ms": 500,  # how soon a worker learns that another came or went; by default after 3 s
}
PRODUCER = {
    "linger.ms": 0,  # alerts are few and urgent
    "partitioner": "murmur2_random",  # as Java's, so that a subject's alerts lie where the contract has them
}
COMMIT_INTERVAL_S = 5.0
"""The engine's own default: state is flushed and offsets are committed together, so a kill repeats 5 s at most."""

Id = Annotated[str, Meta(max_length=256)]
Instant = Annotated[
    str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z\Z")
]
Measured = tuple[int, str, str, float]
"""A reading as the state keeps it: sequence, event_id, event_time, temperature_c."""


class Reading(Struct, gc=False):
    """A record of `rack-readings`; what does not fit cannot be read."""

    event_id: Id
    event_time: Instant
    rack_id: Id
    sequence: int
    site_id: Id
    device_type: Id
    temperature_c: float
    signal_strength: float


class InventoryRack(Struct):
    """What the rule needs of a line of the inventory."""

    rack_id: str
    threshold_c: float


class Evidence(Struct):
    """A reading that decided an alert."""

    event_id: str
    sequence: int
    event_time: str
    temperature_c: float


class Alert(Struct):
    """A record of `alerts`."""

    alert_id: str
    rule: str
    subject: str
    site_id: str
    state: str
    severity: str
    event_time: str
    detected_time: str
    summary: str
    evidence: list[Evidence]


class Settings(NamedTuple):
    """What the command line says."""

    bootstrap: str
    prefix: str
    inventory: Path
    state: Path

    @property
    def group(self) -> str:
        """The consumer group, one for each prefix."""
        return f"{self.prefix}quix-overheating"


def take(last: list[Measured], reading: Measured, threshold_c: float) -> tuple[list[Measured], bool | None]:
    """Return a rack's last three distinct readings after one more, and the state if that changed it.

    In: the last three by sequence before it. The state is whether the rack is in `WARNING`: there are three, all at or
    above the threshold. None: it is as before.
    """
    if len(last) == IN_A_ROW and reading[:2] <= (last[0][0], last[0][1]):
        return last, None  # older than all that can matter, or a copy of the oldest
    if any(reading[1] == other[1] for other in last):
        return last, None
    after = sorted([*last, reading], key=itemgetter(0, 1))[-IN_A_ROW:]
    warning = is_warning(after, threshold_c)
    return after, warning if warning != is_warning(last, threshold_c) else None


def is_warning(last: list[Measured], threshold_c: float) -> bool:
    """Tell whether a rack with these last readings is in `WARNING`."""
    return len(last) == IN_A_ROW and all(temperature_c >= threshold_c for *_, temperature_c in last)


def alert_of(reading: Reading, last: list[Measured], threshold_c: float, *, warning: bool) -> Alert:
    """Return the alert of a change of state, decided by the reading just taken."""
    state, severity = ("WARNING", "error") if warning else ("NORMAL", "info")
    rack_id, latest_c = reading.rack_id, last[-1][3]
    identity = f"{RULE}|{rack_id}|{state}|{severity}|{reading.event_id}"
    return Alert(
        alert_id=sha256(identity.encode()).hexdigest()[:32],
        rule=RULE,
        subject=rack_id,
        site_id=reading.site_id,
        state=state,
        severity=severity,
        event_time=to_milliseconds(reading.event_time),
        detected_time=to_milliseconds(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"),
        summary=f"Rack {rack_id} is {SAYS[state]} all at or above {threshold_c:.1f} °C, the latest {latest_c:.1f} °C.",
        evidence=[
            Evidence(event_id, sequence, to_milliseconds(event_time), temperature_c)
            for sequence, event_id, event_time, temperature_c in last
        ],
    )


def to_milliseconds(instant: str) -> str:
    """Return a time of the contract with exactly three digits of the second."""
    return f"{instant[:19]}.{instant[20:-1]:0<3.3}Z"


class ReadingDeserializer(Deserializer):
    """Reads a record's value; skips and counts what cannot be read, which must not stop the others."""

    def __init__(self) -> None:
        super().__init__()
        self.unreadable = 0
        self._decode = msgspec.json.Decoder(Reading).decode

    def __call__(self, value: bytes, ctx: Any) -> Reading:  # noqa: ARG002 - the engine's interface
        """Return the reading."""
        try:
            return self._decode(value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unreadable += 1
            raise IgnoreMessage from None


def decider(thresholds: dict[str, float]) -> Callable[[Reading, State], list[bytes]]:
    """Return the stateful function of the dataframe: from a reading and its rack's state to at most one alert."""
    encode = msgspec.json.Encoder().encode

    def decide(reading: Reading, state: State) -> list[bytes]:
        last = state.get("last") or []
        threshold_c = thresholds.get(reading.rack_id, DEFAULT_THRESHOLD_C)
        measured = (reading.sequence, reading.event_id, reading.event_time, reading.temperature_c)
        after, warning = take(last, measured, threshold_c)
        if after is not last:
            state.set("last", after)
        return [] if warning is None else [encode(alert_of(reading, after, threshold_c, warning=warning))]

    return decide


def read_thresholds(inventory: Path) -> dict[str, float]:
    """Return °C by rack."""
    racks = msgspec.json.Decoder(InventoryRack).decode_lines(inventory.read_bytes())
    return {rack.rack_id: rack.threshold_c for rack in racks}


def work(settings: Settings, worker: int) -> None:
    """Run one process of the group until SIGTERM."""
    app = Application(
        broker_address=settings.bootstrap,
        consumer_group=settings.group,
        auto_offset_reset="earliest",
        commit_interval=COMMIT_INTERVAL_S,
        # A static member: started anew after a kill, it has its partitions back at once, and their state is here.
        consumer_extra_config={**CONSUMER, "group.instance.id": str(worker)},
        producer_extra_config=PRODUCER,
        state_dir=settings.state / str(worker),  # a RocksDB has one process
        loglevel="WARNING",
    )
    deserializer = ReadingDeserializer()
    readings = app.topic(
        f"{settings.prefix}rack-readings", key_deserializer="bytes", value_deserializer=deserializer
    )
    alerts = app.topic(f"{settings.prefix}alerts", key_serializer="bytes", value_serializer="bytes")
    # State is kept by the record's key, which is the rack: nothing has to be partitioned anew.
    changes = app.dataframe(readings).apply(
        decider(read_thresholds(settings.inventory)), stateful=True, expand=True
    )
    changes.to_topic(alerts)
    app.run()
    sys.stderr.write(f"worker {worker}: {deserializer.unreadable} records could not be read\n")


def members(settings: Settings) -> set[str]:
    """Return the ids of the group's members that have partitions; none while they are being shared out."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap})
    group = admin.describe_consumer_groups([settings.group])[settings.group].result()
    if group.state != ConsumerGroupState.STABLE:
        return set()
    return {member.member_id for member in group.members if member.assignment.topic_partitions}


def until_consuming(settings: Settings, workers: list[BaseProcess], before: set[str]) -> None:
    """Wait until all workers have partitions; return early when one has ended.

    In: the members before they were started, which the group remembers for a while after a kill.
    """
    while all(worker.is_alive() for worker in workers):
        if len(members(settings) - before) == len(workers):
            return
        time.sleep(0.1)


def main() -> int:
    """Start the workers, say `running`, and end them all at SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True, help="The broker, as host:port[,host:port].")
    parser.add_argument("--prefix", default="", help="Put literally before every topic's name.")
    parser.add_argument("--inventory", type=Path, required=True, help="JSON lines: the racks' thresholds.")
    parser.add_argument("--state", type=Path, required=True, help="A folder for the state.")
    parser.add_argument(
        "--workers", type=int, default=2, help="Processes, each with its share of partitions."
    )
    options = vars(parser.parse_args())
    count = options.pop("workers")
    settings = Settings(**options)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    # Spawned, not forked: librdkafka's threads do not live through a fork.
    context = multiprocessing.get_context("spawn")
    workers: list[BaseProcess] = [
        context.Process(target=work, args=(settings, i), daemon=True) for i in range(count)
    ]
    try:
        before = members(settings)
        for worker in workers:
            worker.start()
        until_consuming(settings, workers, before)
        print("running", flush=True)  # noqa: T201
        wait([worker.sentinel for worker in workers])
        failed = True  # workers end only when told to
    except KeyboardInterrupt:
        failed = False
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end(workers)
    return int(failed)


def end(workers: list[BaseProcess]) -> None:
    """End the workers that were started; kill those which do not end in time."""
    started = [worker for worker in workers if worker.pid is not None]
    for worker in started:
        worker.terminate()
    deadline = time.monotonic() + END_S
    for worker in started:
        worker.join(max(0.0, deadline - time.monotonic()))
        worker.kill()


if __name__ == "__main__":
    sys.exit(main())
