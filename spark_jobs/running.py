"""Start the queries of some jobs in one session, and watch over them until they end."""

import logging
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker.topics import missing_topics
from events.cli import PersonError
from events.settings import Settings
from events.topics import DEAD_LETTERS, Topic
from spark_jobs import checkpoints, kafka, parsing
from spark_jobs.dead_letters import dead_letters
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.progress import ProgressLog
from spark_jobs.quick_reading import parse_quickly
from spark_jobs.session import NOT_ON_A_DISK, new_session
from spark_jobs.triggers import Trigger
from spark_jobs.usual_form import suspects

REAL_TIME_BATCH = timedelta(minutes=5)
"""Long, since its end pauses the records of its moment."""
SHORTEST_REAL_TIME = timedelta(seconds=5)
"""Spark takes no shorter ones (`spark.sql.streaming.realTimeMode.minBatchDuration`)."""
LETTERS_EVERY = timedelta(seconds=2)
"""Dead letters are not urgent: their micro-batches need not take the processors that results are waiting for."""
LETTERS_SHARE = 0.9
"""Nor do their real-time batches, of this share of the results', often end with those: an end is a second of planning
(docs/tuning.md)."""
SPARE_SLOTS = 8
"""Real-time tasks hold their slot for ever: these are for partitions that are added to a topic while it runs."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How jobs are run: the trigger and over how many tasks state is spread (None: each job's default), batches."""

    trigger: Trigger | None = None
    checkpoint_root: str = ".rackstream/checkpoints"
    state_partitions: int | None = None
    batch: timedelta | None = None
    read: kafka.ReadOptions = field(default_factory=kafka.ReadOptions)
    conf: tuple[tuple[str, str], ...] = ()
    progress: Path | None = None

    def partitions_for(self, job: Job) -> int:
        """Return over how many tasks a job's state is spread."""
        return self.state_partitions or job.state_partitions

    def batch_for(
        self, trigger: Trigger, micro_batch: timedelta = timedelta(0), *, letters: bool = False
    ) -> timedelta:
        """Return how long a batch of a job's results lasts, or of its dead letters."""
        if trigger is not Trigger.REAL_TIME:
            return self.batch or (LETTERS_EVERY if letters else micro_batch)
        batch = self.batch or REAL_TIME_BATCH
        return max(batch * LETTERS_SHARE, SHORTEST_REAL_TIME) if letters else batch


def run(
    jobs: list[Job],
    settings: Settings,
    options: RunOptions,
    job_options: JobOptions,
    tell: Callable[[str], None],
) -> int:
    """Run the jobs until they end, a query dies or a signal comes; return the exit status.

    What happens is told in a line each: what reads and writes what, and what was read at the end.

    0: available-now read all there was, or SIGTERM came. 1: a query died (said in a sentence). 130: Ctrl-C.
    """
    triggers = {job.name: options.trigger or job.default_trigger for job in jobs}
    for job in jobs:
        if triggers[job.name] not in job.plans:
            raise PersonError(
                f"{job.name} cannot run as {triggers[job.name]}: choose {', '.join(job.plans)}."
            )
        if job.needs_inventory and not job_options.inventory:
            raise PersonError(f"{job.name} asks how many racks a site has: name the --inventory.")
    _require_topics(jobs, settings, job_options)
    partitions = max(map(options.partitions_for, jobs))
    slots = _slots(jobs, triggers, partitions)
    with _signals() as received:
        tell("starting Spark ...")
        files = NOT_ON_A_DISK if "://" in options.checkpoint_root else {}
        spark = new_session(settings, slots, partitions, files | dict(options.conf))
        if options.progress:
            spark.streams.addListener(ProgressLog(options.progress))
        queries: list[StreamingQuery] = []
        try:
            for job in jobs:
                try:
                    queries += start(spark, job, triggers[job.name], settings, options, job_options)
                except (PySparkException, OSError) as error:
                    # An option that Spark, or the disk, does not take.
                    raise PersonError(f"{job.name} did not start: {explain(error)}") from None
                tell(f"{job.name} ({triggers[job.name]}): {job.flow}")
            return _watch(queries, lambda: next(iter(received), None), tell)
        finally:
            _stop(spark, queries)


def _require_topics(jobs: list[Job], settings: Settings, job_options: JobOptions) -> None:
    """Say at once what Spark would say after minutes: that there is no broker, or not the topic."""
    missing = set(missing_topics(settings.kafka_bootstrap_servers, settings.topic_prefix))
    sources = [topic for job in jobs for topic in job.sources(job_options)]
    for topic in [*sources, *(job.sink for job in jobs if job.sink), DEAD_LETTERS]:
        if settings.topic(topic) in missing:
            raise PersonError(f"the topic {settings.topic(topic)} is missing: run python -m broker topics.")


