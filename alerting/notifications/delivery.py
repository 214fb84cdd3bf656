"""Deliver notices from the outbox, with one thread per channel.

A failing channel delays only the notices in its own queue. Each notice is tried a limited number of
times, with delays that double. After the last attempt it goes to the dead-letter file, and the next
notice is tried. The database counts the attempts, so a restart does not reset them.
"""

import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from alerting.notifications.channels import Channel, DeliveryError
from alerting.notifications.notice import Notice
from alerting.notifications.outbox import Outbox, QueuedNotice
from events.times import now_ms, to_text

POLL_SECONDS = 0.5
"""How often a channel looks for new notices."""

SHUTDOWN_SECONDS = 11.0
"""How long the end waits for the attempts in progress.

A channel's timeouts, for the connection and for the answer, are together shorter.
"""

AttemptResult = Literal["delivered", "retried", "dead"]
"""How an attempt ended: the channel accepted the notice, or it waits, or nobody tries again."""
OnAttempt = Callable[[str, AttemptResult], None]
"""Called after each attempt with the channel's name; any thread may call it."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a notice is tried, and the delays between the attempts."""

    max_attempts: int = 12
    initial_delay_s: float = 1.0
    max_delay_s: float = 300.0

    def delay_s(self, failed_attempts: int) -> float:
        """Return the delay after this number of failed attempts, with up to a quarter of jitter."""
        delay_s = min(self.initial_delay_s * 2.0 ** min(failed_attempts - 1, 30), self.max_delay_s)
        return delay_s * random.uniform(0.75, 1.0)


class DeliveryThreads:
    """A context manager that runs one delivery thread per channel.

    Notices that are not delivered when it ends stay in the database.
    """

    def __init__(
        self,
        database: Path,
        channels: Sequence[Channel],
        dead_letters: Path,
        retry_policy: RetryPolicy,
        report: Callable[[str], None],
        on_attempt: OnAttempt = lambda *_: None,
    ) -> None:
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._database, self._dead_letters = database, dead_letters
        self._retry_policy, self._report = retry_policy, report
        self._on_attempt = on_attempt
        self._threads = [
            threading.Thread(target=self._deliver, args=(channel,), name=channel.name, daemon=True)
            for channel in channels
        ]

    def __enter__(self) -> "DeliveryThreads":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def check(self) -> None:
        """Raise the error that ended a thread, such as a full disk."""
        if self._errors:
            raise self._errors[0]

    def _deliver(self, channel: Channel) -> None:
        try:
            with closing(Outbox(self._database, channel.name)) as outbox:
                worker = DeliveryWorker(
                    channel,
                    outbox,
                    self._dead_letters,
                    self._retry_policy,
                    self._report,
                    self._on_attempt,
                )
                while True:
                    delay_s = worker.step()
                    if delay_s and self._stop.is_set():
                        break  # the queue is empty, or its channel is failing
                    self._stop.wait(delay_s)
        except BaseException as error:  # noqa: BLE001 - `check` raises it in the main thread
            self._errors.append(error)


class DeliveryWorker:
    """Delivers the notices of one channel, one attempt per step."""

    def __init__(
        self,
        channel: Channel,
        outbox: Outbox,
        dead_letters: Path,
        retry_policy: RetryPolicy,
        report: Callable[[str], None],
        on_attempt: OnAttempt = lambda *_: None,
    ) -> None:
        self._channel, self._outbox = channel, outbox
        self._dead_letters, self._retry_policy = dead_letters, retry_policy
        self._report, self._on_attempt = report, on_attempt
        self._failing = False

    def step(self) -> float:
        """Try the oldest notice, if there is one; return the delay until the next step."""
        queued = self._outbox.head()
        if queued is None:
            return POLL_SECONDS
        error = self._send(queued.notice)
        if error is not None:
            return self._handle_failure(queued, error)
        self._outbox.record_outcome(queued, "delivered", to_text(now_ms()))
        self._on_attempt(self._channel.name, "delivered")
        if self._failing:
            self._report(f"The channel {self._channel.name} accepts notices again.")
            self._failing = False
        return 0.0

    def _send(self, notice: Notice) -> DeliveryError | None:
        try:
            self._channel.send(notice)
        except DeliveryError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a bug in a third-party service's code must not stop the others
            return DeliveryError(type(error).__name__)
        return None

    def _handle_failure(self, queued: QueuedNotice, error: DeliveryError) -> float:
        attempts = queued.failed_attempts + 1
        self._outbox.record_failure(queued, str(error))
        if error.permanent or attempts >= self._retry_policy.max_attempts:
            self._dead_letter(queued, attempts, error)
            self._on_attempt(self._channel.name, "dead")
            return 0.0 if error.permanent else self._retry_policy.delay_s(1)
        self._on_attempt(self._channel.name, "retried")
        if not self._failing:
            self._report(f"The channel {self._channel.name} failed ({error}) and is retried.")
            self._failing = True
        return self._retry_policy.delay_s(attempts)

    def _dead_letter(self, queued: QueuedNotice, attempts: int, error: DeliveryError) -> None:
        """Move a notice from the queue to the dead-letter file.

        The file is written first, so a crash in between writes the notice twice and never loses it.
        """
        dead_letter = {
            "dead_time": to_text(now_ms()),
            "channel": self._channel.name,
            "attempts": attempts,
            "error": str(error),
            "notice": queued.notice,
        }
        _append(self._dead_letters, msgspec.json.encode(dead_letter) + b"\n")
        self._outbox.record_outcome(queued, "dead", to_text(now_ms()))
        self._report(
            f"The channel {self._channel.name} did not accept a notice about "
            f"{queued.notice.site_id} in {attempts} attempts ({error}): it was written to "
            f"{self._dead_letters}."
        )


def _append(path: Path, line: bytes) -> None:
    """Append a line and flush it to disk. A line that a full disk cut off is ended first.

    A lock keeps channels from mixing their lines.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        is_cut_off = size and os.pread(fd, 1, size - 1) != b"\n"
        view = memoryview(b"\n" + line if is_cut_off else line)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
