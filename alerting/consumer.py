"""Consume alerts and commands from the offsets in the database, and log each alert once.

Kafka's consumer groups are not used: an offset committed to Kafka could not be committed in one
transaction with the alerts. One process reads all partitions. It finds partitions that are added
while it runs within `METADATA_REFRESH_SECONDS`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError, UnknownTopicOrPartitionError, for_code

from alerting import alert_log
from alerting.decoding import MalformedRecord, NewAlert, Source, SourceRecord
from alerting.status import StatusRecorder
from alerting.store import Counts, Store
from events.alerting_health import missing_topic_problem
from events.cli import UserFacingError
from events.times import now_ms, to_text

BOOTSTRAP_SECONDS = 10
"""How long to wait at the start for a broker that is just starting."""

METADATA_REFRESH_SECONDS = 2.0
"""How often to look for new partitions and for topics that were created again.

A broker cannot be stopped, wiped and started in less time, so no record of another topic with the
same name is ever ingested.
"""

OUTAGE_REPORT_SECONDS = 30.0
"""How often to report that the broker is still unreachable."""

MAX_CATCH_UP_SECONDS = 60.0
"""How long notifications wait at the start until the backlog has been read.

An incident that was firing when the last process ended may be resolved by a record in the backlog.
"""

RETRY_SECONDS = 0.5
POLL_MS = 500


@dataclass(slots=True)
class StopRequest:
    """Set by a signal handler, and checked between two batches."""

    requested: bool = False


Batch = dict[Source, list[SourceRecord]]
"""The records of one poll, by topic."""


class MissingTopicError(KafkaError):  # type: ignore[misc] # kafka-python publishes no types
    """A topic that existed before is no longer on the broker."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


def run(
    bootstrap: str,
    topics: Mapping[Source, str],
    store: Store,
    log_file: alert_log.LogFile | None = None,
    *,
    idle_exit_s: float | None = None,
    written_topic: str | None = None,
    stop: StopRequest | None = None,
    report: Callable[[str], None] = lambda _: None,
    on_cycle: Callable[[], None] = lambda: None,
    on_alert: Callable[[NewAlert], None] = lambda _: None,
    on_recreated: Callable[[], None] = lambda: None,
    status: StatusRecorder | None = None,
) -> Counts:
    """Log alerts until asked to stop, and return the counts of this run.

    With `idle_exit_s` the run also ends when it is at the end of the topics and no record has
    arrived for that time. An unreachable broker, or a topic that was deleted, is retried without a
    limit, or until `idle_exit_s`, and `report` is called with the problem. Once the backlog has
    been read, `on_cycle` is called about every half second, whether or not records arrive and the
    broker answers; it may write to `written_topic`, which must exist. `on_recreated` is called
    when that topic was deleted and created again, `on_alert` with each alert that has been logged.
    `status` records whether all this works.
    """
    counts = Counts()
    status = status or StatusRecorder(bootstrap, "", store.path)
    stop = stop or StopRequest()
    reader = TopicReader(bootstrap, topics, written_topic, store, report, on_recreated)
    with closing(reader):
        last_record = time.monotonic()
        outage = _OutageReporter(bootstrap, report)
        caught_up, catch_up_deadline = False, time.monotonic() + MAX_CATCH_UP_SECONDS
        while not stop.requested:
            status.cycle(counts.alerts, counts.repeats, counts.malformed)
            if caught_up or time.monotonic() > catch_up_deadline:
                on_cycle()
            idle = idle_exit_s is not None and time.monotonic() - last_record >= idle_exit_s
            try:
                if reader.refresh_if_due():
                    status.broker_answers(True)
                batch = reader.poll()
                has_read_backlog = caught_up or reader.has_read_backlog()
                if batch:
                    reader.refresh_if_due()
                elif idle and reader.at_end():
                    on_cycle()
                    break
            except KafkaError as error:
                missing_topic = _missing_topic(error)
                status.broker_answers(missing_topic is not None, missing_topic)
                reader.reset()
                if idle:
                    saved = "" if missing_topic else ": progress is saved; restart when it does"
                    raise UserFacingError(f"{_problem(bootstrap, error)}{saved}.") from None
                outage.begin_or_continue(error)
                time.sleep(RETRY_SECONDS)
                continue
            outage.end()
            if batch:
                for new in _ingest(batch, store, log_file, counts, report):
                    on_alert(new)
                last_record = time.monotonic()
            # Only now: an error above drops the batch, which may resolve an incident.
            caught_up = has_read_backlog
    return counts