def start(
    spark: SparkSession,
    job: Job,
    trigger: Trigger,
    settings: Settings,
    options: RunOptions,
    job_options: JobOptions,
) -> list[StreamingQuery]:
    """Start the queries of a job: its results and each source's dead letters, or one where the plan carries both."""
    plan = job.plans[trigger]
    job_options = job.with_defaults(job_options)
    sources = job.sources(job_options)
    # Taken into each query's checkpoint at its first start.
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", job_options.watermark_policy)
    spark.conf.set("spark.sql.shuffle.partitions", str(options.partitions_for(job)))

    def begin(
        records: DataFrame, sink: Topic | None, name: str, plan_name: str, mode: str, shape: dict[str, str]
    ) -> StreamingQuery:
        identity = checkpoints.Identity(name, plan_name, job.rules_version, settings.topic_prefix, shape)
        path = checkpoints.claim(options.checkpoint_root, identity)
        batch = options.batch_for(trigger, job.micro_batch, letters=sink is DEAD_LETTERS)
        query = kafka.QueryOptions(name, path, mode, trigger, batch)
        if sink is None:
            return kafka.write_files(records, shape["folder"], query)
        return kafka.write_topic(records, settings, sink, query)

    read = replace(options.read, records_per_batch=None) if plan.reads_all else options.read

    def raw(topic: Topic, *, patient: bool = False) -> DataFrame:
        return kafka.read_topic(spark, settings, topic, trigger, read, patient=patient)

    def parsed(topic: Topic) -> DataFrame:
        if topic.record is None:
            return raw(topic)
        if trigger is Trigger.REAL_TIME:
            return judged(parsing.parse(raw(topic), topic.record))
        return judged(parse_quickly(raw(topic), topic.record, plan.fields))

    def suspicious(topic: Topic) -> DataFrame:
        if topic.record is None:
            return raw(topic)
        if trigger is Trigger.REAL_TIME:
            return judged(parsing.parse(raw(topic, patient=True), topic.record))
        records = suspects(raw(topic), topic.record)
        return judged(parsing.parse(records, topic.record))

    def judged(records: DataFrame) -> DataFrame:
        return parsing.reject_future(records) if job.by_event_time else records

    shape = _shape(job, plan, options.partitions_for(job), job_options)
    mode = plan.output_mode(job_options)
    if job.sink is None:
        folder = f"{job_options.archive}/landing/{settings.topic_prefix}"
        return [
            begin(
                plan.records(parsed(topic), job_options),
                None,
                f"{job.name}-{topic.name}",
                plan.name,
                mode,
                {"folder": folder + topic.name},
            )
            for topic in sources
        ]
    if plan.reads_raw:
        records = plan.records(*map(raw, sources), job_options)
        return [begin(records, job.sink, job.name, plan.name, mode, shape)]
    results = plan.records(*(parsing.readable(parsed(topic)) for topic in sources), job_options)
    queries = [begin(results, job.sink, job.name, plan.name, mode, shape)]
    for topic in sources:
        letters = dead_letters(parsing.unreadable(suspicious(topic)), topic.name)
        name = f"{job.name}-dead-letters" + (f"-{topic.name}" if job.has_several else "")
        queries.append(begin(letters, DEAD_LETTERS, name, plan.name, "update", {}))
    return queries


def _shape(job: Job, plan: Plan, partitions: int, job_options: JobOptions) -> dict[str, str]:
    chosen = {name: str(value) for name, value in asdict(job_options).items() if name in job.shaping_options}
    if "output_mode" in chosen:
        chosen["output_mode"] = plan.output_mode(job_options)
    return chosen | {"state_partitions": str(partitions)}


def _slots(jobs: list[Job], triggers: dict[str, Trigger], state_partitions: int) -> int:
    """Real-time tasks run all at once: readers of results and of letters, and the owners of state."""
    real_time = [job for job in jobs if triggers[job.name] is Trigger.REAL_TIME]
    if not real_time:
        return max(4, state_partitions)
    return sum(2 * job.source.partitions + state_partitions for job in real_time) + SPARE_SLOTS


def _watch(
    queries: list[StreamingQuery], signal_received: Callable[[], int | None], tell: Callable[[str], None]
) -> int:
    alive = list(queries)
    while alive:
        number = signal_received()
        if number is not None:
            return 130 if number == signal.SIGINT else 0
        for query in list(alive):
            if not query.isActive:
                failure = query.exception()
                if failure is not None:
                    raise PersonError(f"{query.name} ended: {explain(failure)}")
                alive.remove(query)
                tell(f"{query.name}: read all there was")
        time.sleep(0.2)
    return 0


def explain(failure: Exception) -> str:
    """Return one sentence for why a query ended: what to do where a person can do something, else the first cause."""
    text = str(failure)
    if "UnknownTopicOrPartition" in text or "UNKNOWN_TOPIC" in text:
        return "a topic is missing: run python -m broker topics."
    if "KAFKA_DATA_LOSS" in text or "OffsetOutOfRange" in text or "FAIL_ON_DATA_LOSS" in text:
        return (
            "the topic no longer holds what the checkpoint was to go on from (deleted, or kept too short): "
            "name another --checkpoint-root to begin anew."
        )
    if "No space left on device" in text:
        return "the disk is full: free some space and start again, it goes on from its checkpoint."
    causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error): .*)$", text, flags=re.MULTILINE)
    return causes[-1] if causes else text.partition("\n")[0] or repr(failure)


def _stop(spark: SparkSession, queries: list[StreamingQuery]) -> None:
    """Stop in order. Where the signal reached the JVM too it is on its way out: that is an end as well."""
    logging.disable(logging.CRITICAL)  # py4j logs each call to a JVM that is gone
    with suppress(PySparkException, Py4JError, OSError):
        for query in queries:
            query.stop()
    with suppress(PySparkException, Py4JError, OSError):
        spark.stop()


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying of them, so that queries are stopped in order."""
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
