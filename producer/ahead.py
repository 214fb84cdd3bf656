"""How is drawing kept out of the sender's way? In a thread that works a few batches ahead, no more."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

LOOK_AHEAD = 8
"""How many batches may be ready; it bounds memory, and how stale a batch can be."""


def ahead(items: Iterator[T], look_ahead: int = LOOK_AHEAD) -> Iterator[T]:
    """Yield the items, made in a thread of their own; an error there is raised here."""
    ready: queue.Queue[T | BaseException | None] = queue.Queue(look_ahead)
    enough = threading.Event()

    def make() -> None:
        last: BaseException | None = None
        try:
            for item in items:
                if not _put(ready, item, enough):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again where the items are used
            last = error
        _put(ready, last, enough)

    threading.Thread(target=make, name="drawing ahead", daemon=True).start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        enough.set()


def _put(
    ready: "queue.Queue[T | BaseException | None]", item: T | BaseException | None, enough: threading.Event
) -> bool:
    while not enough.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