def _ingest(
    batch: Batch,
    store: Store,
    log_file: alert_log.LogFile | None,
    counts: Counts,
    report: Callable[[str], None],
) -> list[NewAlert]:
    """Log a batch and count it; return its new alerts."""
    now = to_text(now_ms())
    with store.transaction():
        bad_commands = store.ingest_commands(batch.get("commands", ()), now)
        alerts = store.ingest_alerts(batch.get("alerts", ()), now)
        if log_file is not None:
            log_file.append(alerts.new_alerts)
        # Print last, just before the commit: a crash in between prints a batch twice, whereas
        # printing after the commit could lose it. Printed lines cannot be taken back, unlike those
        # of the log file.
        alert_log.print_alerts(alerts.new_alerts)
    counts.alerts += len(alerts.new_alerts)
    counts.repeats += alerts.repeats
    counts.malformed += len(alerts.malformed) + len(bad_commands)
    for bad in alerts.malformed:
        report(f"A record is not a valid alert and was skipped ({_location(bad)}): {bad.error}.")
    for bad in bad_commands:
        report(f"A record is not a valid command and was skipped ({_location(bad)}): {bad.error}.")
    return alerts.new_alerts


def _location(bad: MalformedRecord) -> str:
    return f"partition {bad.partition}, offset {bad.offset}"


def _missing_topic(error: KafkaError) -> str | None:
    return error.topic if isinstance(error, MissingTopicError) else None


def _problem(bootstrap: str, error: KafkaError) -> str:
    if topic := _missing_topic(error):
        return missing_topic_problem(topic, bootstrap)
    return f"the broker at {bootstrap} does not answer ({error})"


class _OutageReporter:
    """Reports when the broker becomes unreachable or lacks a topic, stays so, and recovers."""

    def __init__(self, bootstrap: str, report: Callable[[str], None]) -> None:
        self._bootstrap = bootstrap
        self._report = report
        self._since: float | None = None
        self._topic: str | None = None
        self._last_report = float("-inf")

    def begin_or_continue(self, error: KafkaError) -> None:
        now, topic = time.monotonic(), _missing_topic(error)
        if self._since is None or topic != self._topic:
            self._since, self._topic, self._last_report = now, topic, float("-inf")
        if now - self._last_report > OUTAGE_REPORT_SECONDS:
            self._last_report = now
            problem = _problem(self._bootstrap, error)
            self._report(f"{problem[0].upper()}{problem[1:]}; retrying.")

    def end(self) -> None:
        if self._since is not None:
            seconds = time.monotonic() - self._since
            recovery = (
                f"The topic {self._topic} exists again"
                if self._topic
                else f"The broker at {self._bootstrap} answers again"
            )
            self._report(f"{recovery} after {seconds:.0f} s.")
            self._since = None


