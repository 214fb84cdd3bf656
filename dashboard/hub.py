"""Share the state between the thread that feeds it and the browsers that watch it.

A browser has no queue: the hub knows the version that it last got, and gives it what changed since,
however long it took to read. An update is encoded once for all browsers that have the same version.
"""

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import msgspec

from dashboard.page_records import Update
from dashboard.state import State
from events.times import now_ms

TICK_S = 0.25
"""The least time between two updates of a browser."""
SNAPSHOT_S = 1.0
"""How long a snapshot is given to new browsers; their first update then brings them up to date.

A browser that never reads keeps its snapshot in memory, so there must be few different ones.
"""


class Hub:
    """The state behind a lock, and a signal to all browsers when it has changed."""

    def __init__(self, state: State) -> None:
        self._state, self._lock = state, Lock()
        self._encoder = msgspec.json.Encoder(decimal_format="number")
        self._events: dict[int, bytes] = {}
        self._events_version = 0
        self._snapshot = (-math.inf, 0, b"")
        self._changed = asyncio.Condition()
        self._published_version = state.version
        self.is_closed = False
        self.watching = 0
        """How many streams are open."""

    @contextmanager
    def state(self) -> Iterator[State]:
        """Yield the state for as long as the context lasts; other threads wait."""
        with self._lock:
            yield self._state

    def encode(self, value: object) -> bytes:
        """Return a value as JSON."""
        return self._encoder.encode(value)

    async def run(self) -> None:
        """Wake the browsers when something has changed, until the hub is closed."""
        while not self.is_closed:
            await asyncio.sleep(TICK_S)
            if self._state.version != self._published_version or self.is_closed:
                self._published_version = self._state.version
                async with self._changed:
                    self._changed.notify_all()

    def problem(self) -> str | None:
        """Return a sentence on what is wrong, or None."""
        if not self._state.is_broker_reachable:
            return f"the broker at {self._state.servers} does not answer: see whether it runs."
        return None

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True

    async def wait_for_change(self, version: int, timeout_s: float) -> bool:
        """Wait until a tick finds the state newer than a version; return False after the timeout.

        A change between two ticks waits for the next one, so that a browser gets one update a tick.
        """
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(
                    lambda: self._published_version > version or self.is_closed
                )
        except TimeoutError:
            return False
        return True

    def update_since(self, version: int) -> tuple[int, bytes]:
        """Return the newest version, and the event that brings a browser from another one to it.

        The version 0 asks for everything, which may be `SNAPSHOT_S` old.
        """
        with self._lock:
            if version == 0:
                return self._recent_snapshot()
            newest = self._state.version
            if newest != self._events_version:
                self._events.clear()
                self._events_version = newest
            event = self._events.get(version)
            if event is None:
                update = self._state.update_since(version, now_ms())
                event = self._events[version] = self._event(update)
        return newest, event

    def _recent_snapshot(self) -> tuple[int, bytes]:
        made_s, version, event = self._snapshot
        now_s = time.monotonic()
        if now_s - made_s >= SNAPSHOT_S:
            version, event = self._state.version, self._event(self._state.update_since(0, now_ms()))
            self._snapshot = (now_s, version, event)
        return version, event

    def heartbeat(self, version: int) -> bytes:
        """Return the event that nothing has changed since a version."""
        return self._event(Update(version=version, server_time_ms=now_ms()))

    def _event(self, update: Update) -> bytes:
        name = b"snapshot" if update.is_snapshot else b"update"
        return b"event: %b\ndata: %b\n\n" % (name, self._encoder.encode(update))
