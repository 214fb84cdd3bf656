"""Run the queries of jobs in one session, and watch them until they end."""

import logging
import math
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker.topics import partition_counts
from events.cli import UserFacingError, collected_signals
from events.driver_status import PROGRAM, DriverStatus
from events.files import writing
from events.metrics import StatusCollector, serve_metrics
from events.settings import Settings
from events.status_file import Process, StatusWriter, own_file, remove_superseded
from events.times import now_ms, to_text
from events.topics import Topic
from events.triggers import Trigger
from spark_jobs.runtime import checkpoints, kafka_io
from spark_jobs.runtime.failures import explain
from spark_jobs.runtime.job import ConfiguredJob, Job
from spark_jobs.runtime.last_batch import repeat_last_batch
from spark_jobs.runtime.metrics import STATUS_METRICS, BatchMetrics
from spark_jobs.runtime.options import own_values
from spark_jobs.runtime.plan_input import parsed_records, plan_input
from spark_jobs.runtime.progress import BatchHandler, BatchListener, ProgressFile
from spark_jobs.runtime.remote_files import check_output_folder
from spark_jobs.runtime.restarts import DEFAULT_RESTARTS
from spark_jobs.runtime.session import COUNT_STATE_ROWS, OBJECT_STORE_CONFIG, new_session
from spark_jobs.runtime.start_log import StartLog
from spark_jobs.runtime.status_recorder import StatusRecorder
from spark_jobs.runtime.supervisor import LOOK_EVERY_S, PreparedQuery, Supervisor
from spark_jobs.runtime.topic_watch import TopicWatch
from spark_jobs.runtime.windows import mark_closed

