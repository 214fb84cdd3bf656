"""Run the overheating rule in Bytewax, from `rack-readings` to `alerts`.

Written as a Bytewax user would write it: its own Kafka source and sink, one `stateful_flat_map`, a
recovery store, and a cluster of `--workers` processes. On two processors, processes are faster than
threads that share one interpreter lock. It runs in an environment of its own
(`requirements-bytewax.lock` beside this file) and imports nothing of the project but `rule.py`.

Limits: it skips malformed records and prints their number to stderr at the end, where the project
writes dead letters. A kill repeats alerts with the same ids. It never forgets a rack.
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
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bytewax.operators as op
import msgspec
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.inputs import StatefulSourcePartition
from bytewax.recovery import init_db_dir
from rule import DEFAULT_THRESHOLD_C, Reading, add_reading, alert_of, read_thresholds

STOP_TIMEOUT_S = 8.0
"""How long workers may take to stop: time for their last snapshot."""
CONSUMER = {
    # By default a full queue pauses fetching for a second, and the queue runs empty.
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "100000",  # per partition: a second of work, some 30 MB
    "statistics.interval.ms": "0",  # nobody reads the connector's lag metric
    "log_level": "3",  # hides librdkafka's warning that the admin client ignores these settings
}
PRODUCER = {
    "linger.ms": "0",  # send each alert at once
    "partitioner": "murmur2_random",  # as in Java, so that alerts are in the contract's partitions
}
BATCH = 1000
"""Records of a partition per batch: the connector's default; at low rates batches are smaller."""
SNAPSHOT_S = 5
"""How often state and offsets are stored, which bounds what a kill repeats; as in Quix Streams."""
RECOVERY_PARTITIONS = 4
"""SQLite files of the recovery store: one per input partition, the most that workers can use."""

StateReading = tuple[int, str, str, float, str]
"""A reading in state and between workers; a tuple pickles fastest.

Fields: sequence, event_id, event_time, temperature_c, site_id.
"""
Last = Sequence[StateReading]
"""A rack's last distinct readings by sequence, at most three."""
Packet = tuple[str, list[StateReading]]
"""A rack and its next readings in topic order."""
Message = KafkaSourceMessage[bytes | None, bytes | None]
Partition = StatefulSourcePartition[Message, int | None]
Worker = subprocess.Popen[bytes]


def reader() -> Callable[[list[Message]], list[tuple[str, Packet]]]:
    """Return the step from a batch of records to one packet of readings per rack.

    Packets reduce the number of messages between workers. Malformed records are counted.
    """
    decode = msgspec.json.Decoder(Reading).decode
    malformed = 0

    def read(records: list[Message]) -> list[tuple[str, Packet]]:
        nonlocal malformed
        racks: dict[str, list[StateReading]] = defaultdict(list)
        for record in records:
            try:
                reading = decode(record.value or b"")
            except (msgspec.DecodeError, UnicodeDecodeError):
                malformed += 1
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

    # Bytewax has no hook for the dataflow's end, so the number is printed at process exit.
    atexit.register(lambda: sys.stderr.write(f"malformed records: {malformed}\n"))
    return read


def rule_step(
    thresholds: dict[str, float],
) -> Callable[[Last | None, Packet], tuple[Last, list[bytes]]]:
    """Return the stateful step: from state and next readings to new state and alerts."""
    encode = msgspec.json.Encoder().encode

    def apply(last: Last | None, packet: Packet) -> tuple[Last, list[bytes]]:
        rack_id, readings = packet
        threshold_c = thresholds.get(rack_id, DEFAULT_THRESHOLD_C)
        last = last or []
        alerts = []
        for reading in readings:
            last, warning = add_reading(last, reading, threshold_c)
            if warning is not None:
                alerts.append(
                    encode(
                        alert_of(rack_id, reading[4], reading, last, threshold_c, warning=warning)
                    )
                )
        return last, alerts

    return apply


class StoppablePartition(Partition):
    """A partition that ends on request, so that the dataflow stops with a snapshot."""

    def __init__(self, partition: Partition, stopping: threading.Event) -> None:
        self._partition = partition
        self._stopping = stopping

    def next_batch(self) -> Iterable[Message]:
        """Return the available records, up to a batch."""
        if self._stopping.is_set():
            raise StopIteration
        return self._partition.next_batch()

    def snapshot(self) -> int | None:
        """Return the offset to resume from."""
        return self._partition.snapshot()

    def close(self) -> None:
        """Close the connection."""
        self._partition.close()