class TopicReader:
    """Reads the topics from the offsets in the database, and checks the topics' identity.

    `written_topic` must exist, too.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[Source, str],
        written_topic: str | None,
        store: Store,
        report: Callable[[str], None],
        on_recreated: Callable[[], None],
    ) -> None:
        self.bootstrap = bootstrap
        self._written = [written_topic] if written_topic else []
        self._sources = {topic: source for source, topic in topics.items()}
        self._store = store
        self._report = report
        self._on_recreated = on_recreated
        self._written_topic_id: str | None = None
        self._last_refresh = float("-inf")
        self._seen_topics: set[str] = set()
        self._backlog_ends: dict[TopicPartition, int] = {}
        common = {
            "bootstrap_servers": bootstrap.split(","),
            "bootstrap_timeout_ms": BOOTSTRAP_SECONDS * 1000,
            "reconnect_backoff_max_ms": 1000,
        }
        try:
            self._admin = KafkaAdminClient(request_timeout_ms=5000, **common)
            self._consumer = KafkaConsumer(
                enable_auto_commit=False,
                auto_offset_reset="none",  # `_seek` sets the offsets from the database
                allow_auto_create_topics=False,
                **common,
            )
        except KafkaError:
            raise UserFacingError(
                f"no broker answers at {bootstrap}: start one (`python -m broker up`), "
                "or set KAFKA_BOOTSTRAP_SERVERS to the address of a running one."
            ) from None

    def close(self) -> None:
        """Disconnect from the broker."""
        self._consumer.close()
        self._admin.close()

    def refresh(self) -> None:
        """Check that the topics are the database's, and assign partitions that are not read yet.

        Raise `KafkaError` if the broker is unreachable, `MissingTopicError` if a topic no longer
        exists, `UserFacingError` if it never did or is not the one that the database belongs to.
        """
        names = [*self._sources, *self._written]
        found = {each["name"]: each for each in self._admin.describe_topics(names)}
        parts = {part for topic in self._sources for part in self._check_topic(topic, found[topic])}
        for topic in self._written:
            self._check_written(topic, found[topic])
        new = parts - self._consumer.assignment()
        if new:
            self._consumer.assign(parts)  # partitions assigned before keep their positions
            self._seek(new)
        self._last_refresh = time.monotonic()

    def _check_exists(self, topic: str, description: dict[str, Any]) -> None:
        error = for_code(description["error_code"])
        if error is UnknownTopicOrPartitionError:
            if topic in self._seen_topics:
                raise MissingTopicError(topic)
            raise UserFacingError(
                f"the topic {topic} does not exist on {self.bootstrap}: create the topics with "
                "`python -m broker topics`, or check TOPIC_PREFIX."
            )
        if description["error_code"]:
            raise error(topic)
        self._seen_topics.add(topic)

    def _check_written(self, topic: str, description: dict[str, Any]) -> None:
        """Check that the written topic exists, and tell when it is another one than before."""
        self._check_exists(topic, description)
        topic_id = str(description["topic_id"])
        if self._written_topic_id not in (None, topic_id):
            self._on_recreated()
        self._written_topic_id = topic_id

    def _check_topic(self, topic: str, description: dict[str, Any]) -> list[TopicPartition]:
        """Check that a topic is the database's, and return its partitions."""
        self._check_exists(topic, description)
        self._store.bind_topic(topic, str(description["topic_id"]), self._sources[topic])
        partitions = description["partitions"]
        return [TopicPartition(topic, each["partition_index"]) for each in partitions]

    def refresh_if_due(self) -> bool:
        """Refresh if the last refresh is older than `METADATA_REFRESH_SECONDS`; tell whether so."""
        is_due = time.monotonic() - self._last_refresh > METADATA_REFRESH_SECONDS
        if is_due:
            self.refresh()
        return is_due

    def poll(self) -> Batch:
        """Return the records that arrived, each partition's in order; empty if there are none."""
        try:
            records_by_partition = self._consumer.poll(timeout_ms=POLL_MS)
        except OffsetOutOfRangeError as error:
            self._seek(error.args[0])
            return {}
        batch: Batch = {}
        for part, records in records_by_partition.items():
            batch.setdefault(self._sources[part.topic], []).extend(records)
        return batch

    def reset(self) -> None:
        """Drop the consumer's positions, so that the next refresh takes them from the database."""
        self._consumer.unsubscribe()
        self._last_refresh = float("-inf")

    def has_read_backlog(self) -> bool:
        """Tell whether `poll` has returned every record that the topics held at the start.

        More may have arrived since, and under a steady stream `at_end` may never be true.
        """
        return all(
            (self._consumer.position(part, timeout_ms=5000) or 0) >= end
            for part, end in self._backlog_ends.items()
        )

    def at_end(self) -> bool:
        """Tell whether `poll` has returned every record that the topics hold now."""
        ends = self._consumer.end_offsets(list(self._consumer.assignment()), timeout_ms=5000)
        return all(
            (self._consumer.position(part, timeout_ms=5000) or 0) >= end
            for part, end in ends.items()
        )

    def _seek(self, parts: Iterable[TopicPartition]) -> None:
        parts = list(parts)
        beginnings = self._consumer.beginning_offsets(parts, timeout_ms=5000)
        ends = self._consumer.end_offsets(parts, timeout_ms=5000)
        self._backlog_ends.update(ends)
        for part in parts:
            stored = self._store.next_offsets(self._sources[part.topic])
            next_offset = stored.get(part.partition, beginnings[part])
            if next_offset > ends[part]:
                raise UserFacingError(
                    f"partition {part.partition} of {part.topic} ends at offset {ends[part]}, but "
                    f"was read up to {next_offset}: the broker lost records. Choose another "
                    f"database than {self._store.path} with --database."
                )
            if next_offset < beginnings[part]:
                expired = beginnings[part] - next_offset
                where = f"partition {part.partition} of {part.topic}"
                self._report(f"{expired} records of {where} expired before they were read.")
            self._consumer.seek(part, max(next_offset, beginnings[part]))
