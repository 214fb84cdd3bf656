"""Prefetch batches on a background thread, so that drawing does not delay sending."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

PREFETCHED_BATCHES = 8
"""How many batches may be ready; it bounds memory, and how stale a batch can be."""


def prefetch(items: Iterator[T], size: int = PREFETCHED_BATCHES) -> Iterator[T]:
    """Yield the items, which a background thread makes; raise an error of that thread here."""
    ready: queue.Queue[T | BaseException | None] = queue.Queue(size)
    stopped = threading.Event()

    def fill() -> None:
        last: BaseException | None = None
        try:
            for item in items:
                if not _put(ready, item, stopped):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again where the items are used
            last = error
        _put(ready, last, stopped)

    threading.Thread(target=fill, name="prefetch", daemon=True).start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()


def _put(
    ready: "queue.Queue[T | BaseException | None]",
    item: T | BaseException | None,
    stopped: threading.Event,
) -> bool:
    while not stopped.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