REAL_TIME_BATCH = timedelta(minutes=5)
"""Long, since records that arrive while a batch ends have to wait."""
SHORTEST_REAL_TIME_BATCH = timedelta(seconds=5)
"""Spark refuses shorter ones (`spark.sql.streaming.realTimeMode.minBatchDuration`)."""
DEFERRED_AT_MOST_S = 60.0
"""A query whose topic stays empty never ends a batch."""
SPARE_SLOTS = 8
"""Slots for partitions that are added to a topic while its jobs run.

A real-time task holds its slot for as long as the query runs.
"""
DYNAMIC_ALLOCATION = "spark.dynamicAllocation.enabled"
"""With it, Spark asks for executors when there are tasks."""
FIRST_EXECUTOR_S = 60.0
"""How long a standalone cluster may take to give an executor, after Spark has started."""
NO_EXECUTOR = (
    "{master} has given this driver no executor: see whether the cluster has a worker with enough "
    "free cores and memory, and start the jobs again."
)
JVM_ENDED = (
    "Spark's JVM has ended, most often because memory ran out: give the jobs more (the limit of "
    "their container, or --conf spark.driver.memory=2g), or run fewer in one process, and start "
    "them again; they continue from their checkpoints."
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How jobs are run. None is each job's own default.

    `state_partitions` is the number of tasks over which state is spread, `batch` the length of a
    batch, `rules_batch` that of a rule's micro-batch, `java_options` what the JVM is started with,
    `restarts` how often at most a query is started again within ten minutes.
    """

    checkpoint_root: str = ".rackstream/checkpoints"
    state_partitions: int | None = None
    batch: timedelta | None = None
    rules_batch: timedelta | None = None
    read: kafka_io.ReadOptions = field(default_factory=kafka_io.ReadOptions)
    conf: tuple[tuple[str, str], ...] = ()
    progress: Path | None = None
    java_options: str = ""
    restarts: int = DEFAULT_RESTARTS

    def state_partitions_for(self, job: Job) -> int:
        """Return the number of tasks over which a job's state is spread; 0 for one without."""
        return job.state_partitions and (self.state_partitions or job.state_partitions)

    def batch_for(self, configured: ConfiguredJob) -> timedelta:
        """Return the length of a job's batches.

        0 means that micro-batches follow each other at once, and that real-time batches are as
        short as Spark allows.
        """
        job, job_options, trigger = configured
        if trigger is not Trigger.REAL_TIME:
            if job.interval_option:
                return timedelta(seconds=getattr(job_options, job.interval_option))
            if job.rule and self.rules_batch is not None:
                return self.rules_batch
            return job.micro_batch_interval if self.batch is None else self.batch
        batch = REAL_TIME_BATCH if self.batch is None else self.batch
        return max(batch * job.real_time_batch_share, SHORTEST_REAL_TIME_BATCH)


def run(
    jobs: Sequence[ConfiguredJob],
    settings: Settings,
    options: RunOptions,
    log: Callable[[str], None],
) -> int:
    """Run the jobs until they end, a query fails for good or a signal arrives; return the status.

    0: available-now has read everything, or SIGTERM arrived. 130: Ctrl-C. A second signal ends the
    process at once, as a crash would, even if the JVM does not answer. Raises `UserFacingError`
    when a job cannot start or a query fails for good. `log` receives one line for each job that
    starts, and for each query that fails, is started again or ends. A checkpoint that refuses the
    options, or that another process uses, is named before Spark starts.

    With available-now the jobs start in stages (`dependency_stages`), each after the one before it
    has ended. A query that fails is not started again.
    """
    queries = list[_Query]()
    for one in jobs:
        one.check()
        queries += _queries_of(one, settings, options)
    for query in queries:
        checkpoints.check_checkpoint(options.checkpoint_root, query.identity, query.folder)
    partition_count = _partition_counts(jobs, settings)
    slots = count_slots(jobs, partition_count, options)
    state_partitions = max(1, *(options.state_partitions_for(one.job) for one in jobs))
    recorder = _new_recorder(jobs, settings, options)
    watched = {settings.topic(topic) for one in jobs for topic in one.topics_read}
    servers = settings.kafka_bootstrap_servers
    status_file = own_file(settings.rackstream_home, PROGRAM)
    batches = BatchMetrics()
    metrics = [StatusCollector(recorder.snapshot, STATUS_METRICS), *batches.collectors]
    with (
        checkpoints.locked(options.checkpoint_root, [query.identity for query in queries]),
        serve_metrics(settings.metrics_port, metrics),
        collected_signals(second_kills=True) as received,
        without_py4j_logs(),
        StatusWriter(status_file, recorder.snapshot, log),
        TopicWatch(servers, watched, recorder.on_topics, recorder.on_no_answer),
    ):
        handlers: list[BatchHandler] = [recorder.on_progress, batches.on_progress]
        if rule_triggers := {one.job.name: one.trigger for one in jobs if one.job.rule}:
            start = StartLog(settings.rackstream_home, settings.topic_prefix, rule_triggers)
            handlers.append(start.on_progress)
        if options.progress:
            with writing(f"the progress file {options.progress}", "correct --progress"):
                handlers.append(ProgressFile(options.progress).append)
        log("starting Spark ...")
        in_object_store = checkpoints.in_object_store(options.checkpoint_root)
        conf = (OBJECT_STORE_CONFIG if in_object_store else {}) | dict(options.conf)
        on_ctrl_c = signal.getsignal(signal.SIGINT)
        spark = new_session(settings, slots, state_partitions, conf, options.java_options)
        # PySpark's handler raises KeyboardInterrupt, within a call to the JVM as well, which fails.
        signal.signal(signal.SIGINT, on_ctrl_c)
        supervisor = Supervisor(recorder, partial(_missing_topics, settings), options.restarts, log)
        try:
            _require_executor(spark, received)
            BatchListener(handlers).add_to(spark)
            for stage in _stages(jobs):
                for number, group in enumerate(_by_urgency(stage)):
                    if number:
                        supervisor.watch(_until_all_work(supervisor, group, received))
                    for configured in group:
                        if received:
                            break
                        _start_and_log(spark, supervisor, configured, settings, options, log)
                supervisor.watch(lambda: bool(received))
                if received:
                    return _status(received[0])
        except (Py4JError, ConnectionError):
            if received:
                return _status(received[0])  # the signal has ended the JVM, too
            if _answers(spark):
                raise
            raise UserFacingError(JVM_ENDED) from None
        else:
            return 0
        finally:
            _stop(spark, supervisor.queries())


def _stages(jobs: Sequence[ConfiguredJob]) -> list[list[ConfiguredJob]]:
    ends = all(one.trigger is Trigger.AVAILABLE_NOW for one in jobs)
    return dependency_stages(jobs) if ends else [list(jobs)]


def _by_urgency(jobs: Sequence[ConfiguredJob]) -> list[list[ConfiguredJob]]:
    """Return the jobs in groups: each starts when the queries of those before it work.

    In micro-batches rules come first, as somebody waits for alerts, and deferred jobs last: the
    first batches of many queries at once take each other's processor time for minutes. With
    available-now a job that `covers_other_readers` waits: a query that has ended a batch has fixed
    the offsets at which it ends.
    """

    def urgency(one: ConfiguredJob) -> int:
        if one.trigger is Trigger.AVAILABLE_NOW:
            return int(one.job.covers_other_readers)
        if one.trigger is not Trigger.MICRO_BATCH or one.job.rule:
            return 0
        return 2 if one.job.is_deferred else 1

    numbers = sorted({urgency(one) for one in jobs})
    return [[one for one in jobs if urgency(one) == number] for number in numbers]


def _until_all_work(
    supervisor: Supervisor, waiting: Sequence[ConfiguredJob], received: Sequence[int]
) -> Callable[[], bool]:
    """Return a condition: every query in batches works, a signal has arrived, or it took long.

    A job that `covers_other_readers` waits with available-now however long it takes.
    """
    must_wait = any(one.trigger is Trigger.AVAILABLE_NOW for one in waiting)
    deadline = time.monotonic() + (math.inf if must_wait else DEFERRED_AT_MOST_S)
    return lambda: bool(received) or supervisor.batches_work() or time.monotonic() > deadline


def _new_recorder(
    jobs: Sequence[ConfiguredJob], settings: Settings, options: RunOptions
) -> StatusRecorder:
    """Return a new status, and remove the one that a process with the same task has left."""
    task = [one for one in jobs if not one.job.covers_other_readers] or jobs
    triggers = {one.job.name: one.trigger for one in task}

    def is_same(other: DriverStatus) -> bool:
        return (
            other.topic_prefix == settings.topic_prefix
            and other.checkpoint_root == options.checkpoint_root
            and {*other.jobs} == triggers.keys()
            and all(
                query.trigger == triggers[query.job]
                for query in other.queries
                if query.job in triggers
            )
        )

    remove_superseded(settings.rackstream_home, PROGRAM, DriverStatus, is_same)
    process = Process(PROGRAM, settings.topic_prefix, to_text(now_ms()))
    servers, root = settings.kafka_bootstrap_servers, options.checkpoint_root
    return StatusRecorder(process, servers, list(triggers), root)


def dependency_stages(jobs: Sequence[ConfiguredJob]) -> list[list[ConfiguredJob]]:
    """Return the jobs in stages: each job comes after those that write a topic which it reads."""
    written = [one.job.sink.name if one.job.sink else None for one in jobs]
    read = [{topic.name for topic in one.topics_read} for one in jobs]
    numbers = range(len(jobs))
    sorter = TopologicalSorter(
        {
            reader: [n for n in numbers if n != reader and written[n] in read[reader]]
            for reader in numbers
        }
    )
    sorter.prepare()
    stages = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        stages.append([jobs[number] for number in ready])
        sorter.done(*ready)
    return stages


def _partition_counts(jobs: Sequence[ConfiguredJob], settings: Settings) -> dict[str, int]:
    """Return the partition count of each topic, by its name without prefix.

    Raises `UserFacingError` when the broker or a topic is missing, before Spark is started: Spark
    itself notices only after minutes.
    """
    counts = partition_counts(settings.kafka_bootstrap_servers, settings.topic_prefix)
    sources = [topic for one in jobs for topic in one.topics_read]
    topics = [*sources, *(one.job.sink for one in jobs if one.job.sink)]
    for topic in topics:
        if settings.topic(topic) not in counts:
            raise UserFacingError(
                f"the topic {settings.topic(topic)} is missing: run python -m broker topics."
            )
    return {topic.name: counts[settings.topic(topic)] for topic in topics}


def _missing_topics(settings: Settings, topics: Collection[str]) -> set[str]:
    """Return those topics that the broker says do not exist; none if it does not answer."""
    try:
        counts = partition_counts(settings.kafka_bootstrap_servers, settings.topic_prefix)
    except UserFacingError:
        return set()
    return set(topics) - counts.keys()


def _start_and_log(
    spark: SparkSession,
    supervisor: Supervisor,
    configured: ConfiguredJob,
    settings: Settings,
    options: RunOptions,
    log: Callable[[str], None],
) -> None:
    try:
        for prepared in prepare(spark, configured, settings, options):
            supervisor.start(prepared)
    except ConnectionError:
        raise  # the JVM has ended
    except (PySparkException, Py4JJavaError, OSError) as error:
        # Spark, the file system of the checkpoints or the disk refuses an option.
        name = configured.job.name
        raise UserFacingError(f"{name} did not start: {explain(error)}") from None
    log(f"{configured.job.name} ({configured.trigger}): {configured.flow}")


def prepare(
    spark: SparkSession, configured: ConfiguredJob, settings: Settings, options: RunOptions
) -> Iterator[PreparedQuery]:
    """Yield the queries of a job: one for all its sources, or one for each."""
    job, job_options, trigger = configured
    plan = configured.plan
    policy = job.watermark_policy(job_options) if job.watermark_policy else "min"
    state_partitions = options.state_partitions_for(job)
    batch = options.batch_for(configured)

    def prepare_query(records: DataFrame, about: _Query) -> PreparedQuery:
        name, folder = about.identity.job, about.folder
        path = checkpoints.open_checkpoint(options.checkpoint_root, about.identity, folder)
        if folder:
            check_output_folder(spark, path, folder)
        mode = plan.output_mode(job_options)
        if mode == "append" and "output_mode" in own_values(job_options):
            records = mark_closed(records)
        query = kafka_io.QueryOptions(name, path, mode, trigger, batch)

        def start() -> StreamingQuery:
            # Each query keeps these two in its checkpoint from its first batch on.
            spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
            if state_partitions:
                spark.conf.set("spark.sql.shuffle.partitions", str(state_partitions))
            # Real-time Mode and backfills are as fast as they can be instead.
            counts_rows = job.counts_state_rows and trigger is Trigger.MICRO_BATCH
            spark.conf.set(COUNT_STATE_ROWS, str(counts_rows).lower())
            if plan.by_wall_clock:
                repeat_last_batch(spark, path)
            if folder:
                return kafka_io.write_files(records, folder, query)
            if job.sink is None:
                raise TypeError(f"{job.name} has neither a sink nor an output folder")
            return kafka_io.write_topic(records, settings, job.sink, query)

        needed = [*about.topics, *([job.sink] if job.sink else [])]
        return PreparedQuery(
            name=name,
            job=job.name,
            trigger=trigger,
            batch=batch,
            sources=tuple(settings.topic(topic) for topic in about.topics),
            topics=frozenset(settings.topic(topic) for topic in needed),
            start=start,
        )

    read_options = replace(options.read, records_per_batch=None) if plan.reads_all else options.read

    def read(topic: Topic) -> DataFrame:
        low_priority = job.low_priority and trigger is Trigger.REAL_TIME
        return kafka_io.read_topic(
            spark, settings, topic, trigger, read_options, low_priority=low_priority
        )

    for about in _queries_of(configured, settings, options):
        if job.query_per_source:
            (topic,) = about.topics
            parsed = parsed_records(configured, topic, read(topic))
            records = plan.records(parsed, topic, job_options)
        else:
            inputs = [plan_input(configured, topic, read(topic)) for topic in about.topics]
            records = plan.records(*inputs, job_options)
        yield prepare_query(records, about)


class _Query(NamedTuple):
    """What is known of a query without Spark: its checkpoint, topics and output folder."""

    identity: checkpoints.Identity
    topics: tuple[Topic, ...]
    folder: str | None = None


def _queries_of(
    configured: ConfiguredJob, settings: Settings, options: RunOptions
) -> Iterator[_Query]:
    job, job_options, _ = configured
    plan, topics, prefix = configured.plan, configured.topics_read, settings.topic_prefix

    def identity(name: str, fingerprint: dict[str, str]) -> checkpoints.Identity:
        return checkpoints.Identity(name, plan.name, job.state_version, prefix, fingerprint)

    if not job.query_per_source:
        fingerprint = _fingerprint(configured, options.state_partitions_for(job))
        yield _Query(identity(job.name, fingerprint), topics)
        return
    for topic in topics:
        folder = None
        if job.output_folder:
            folder = f"{job.output_folder(job_options)}/{prefix}{topic.name}"
        fingerprint = {"folder": folder} if folder else {}
        yield _Query(identity(f"{job.name}-{topic.name}", fingerprint), (topic,), folder)


def _fingerprint(configured: ConfiguredJob, state_partitions: int) -> dict[str, str]:
    plan, values = configured.plan, own_values(configured.options)
    if "output_mode" in values:
        values["output_mode"] = plan.output_mode(configured.options)
    return {
        **{name: str(value) for name, value in values.items()},
        **plan.fingerprint,
        "state_partitions": str(state_partitions),
    }


def count_slots(
    jobs: Sequence[ConfiguredJob], partition_count: Mapping[str, int], options: RunOptions
) -> int:
    """Return how many tasks must be able to run at once in local mode.

    All tasks of a real-time query run at once: one for each partition that it reads, and one for
    each partition of its state. `partition_count` is by topic name.
    """
    real_time = [one for one in jobs if one.trigger is Trigger.REAL_TIME]
    if not real_time:
        return max(4, *(options.state_partitions_for(one.job) for one in jobs))
    return SPARE_SLOTS + sum(
        sum(partition_count[topic.name] for topic in one.topics_read)
        + options.state_partitions_for(one.job)
        for one in real_time
    )


def _status(number: int) -> int:
    """Return the exit status after a signal."""
    return 130 if number == signal.SIGINT else 0


def _require_executor(spark: SparkSession, received: Sequence[int]) -> None:
    """Wait until a standalone cluster has given an executor, or a signal arrives.

    Raises `UserFacingError` when none comes: a new process may get one. A Spark master that dies
    after it has stored an application, but before it has answered the driver, never gives that
    driver an executor. The restarted master knows the stored application, and ignores the one that
    the driver then registers from the same address.
    """
    master = spark.sparkContext.master or ""
    if not master.startswith("spark://"):
        return
    if str(spark.conf.get(DYNAMIC_ALLOCATION, "false")).lower() == "true":
        return
    java_context = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + FIRST_EXECUTOR_S
    while not (received or java_context.getExecutorIds().size()):
        if time.monotonic() > deadline:
            raise UserFacingError(NO_EXECUTOR.format(master=master))
        time.sleep(LOOK_EVERY_S)


def _answers(spark: SparkSession) -> bool:
    """Tell whether the session's JVM still runs."""
    with suppress(Py4JError, OSError):
        return bool(spark.version)
    return False


def _stop(spark: SparkSession, queries: Sequence[StreamingQuery]) -> None:
    """Stop the queries and the session, in this order.

    When the signal reached the JVM too, the JVM is already ending, and calls to it fail.
    """
    for query in queries:
        with suppress(PySparkException, Py4JError, OSError):
            query.stop()
    with suppress(PySparkException, Py4JError, OSError):
        spark.stop()


@contextmanager
def without_py4j_logs() -> Iterator[None]:
    """Drop what py4j logs: it raises each failure too, and its stack traces hide the sentence.

    A lost connection is logged by its own logger, or without one, depending on the moment.
    """

    def is_not_of_py4j(record: logging.LogRecord) -> bool:
        return Path(record.pathname).parent.name != "py4j"

    py4j, root = logging.getLogger("py4j"), logging.getLogger()
    level = py4j.level
    py4j.setLevel(logging.CRITICAL + 1)
    root.addFilter(is_not_of_py4j)
    try:
        yield
    finally:
        py4j.setLevel(level)
        root.removeFilter(is_not_of_py4j)
