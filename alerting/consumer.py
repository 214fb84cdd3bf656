"""Read alerts and commands from where the database says, and hand on each alert once.

Kafka's own consumer groups have no part in this: an offset committed there could not be committed together
with the alerts. One process reads all partitions; those added while it runs are found within `CHECK_SECONDS`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError, UnknownTopicOrPartitionError, for_code

from alerting import lines
from alerting.incoming import Malformed, Source, SourceRecord
from alerting.store import Counts, Store
from events.cli import PersonError
from events.times import now_ms, to_text

BOOTSTRAP_SECONDS = 10
"""How long a broker that is just starting is waited for."""

CHECK_SECONDS = 2.0
"""How often the topic is looked at for new partitions, and for being still the same topic. A broker cannot be
stopped, wiped and started in less, so records of another topic of the same name are never taken."""

REMIND_SECONDS = 30.0
"""How often it is said that the broker is still away."""

CATCH_UP_SECONDS = 60.0
"""How long what people are told waits at the start for the end of the topics: what fired when the last process ended
may be over by then, in records that are still to be read."""

RETRY_SECONDS = 0.5
POLL_MS = 500


@dataclass(slots=True)
class Stop:
    """Set by a signal handler, and obeyed between two batches."""

    requested: bool = False


Batch = dict[Source, list[SourceRecord]]
"""What one poll brought of each topic."""


def run(
    bootstrap: str,
    topics: Mapping[Source, str],
    store: Store,
    log_file: lines.LogFile | None = None,
    *,
    idle_exit_s: float | None = None,
    stop: Stop | None = None,
    tell: Callable[[str], None] = lambda _: None,
    each_round: Callable[[], None] = lambda: None,
) -> Counts:
    """Log alerts until asked to stop, or until nothing new came for `idle_exit_s` and the end is reached.

    Return what this run logged, removed and passed over. A broker that goes away is waited for without bound
    (with `idle_exit_s`: for that long); `tell` hears about it. `each_round` is called every half second or so,
    whether records come or not and whether the broker answers or not, once the start has caught up.
    """
    counts = Counts()
    stop = stop or Stop()
    with closing(Reader(bootstrap, topics, store, tell)) as reader:
        active = time.monotonic()
        away = _Away(bootstrap, tell)
        caught_up, patient_until = False, time.monotonic() + CATCH_UP_SECONDS
        while not stop.requested:
            if caught_up or time.monotonic() > patient_until:
                each_round()
            idle = idle_exit_s is not None and time.monotonic() - active >= idle_exit_s
            try:
                reader.check_if_due()
                records = reader.poll()
                if records:
                    reader.check_if_due()
                else:
                    caught_up = caught_up or reader.at_end()
                    if idle and reader.at_end():
                        each_round()
                        break
            except KafkaError as error:
                reader.forget()
                if idle:
                    raise PersonError(
                        f"the broker at {bootstrap} is away ({error}): what was read is kept; start again."
                    ) from None
                away.since(error)
                time.sleep(RETRY_SECONDS)
                continue
            away.over()
            if records:
                _take(records, store, log_file, counts, tell)
                active = time.monotonic()
    return counts


def _take(
    batch: Batch,
    store: Store,
    log_file: lines.LogFile | None,
    counts: Counts,
    tell: Callable[[str], None],
) -> None:
    now = to_text(now_ms())
    with store.transaction():
        bad_commands = store.take_commands(batch.get("commands", ()), now)
        taken = store.take(batch.get("alerts", ()), now)
        if log_file is not None:
            log_file.append(taken.alerts)
        # Last before the commit: a kill in between shows a batch twice, the other order would lose it. What
        # was written to a pipe cannot be cut off as it is from the log file.
        lines.show(taken.alerts)
    counts.alerts += len(taken.alerts)
    counts.repeats += taken.repeats
    counts.malformed += len(taken.malformed) + len(bad_commands)
    for bad in taken.malformed:
        tell(f"A record is no alert and was passed over ({_where(bad)}): {bad.error}.")
    for bad in bad_commands:
        tell(f"A record is no command and was passed over ({_where(bad)}): {bad.error}.")


def _where(bad: Malformed) -> str:
    return f"partition {bad.partition}, offset {bad.offset}"


class _Away:
    """Says when the broker goes, from time to time that it is still away, and when it is back."""

    def __init__(self, bootstrap: str, tell: Callable[[str], None]) -> None:
        self._bootstrap = bootstrap
        self._tell = tell
        self._since: float | None = None
        self._told = 0.0

    def since(self, error: KafkaError) -> None:
        now = time.monotonic()
        self._since = self._since or now
        if now - self._told > REMIND_SECONDS:
            self._told = now
            self._tell(f"The broker at {self._bootstrap} does not answer ({error}); it is tried again.")

    def over(self) -> None:
        if self._since is not None:
            seconds = time.monotonic() - self._since
            self._tell(f"The broker at {self._bootstrap} answers again after {seconds:.0f} s.")
            self._since, self._told = None, 0.0


class Reader:
    """The position in the topics: a consumer, and an admin client that tells which topics they are."""

    def __init__(
        self, bootstrap: str, topics: Mapping[Source, str], store: Store, tell: Callable[[str], None]
    ) -> None:
        self.bootstrap = bootstrap
        self._topics = topics
        self._sources = {topic: source for source, topic in topics.items()}
        self._store = store
        self._tell = tell
        self._checked = float("-inf")
        self._found: set[str] = set()
        common = {
            "bootstrap_servers": bootstrap.split(","),
            "bootstrap_timeout_ms": BOOTSTRAP_SECONDS * 1000,
            "reconnect_backoff_max_ms": 1000,
        }
        try:
            self._admin = KafkaAdminClient(request_timeout_ms=5000, **common)
            self._consumer = KafkaConsumer(
                enable_auto_commit=False,
                auto_offset_reset="none",  # where to go on is decided here, by the database
                allow_auto_create_topics=False,
                **common,
            )
        except KafkaError:
            raise PersonError(
                f"no broker answers at {bootstrap}: start one (`python -m broker up`), "
                "or set KAFKA_BOOTSTRAP_SERVERS to where one runs."
            ) from None

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()
        self._admin.close()

    def check(self) -> None:
        """See that the topics are the database's, and take up the partitions that are not read yet.

        Raise `KafkaError` when the broker is away, `PersonError` when a topic is another or never was.
        """
        found = {each["name"]: each for each in self._admin.describe_topics(list(self._sources))}
        parts = {part for topic in self._sources for part in self._check_topic(topic, found[topic])}
        new = parts - self._consumer.assignment()
        if new:
            self._consumer.assign(parts)  # what was assigned before keeps its position
            self._place(new)
        self._checked = time.monotonic()

    def _check_topic(self, topic: str, found: dict[str, Any]) -> list[TopicPartition]:
        """See that a topic is the database's, and return its partitions."""
        error = for_code(found["error_code"])
        if error is UnknownTopicOrPartitionError and topic not in self._found:
            raise PersonError(
                f"the topic {topic} does not exist on {self.bootstrap}: create the topics with "
                "`python -m broker topics`, or check TOPIC_PREFIX."
            )
        if found["error_code"]:
            raise error(topic)
        self._store.bind(topic, str(found["topic_id"]), self._sources[topic])
        self._found.add(topic)
        return [TopicPartition(topic, part["partition_index"]) for part in found["partitions"]]

    def check_if_due(self) -> None:
        """Check when the last check is older than `CHECK_SECONDS`."""
        if time.monotonic() - self._checked > CHECK_SECONDS:
            self.check()

    def poll(self) -> Batch:
        """Return the records that came of each topic, each partition's in order; empty: none came."""
        try:
            batches = self._consumer.poll(timeout_ms=POLL_MS)
        except OffsetOutOfRangeError as error:
            self._place(error.args[0])
            return {}
        found: Batch = {}
        for part, records in batches.items():
            found.setdefault(self._sources[part.topic], []).extend(records)
        return found

    def forget(self) -> None:
        """Drop the positions, so that the next check takes them from the database again."""
        self._consumer.unsubscribe()
        self._checked = float("-inf")

    def at_end(self) -> bool:
        """Tell whether every record that the topic holds now was returned by `poll`."""
        ends = self._consumer.end_offsets(list(self._consumer.assignment()), timeout_ms=5000)
        return all((self._consumer.position(part, timeout_ms=5000) or 0) >= end for part, end in ends.items())

    def _place(self, parts: Iterable[TopicPartition]) -> None:
        parts = list(parts)
        begins = self._consumer.beginning_offsets(parts, timeout_ms=5000)
        ends = self._consumer.end_offsets(parts, timeout_ms=5000)
        for part in parts:
            taken = self._store.next_offsets(self._sources[part.topic])
            next_offset = taken.get(part.partition, begins[part])
            if next_offset > ends[part]:
                raise PersonError(
                    f"partition {part.partition} of {part.topic} ends at offset {ends[part]}, but was read "
                    f"up to {next_offset}: the broker lost records. Choose another file than "
                    f"{self._store.path} with --database."
                )
            if next_offset < begins[part]:
                lost = begins[part] - next_offset
                where = f"partition {part.partition} of {part.topic}"
                self._tell(f"{lost} records of {where} expired before they were read.")
            self._consumer.seek(part, max(next_offset, begins[part]))
