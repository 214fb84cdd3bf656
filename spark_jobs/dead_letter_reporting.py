"""Add the job `dead_letters` to the jobs of a run, for topics that no other process reports."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from events.cli import UserFacingError
from events.files import take_lock, writing
from events.times import now_ms, to_text
from events.topics import Topic
from spark_jobs.runtime.checkpoints import in_object_store
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.storage import dead_letters


@contextmanager
def with_dead_letters(
    jobs: Sequence[ConfiguredJob],
    checkpoint_root: str,
    topic_prefix: str,
    log: Callable[[str], None],
) -> Iterator[list[ConfiguredJob]]:
    """Yield the jobs, and last `dead_letters` for the topics that this process may report.

    On a local checkpoint root a lock per topic and prefix lets one process report; it is held until
    the context ends. For a topic that another process reports, `log` receives a line.
    """
    others = [one for one in jobs if one.job is not dead_letters.JOB]
    wanted = dead_letters.reporting_jobs(jobs)
    with ExitStack() as locks:
        if not in_object_store(checkpoint_root):
            owner = _describe(jobs)
            wanted = [
                one._replace(options=dead_letters.Options(topics=topics))
                for one in wanted
                if (
                    topics := tuple(
                        topic
                        for topic in one.topics_read
                        if _take(locks, lock_file(checkpoint_root, topic_prefix, topic), owner, log)
                    )
                )
            ]
        if not others and not wanted:
            raise UserFacingError("other processes report the dead letters of every topic.")
        yield [*others, *wanted]


def lock_file(checkpoint_root: str, topic_prefix: str, topic: Topic) -> Path:
    """Return the file whose lock lets one process report a topic's dead letters."""
    folder = Path(checkpoint_root) / f"{dead_letters.JOB.name}-{topic.name}"
    return folder / f"{topic_prefix or '-'}.lock"


def _take(locks: ExitStack, file: Path, owner: str, log: Callable[[str], None]) -> bool:
    """Lock a file until `locks` closes; if another process has locked it, log which one."""
    with writing(f"the lock file {file}", "correct the checkpoint root, or use --no-dead-letters"):
        file.parent.mkdir(parents=True, exist_ok=True)
        other = take_lock(locks, file, owner)
    if other:
        topic = file.parent.name.removeprefix(f"{dead_letters.JOB.name}-")
        log(f"{other} reports the dead letters of {topic}, so this one does not")
    return not other


def _describe(jobs: Sequence[ConfiguredJob]) -> str:
    names = ", ".join(dict.fromkeys(one.job.name for one in jobs))
    return (
        f"process {os.getpid()} on {socket.gethostname()} "
        f"(started {to_text(now_ms())}, runs {names})"
    )
