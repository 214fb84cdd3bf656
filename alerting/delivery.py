"""Take notices from the outbox to their routes, each route in a thread of its own.

A route that is down keeps nobody waiting but those behind it in its own queue. Each notice is tried a bounded
number of times, with pauses that double; then it goes to the file of dead letters, and the next one is tried. How
often it was tried is in the database, so restarts do not begin the count anew.
"""

import os
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from alerting.notices import Notice
from alerting.outbox import Outbox, Waiting
from alerting.routes import Route, RouteError
from events.times import now_ms, to_text

LOOK_SECONDS = 0.5
"""How often a route looks for new notices."""

CLOSE_SECONDS = 11.0
"""How long the end waits for a try that is under way; the routes answer or give up sooner."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a notice is tried, and the first and longest pause between two tries in seconds."""

    tries: int = 12
    first_s: float = 1.0
    longest_s: float = 300.0

    def pause_s(self, tries: int) -> float:
        """Return how long to wait after so many tries in vain; random by a quarter, so that routes do not march."""
        whole = min(self.first_s * 2.0 ** min(tries - 1, 30), self.longest_s)
        return whole * random.uniform(0.75, 1.0)


class Deliveries:
    """The threads of all routes. Open it with `with`; what is not delivered by its end waits in the database."""

    def __init__(
        self,
        database: Path,
        routes: Sequence[Route],
        dead_letters: Path,
        patience: Patience,
        tell: Callable[[str], None],
    ) -> None:
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._database, self._dead_letters = database, dead_letters
        self._patience, self._tell = patience, tell
        self._threads = [
            threading.Thread(target=self._work, args=(route,), name=route.name, daemon=True)
            for route in routes
        ]

    def __enter__(self) -> "Deliveries":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)

    def check(self) -> None:
        """Raise what ended a thread, such as a full disk; a route that is down ends none."""
        if self._errors:
            raise self._errors[0]

    def _work(self, route: Route) -> None:
        try:
            with ExitStack() as opened:
                outbox = opened.enter_context(closing(Outbox(self._database, route.name)))
                worker = Worker(route, outbox, self._dead_letters, self._patience, self._tell)
                while True:
                    pause_s = worker.step()
                    if pause_s and self._stop.is_set():
                        break  # at the end, what is due goes out first; a route that is down is not waited for
                    self._stop.wait(pause_s)
        except BaseException as error:  # noqa: BLE001 - `check` raises it in the main thread
            self._errors.append(error)


class Worker:
    """One route's work, a step at a time."""

    def __init__(
        self,
        route: Route,
        outbox: Outbox,
        dead_letters: Path,
        patience: Patience,
        tell: Callable[[str], None],
    ) -> None:
        self._route, self._outbox = route, outbox
        self._dead_letters, self._patience, self._tell = dead_letters, patience, tell
        self._down = False

    def step(self) -> float:
        """Try the notice at the head of the queue, if there is one; return how many seconds to wait then."""
        waiting = self._outbox.head()
        if waiting is None:
            return LOOK_SECONDS
        error = self._send(waiting.notice)
        if error is not None:
            return self._failed(waiting, error)
        self._outbox.done(waiting, "delivered", to_text(now_ms()))
        if self._down:
            self._tell(f"The route {self._route.name} takes notices again.")
            self._down = False
        return 0.0

    def _send(self, notice: Notice) -> RouteError | None:
        try:
            self._route.send(notice)
        except RouteError as error:
            return error
        except Exception as error:  # noqa: BLE001 - others' code for a hundred services: its mistakes are this route's alone
            return RouteError(type(error).__name__)
        return None

    def _failed(self, waiting: Waiting, error: RouteError) -> float:
        tries = waiting.tries + 1
        self._outbox.failed(waiting, str(error))
        if error.final or tries >= self._patience.tries:
            self._bury(waiting, tries, error)
            return 0.0 if error.final else self._patience.pause_s(1)
        if not self._down:
            self._tell(f"The route {self._route.name} took no notice ({error}); it is tried again.")
            self._down = True
        return self._patience.pause_s(tries)

    def _bury(self, waiting: Waiting, tries: int, error: RouteError) -> None:
        """Write a notice to the file first and take it from the queue then: a kill in between writes it twice."""
        letter = {
            "dead_time": to_text(now_ms()),
            "route": self._route.name,
            "tries": tries,
            "error": str(error),
            "notice": waiting.notice,
        }
        _append(self._dead_letters, msgspec.json.encode(letter) + b"\n")
        self._outbox.done(waiting, "dead", to_text(now_ms()))
        self._tell(
            f"The route {self._route.name} took a notice about {waiting.notice.site_id} in none of {tries} "
            f"tries ({error}): it was written to {self._dead_letters}."
        )


def _append(path: Path, line: bytes) -> None:
    """Append a line in one write, so that routes do not mix theirs, and have it on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        view = memoryview(line)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
