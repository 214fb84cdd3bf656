"""Find the checkpoint of a query, and refuse one that another query has written.

A checkpoint lies below `--checkpoint-root` at job / plan / state version / prefix (`-` for none).
Its `fingerprint.json` holds the options that the state depends on. A query with another fingerprint
is refused, since it would misread the state. The process that runs the query locks `driver.lock`.
"""

import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from events.cli import UserFacingError
from events.files import replace_file, take_lock

_FINGERPRINT_FILE = "fingerprint.json"
_LOCK_FILE = "driver.lock"
_OLD_FINGERPRINT_FILE = "begun-with.json"
FILE_SINK_LOG = "_spark_metadata"
"""The folder below a file sink's output in which Spark lists the files of each batch."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What state depends on.

    `fingerprint` has the job's options and the number of state partitions, by name.
    """

    job: str
    plan: str
    state_version: str
    prefix: str
    fingerprint: dict[str, str]


def in_object_store(location: str) -> bool:
    """Tell whether a folder is given as a URL, and not as a path of this machine."""
    return "://" in location


def checkpoint_path(root: str, identity: Identity) -> str:
    """Return the folder (or URL) of a query's checkpoint."""
    return "/".join(
        [
            root.rstrip("/"),
            identity.job,
            identity.plan,
            identity.state_version,
            identity.prefix or "-",
        ]
    )


def check_checkpoint(root: str, identity: Identity, output_folder: str | None = None) -> None:
    """Raise `UserFacingError` for a query that may not start from what is there.

    That is a checkpoint with another fingerprint or a damaged one, or one of this job, plan and
    prefix, of any state version, that a previous version of Rackstream wrote. Also a new checkpoint
    whose query writes files to an `output_folder` that another checkpoint wrote: Spark would skip
    each batch whose number is in that folder's log.

    Only local folders hold a fingerprint: in object stores the path alone keeps checkpoints apart.
    Where the checkpoint or the output folder is a URL, `remote_files` looks, once Spark runs.
    """
    if in_object_store(root):
        return
    path = checkpoint_path(root, identity)
    folder = Path(path)
    file = folder / _FINGERPRINT_FILE
    if file.exists():
        _compare(_read_fingerprint(file), identity.fingerprint, path)
        return
    for old in sorted(folder.parent.parent.glob(f"*/{folder.name}/{_OLD_FINGERPRINT_FILE}")):
        raise UserFacingError(
            f"the checkpoint {old.parent} was written by a previous version of Rackstream: "
            "delete it, or choose another --checkpoint-root, to start from the beginning."
        )
    if (
        output_folder
        and not in_object_store(output_folder)
        and (Path(output_folder) / FILE_SINK_LOG).exists()
    ):
        raise written_with_another(output_folder, path)


def written_with_another(output_folder: str, path: str) -> UserFacingError:
    """Return the refusal of a new checkpoint whose output folder another checkpoint wrote."""
    return UserFacingError(
        f"{output_folder} was written with another checkpoint than {path}, which is new: "
        "choose another --archive, or the checkpoint root that wrote it."
    )


@contextmanager
def locked(root: str, identities: Iterable[Identity]) -> Iterator[None]:
    """Hold the checkpoints of queries, so that no other process uses them.

    Raises `UserFacingError` when one does: the two would write each batch twice, and fail each
    other. A folder that cannot be locked is not held, as those in an object store.
    """
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    with ExitStack() as locks:
        for identity in () if in_object_store(root) else identities:
            path, other = checkpoint_path(root, identity), None
            with suppress(OSError):
                Path(path).mkdir(parents=True, exist_ok=True)
                other = take_lock(locks, Path(path) / _LOCK_FILE, owner)
            if other:
                raise UserFacingError(
                    f"{other} runs {identity.job} with the checkpoint {path}: end it first, or "
                    "give this one another --checkpoint-root."
                )
        yield


def open_checkpoint(root: str, identity: Identity, output_folder: str | None = None) -> str:
    """Return the checkpoint's folder for a query that is about to start.

    Raises `UserFacingError` where `check_checkpoint` does. A new local folder gets its fingerprint.
    """
    check_checkpoint(root, identity, output_folder)
    path = checkpoint_path(root, identity)
    file = Path(path) / _FINGERPRINT_FILE
    if not in_object_store(root) and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps(identity.fingerprint).encode())
    return path


def _read_fingerprint(file: Path) -> dict[str, str]:
    try:
        fingerprint: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise UserFacingError(
            f"{file} is damaged, so the options of its checkpoint are unknown: delete the folder "
            f"{file.parent}, or choose another --checkpoint-root, to start from the beginning."
        ) from None
    return fingerprint


def _compare(stored: dict[str, str], now: dict[str, str], path: str) -> None:
    changes = [
        f"{name} was {stored.get(name)} and is now {value}"
        for name, value in now.items()
        if stored.get(name) != value
    ]
    if changes:
        raise UserFacingError(
            f"the checkpoint {path} was started with other options ({'; '.join(changes)}): "
            "use those, or choose another --checkpoint-root to start from the beginning."
        )