class StoppableSource(KafkaSource):
    """Bytewax's Kafka source; it stops on SIGTERM, and prints each partition that it starts."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stopping = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())

    def build_part(
        self, step_id: str, for_part: str, resume_state: int | None
    ) -> StoppablePartition:
        """Start to read a partition."""
        partition = super().build_part(step_id, for_part, resume_state)
        print(for_part, flush=True)  # noqa: T201 - the parent waits for it
        return StoppablePartition(partition, self._stopping)


def source(bootstrap: str, prefix: str) -> StoppableSource:
    """Return the source of readings; without a stored offset it starts at the earliest."""
    brokers, topics = bootstrap.split(","), [f"{prefix}rack-readings"]
    return StoppableSource(brokers, topics, add_config=CONSUMER, batch_size=BATCH)


def dataflow(bootstrap: str, prefix: str, inventory: str) -> Dataflow:
    """Return the dataflow; `python -m bytewax.run` calls it in each worker."""
    flow = Dataflow("overheating")
    records = op.input("readings", flow, source(bootstrap, prefix))
    packets = op.flat_map_batch("read", records, reader())
    alerts = op.stateful_flat_map("rule", packets, rule_step(read_thresholds(Path(inventory))))
    messages = op.map(
        "message", alerts, lambda alert: KafkaSinkMessage(alert[0].encode(), alert[1])
    )
    op.output(
        "alerts", messages, KafkaSink(bootstrap.split(","), f"{prefix}alerts", add_config=PRODUCER)
    )
    return flow


def command(bootstrap: str, prefix: str, inventory: Path, state: Path) -> list[str]:
    """Return the command of a single worker."""
    arguments = f"{bootstrap!r}, {prefix!r}, {str(inventory)!r}"
    recovery = (
        f"--recovery-directory={state}",
        f"--snapshot-interval={SNAPSHOT_S}",
        "--backup-interval=0",
    )
    return [sys.executable, "-m", "bytewax.run", f"{__file__}:dataflow({arguments})", *recovery]


def free_addresses(count: int) -> list[str]:
    """Return unused addresses on this machine."""
    with ExitStack() as stack:  # hold all until the last is known, so that they differ
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def start(single: list[str], count: int, output: int) -> list[Worker]:
    """Start the workers: a cluster of processes, or a single process."""
    if count == 1:
        return [subprocess.Popen(single, stdout=output)]
    cluster = ["--addresses", ";".join(free_addresses(count))]
    return [
        subprocess.Popen([*single, "--process-id", str(i), *cluster], stdout=output)
        for i in range(count)
    ]


def wait_until_reading(workers: list[Worker], partitions: int, pipe: int) -> None:
    """Wait until the workers read all partitions; return early when one has ended."""
    text = b""
    while text.count(b"\n") < partitions and all(worker.poll() is None for worker in workers):
        if select.select([pipe], [], [], 0.1)[0]:
            text += os.read(pipe, 4096)


def stop(workers: list[Worker]) -> None:
    """Stop the workers; kill those that do not stop in time."""
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()


def main() -> int:
    """Start the workers, print `running`, and stop them on SIGTERM; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--bootstrap", required=True, help="Kafka bootstrap servers, host:port[,host:port]."
    )
    parser.add_argument("--prefix", default="", help="Prefix of every topic's name.")
    parser.add_argument(
        "--inventory", type=Path, required=True, help="JSON lines with the racks' thresholds."
    )
    parser.add_argument("--state", type=Path, required=True, help="Folder of the recovery store.")
    parser.add_argument("--workers", type=int, default=2, help="Number of processes.")
    options = parser.parse_args()

    if not list(options.state.glob("*.sqlite3")):
        options.state.mkdir(parents=True, exist_ok=True)
        init_db_dir(options.state, RECOVERY_PARTITIONS)
    partitions = len(source(options.bootstrap, options.prefix).list_parts())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
    pipe, output = os.pipe()
    workers: list[Worker] = []
    try:
        single = command(options.bootstrap, options.prefix, options.inventory, options.state)
        workers = start(single, options.workers, output)
        wait_until_reading(workers, partitions, pipe)
        print("running", flush=True)  # noqa: T201
        while all(worker.poll() is None for worker in workers):
            time.sleep(0.1)
        failed = True  # workers end by themselves only on errors
    except KeyboardInterrupt:
        failed = False
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop(workers)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
