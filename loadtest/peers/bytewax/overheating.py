"""Which racks are overheating? The contract's rule in Bytewax. Topics: `rack-readings` to `alerts`.

Written as its users would write it: Bytewax's own Kafka source and sink, one `stateful_flat_map`, a recovery store, and
a cluster of `--workers` processes with one worker each, which on two processors is faster than two threads that share
one interpreter lock. It runs in an environment of its own (`requirements.lock` beside this file) and takes nothing of
the project, so that the two can be measured against each other.

What it gets wrong: a record that cannot be read is skipped and counted on standard error at the end, where the
project writes a dead letter. A kill repeats alerts (their ids are the same). It never forgets a rack.
"""

import argparse
import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import bytewax.operators as op
import msgspec
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.inputs import StatefulSourcePartition
from bytewax.recovery import init_db_dir
from msgspec import Meta, Struct

RULE = "rack-overheating"
IN_A_ROW = 3
DEFAULT_THRESHOLD_C = 100.0
SAYS = {
    "WARNING": f"overheating: its last {IN_A_ROW} readings are",
    "NORMAL": f"back to normal: its last {IN_A_ROW} readings are no longer",
}
END_S = 8.0
"""How long workers may take to end: time for their last snapshot."""
CONSUMER = {
    "fetch.queue.backoff.ms": "5",  # a full queue otherwise pauses fetching for a second, and runs dry
    "queued.min.messages": "100000",  # of each partition: a second of work ahead, some 30 MB
    "statistics.interval.ms": "0",  # the connector's gauge of lag costs some work a second, and nobody reads it
    "log_level": "3",  # without librdkafka's warning that the admin client has no use for these
}
PRODUCER = {
    "linger.ms": "0",  # alerts are few and urgent
    "partitioner": "murmur2_random",  # as Java's, so that a subject's alerts lie where the contract has them
}
BATCH = 1000
"""Records of a partition taken at once: the connector's default; at low rates it takes what is there."""
SNAPSHOT_S = 5
"""State and offsets are stored so often, so that a kill repeats no more; Quix Streams and Kafka commit as often."""
RECOVERY_PARTITIONS = 4
"""SQLite files of the recovery store: as many as inputs have partitions, since no more workers can be of use."""

Id = Annotated[str, Meta(max_length=256)]
Instant = Annotated[
    str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z\Z")
]
Measured = tuple[int, str, str, float, str]
"""A reading as workers exchange and keep it, plain since that pickles fastest.

That is: sequence, event_id, event_time, temperature_c, site_id.
"""
Last = tuple[Measured, ...]
"""The last three distinct readings of a rack by sequence, or as many as there are."""
Packet = tuple[str, list[Measured]]
"""A rack and its next readings in the topic's order."""
Message = KafkaSourceMessage[bytes | None, bytes | None]
Partition = StatefulSourcePartition[Message, int | None]
Worker = subprocess.Popen[bytes]


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


def take(last: Last, reading: Measured, threshold_c: float) -> tuple[Last, bool | None]:
    """Return a rack's last three distinct readings after one more, and the state if that changed it.

    In: the last three by sequence before it. The state is whether the rack is in `WARNING`: there are three, all at or
    above the threshold. None: it is as before.
    """
    if len(last) == IN_A_ROW and reading[:2] <= last[0][:2]:
        return last, None  # older than all that can matter, or a copy of the oldest
    if any(reading[1] == other[1] for other in last):
        return last, None
    after = tuple(sorted((*last, reading))[-IN_A_ROW:])
    warning = is_warning(after, threshold_c)
    return after, warning if warning != is_warning(last, threshold_c) else None


def is_warning(last: Last, threshold_c: float) -> bool:
    """Tell whether a rack with these last readings is in `WARNING`."""
    return len(last) == IN_A_ROW and all(reading[3] >= threshold_c for reading in last)


