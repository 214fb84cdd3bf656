"""Replace files that several processes use in one step, and lock them."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
def writing(called: str, advice: str) -> Iterator[None]:
    """Turn an `OSError` while something is written into a `UserFacingError`.

    `called` names what is written, such as `the ledger x/y`. `advice` says what to do.
    """
    try:
        yield
    except OSError as error:
        raise UserFacingError(
            f"{called} cannot be written ({error.strerror or error}): {advice}."
        ) from None


def make_folder(folder: Path, called: str) -> None:
    """Make a folder below `RACKSTREAM_HOME`; raise `UserFacingError` when that cannot be done."""
    with writing(f"{called} {folder}", "correct RACKSTREAM_HOME or the folder's owner"):
        folder.mkdir(parents=True, exist_ok=True)


def take_lock(locks: ExitStack, file: Path, owner: str) -> str | None:
    """Lock a file until `locks` closes; return None, or who has locked it.

    `owner` describes this process to others. The kernel releases the lock when the process ends,
    however it ends, and programs that it starts do not inherit it. Raises `OSError` when the file
    cannot be locked.
    """
    opened = locks.enter_context(file.open("a+", encoding="utf-8"))
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        opened.seek(0)
        return opened.read() or "another process"
    opened.truncate(0)
    opened.write(owner)
    opened.flush()
    return None


@contextmanager
def exclusive_lock(
    lock: Path, sentence: str, advice: str = "correct its folder's owner, or choose another folder"
) -> Iterator[None]:
    """Hold a lock file; raise `UserFacingError` with the sentence when another process has it.

    `advice` says what to do when the file cannot be written.
    """
    with ExitStack() as locks:
        with writing(f"the lock file {lock}", advice):
            other = take_lock(locks, lock, owner="")
        if other:
            raise UserFacingError(sentence)
        yield
