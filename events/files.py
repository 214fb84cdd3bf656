"""Files that several processes use: replace them in one step, and lock them."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from events.cli import UserFacingError


def replace_file(file: Path, content: bytes) -> None:
    """Replace a file's content in one step: a reader sees the old or the new, and never a part.

    Raises `OSError` when it cannot be written.
    """
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(file)


@contextmanager
def exclusive_lock(lock: Path, sentence: str) -> Iterator[None]:
    """Hold a lock file; raise `UserFacingError` with the sentence when another process has it."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserFacingError(sentence) from None
        yield