def alert_of(rack_id: str, decider: Measured, last: Last, threshold_c: float, *, warning: bool) -> Alert:
    """Return the alert of a change of state, decided by the reading just taken."""
    _, event_id, event_time, _, site_id = decider
    state, severity = ("WARNING", "error") if warning else ("NORMAL", "info")
    identity = f"{RULE}|{rack_id}|{state}|{severity}|{event_id}"
    latest_c = last[-1][3]
    return Alert(
        alert_id=sha256(identity.encode()).hexdigest()[:32],
        rule=RULE,
        subject=rack_id,
        site_id=site_id,
        state=state,
        severity=severity,
        event_time=to_milliseconds(event_time),
        detected_time=to_milliseconds(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"),
        summary=f"Rack {rack_id} is {SAYS[state]} all at or above {threshold_c:.1f} °C, the latest {latest_c:.1f} °C.",
        evidence=[
            Evidence(event_id, sequence, to_milliseconds(event_time), temperature_c)
            for sequence, event_id, event_time, temperature_c, _ in last
        ],
    )


def to_milliseconds(instant: str) -> str:
    """Return a time of the contract with exactly three digits of the second."""
    return f"{instant[:19]}.{instant[20:-1]:0<3.3}Z"


def reader() -> Callable[[list[Message]], list[tuple[str, Packet]]]:
    """Return the step from a batch of records to a packet of each rack's readings in it, by rack.

    Packets, since each item costs a message to its rack's worker. What cannot be read is counted for the end.
    """
    decode = msgspec.json.Decoder(Reading).decode
    unreadable = 0

    def read(records: list[Message]) -> list[tuple[str, Packet]]:
        nonlocal unreadable
        racks: dict[str, list[Measured]] = defaultdict(list)
        for record in records:
            try:
                reading = decode(record.value or b"")
            except (msgspec.DecodeError, UnicodeDecodeError):
                unreadable += 1
                continue
            racks[reading.rack_id].append(
                (
                    reading.sequence,
                    reading.event_id,
                    reading.event_time,
                    reading.temperature_c,
                    reading.site_id,
                )
            )
        return [(rack_id, (rack_id, readings)) for rack_id, readings in racks.items()]

    # Where the dataflow ends is Bytewax's own, so the number is told where the process ends.
    atexit.register(lambda: sys.stderr.write(f"{unreadable} records could not be read\n"))
    return read


def decider(thresholds: dict[str, float]) -> Callable[[Last | None, Packet], tuple[Last, list[bytes]]]:
    """Return the stateful step: from a rack's last readings and its next ones to its last ones and its alerts."""
    encode = msgspec.json.Encoder().encode

    def decide(last: Last | None, packet: Packet) -> tuple[Last, list[bytes]]:
        rack_id, readings = packet
        threshold_c = thresholds.get(rack_id, DEFAULT_THRESHOLD_C)
        last = last or ()
        alerts = []
        for reading in readings:
            last, warning = take(last, reading, threshold_c)
            if warning is not None:
                alerts.append(encode(alert_of(rack_id, reading, last, threshold_c, warning=warning)))
        return last, alerts

    return decide


def read_thresholds(inventory: Path) -> dict[str, float]:
    """Return °C by rack."""
    racks = msgspec.json.Decoder(InventoryRack).decode_lines(inventory.read_bytes())
    return {rack.rack_id: rack.threshold_c for rack in racks}


class EndingPartition(Partition):
    """A partition that ends when the process is told to, so that the dataflow ends in order, with a snapshot."""

    def __init__(self, partition: Partition, ending: threading.Event) -> None:
        self._partition = partition
        self._ending = ending

    def next_batch(self) -> Iterable[Message]:
        """Return the records that are there, up to a batch."""
        if self._ending.is_set():
            raise StopIteration
        return self._partition.next_batch()

    def snapshot(self) -> int | None:
        """Return the offset to resume from."""
        return self._partition.snapshot()

    def close(self) -> None:
        """Leave the broker."""
        self._partition.close()


class EndingSource(KafkaSource):
    """Bytewax's source, which ends at SIGTERM, and tells on standard output each partition that it begins to read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ending = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._ending.set())

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> EndingPartition:
        """Begin to read a partition."""
        partition = super().build_part(step_id, for_part, resume_state)
        print(for_part, flush=True)  # noqa: T201 - the parent waits for it
        return EndingPartition(partition, self._ending)


def source(bootstrap: str, prefix: str) -> EndingSource:
    """Return the source of readings, from the earliest on where the recovery store has no offset."""
    brokers, topics = bootstrap.split(","), [f"{prefix}rack-readings"]
    return EndingSource(brokers, topics, add_config=CONSUMER, batch_size=BATCH)


def dataflow(bootstrap: str, prefix: str, inventory: str) -> Dataflow:
    """Return the dataflow; `python -m bytewax.run` calls it in each worker."""
    flow = Dataflow("overheating")
    records = op.input("readings", flow, source(bootstrap, prefix))
    packets = op.flat_map_batch("read", records, reader())
    alerts = op.stateful_flat_map("decide", packets, decider(read_thresholds(Path(inventory))))
    messages = op.map("message", alerts, lambda alert: KafkaSinkMessage(alert[0].encode(), alert[1]))
    op.output("alerts", messages, KafkaSink(bootstrap.split(","), f"{prefix}alerts", add_config=PRODUCER))
    return flow


def command(bootstrap: str, prefix: str, inventory: Path, state: Path) -> list[str]:
    """Return the command of a worker by itself, as one would type it."""
    arguments = f"{bootstrap!r}, {prefix!r}, {str(inventory)!r}"
    recovery = f"--recovery-directory={state}", f"--snapshot-interval={SNAPSHOT_S}", "--backup-interval=0"
    return [sys.executable, "-m", "bytewax.run", f"{__file__}:dataflow({arguments})", *recovery]


def free_addresses(count: int) -> list[str]:
    """Return addresses on this machine at which nobody listens."""
    with ExitStack() as stack:  # all are held until the last is known, so that they differ
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def started(alone: list[str], count: int, output: int) -> list[Worker]:
    """Start the workers: a cluster of processes, or one process alone."""
    if count == 1:
        return [subprocess.Popen(alone, stdout=output)]
    cluster = ["--addresses", ";".join(free_addresses(count))]
    return [subprocess.Popen([*alone, "--process-id", str(i), *cluster], stdout=output) for i in range(count)]


def until_reading(workers: list[Worker], partitions: int, told: int) -> None:
    """Wait until the workers have told that they read all partitions; return early when one has ended."""
    text = b""
    while text.count(b"\n") < partitions and all(worker.poll() is None for worker in workers):
        if select.select([told], [], [], 0.1)[0]:
            text += os.read(told, 4096)


def end(workers: list[Worker]) -> None:
    """End the workers; kill those which do not end in time."""
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + END_S
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()


def main() -> int:
    """Start the workers, say `running`, and end them all at SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", required=True, help="The broker, as host:port[,host:port].")
    parser.add_argument("--prefix", default="", help="Put literally before every topic's name.")
    parser.add_argument("--inventory", type=Path, required=True, help="JSON lines: the racks' thresholds.")
    parser.add_argument("--state", type=Path, required=True, help="A folder for the recovery store.")
    parser.add_argument("--workers", type=int, default=2, help="Processes that share the racks.")
    options = parser.parse_args()

    if not list(options.state.glob("*.sqlite3")):
        options.state.mkdir(parents=True, exist_ok=True)
        init_db_dir(options.state, RECOVERY_PARTITIONS)
    partitions = len(source(options.bootstrap, options.prefix).list_parts())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    told, output = os.pipe()
    workers: list[Worker] = []
    try:
        alone = command(options.bootstrap, options.prefix, options.inventory, options.state)
        workers = started(alone, options.workers, output)
        until_reading(workers, partitions, told)
        print("running", flush=True)  # noqa: T201
        while all(worker.poll() is None for worker in workers):
            time.sleep(0.1)
        failed = True  # workers end only when told to
    except KeyboardInterrupt:
        failed = False
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end(workers)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
