"""Write and read status files: what a running program says about itself, once a second.

Each process has one JSON file, `.rackstream/status/PROGRAM-HOST-PID.json`. It is replaced as a
whole, so that a reader never sees half of one. A process that ends in order removes its file; one
that fails leaves it with the cause. What a killed process left is recognised by its age.

Health checks run every few seconds, so this module imports little.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any, Generic, NamedTuple, Self, TypeVar

import msgspec

from events.cli import UserFacingError
from events.files import replace_file
from events.times import now_ms, to_ms, to_text

FOLDER_VARIABLE = "RACKSTREAM_STATUS"
"""Environment variable with another folder for status files, which containers then share."""
FORMAT_VERSION = 1
"""Raise it when a field changes its meaning or is removed; a new field needs no new version."""
WRITE_INTERVAL_S = 1.0
MAX_AGE_S = 10.0
"""A status that is older is no longer true: its process hangs or was killed."""
MAX_BROKER_OUTAGE_S = 30.0
"""Restarts of a broker are shorter."""
FORGOTTEN_AFTER_S = 24 * 3600.0
"""The file of a killed process is kept so long, unless a process with the same task replaces it."""


class BrokerStatus(msgspec.Struct, kw_only=True):
    """Whether the broker at `servers` answers, and since when it does or does not."""

    servers: str
    reachable: bool
    since: str


class ProgramStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every status file holds; a program adds fields in a subclass.

    `error` is why the process ended, as a sentence; None while it runs.
    """

    format_version: int
    program: str
    host: str
    pid: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    topic_prefix: str
    started_time: str
    written_time: str
    broker: BrokerStatus
    error: str | None = None


Status = TypeVar("Status", bound=ProgramStatus)


class Found(NamedTuple, Generic[Status]):
    """The status files that were found: what could be read, and a sentence for each other one."""

    statuses: list[Status]
    unreadable: list[str]

    @property
    def is_empty(self) -> bool:
        """Whether there is no status file, readable or not."""
        return not self.statuses and not self.unreadable


class Process(NamedTuple):
    """What a status says about its own process, besides what changes."""

    program: str
    topic_prefix: str
    started_time: str

    def header(self) -> dict[str, Any]:
        """Return the fields of `ProgramStatus` that are the same in every program."""
        return {
            "format_version": FORMAT_VERSION,
            "program": self.program,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "topic_prefix": self.topic_prefix,
            "started_time": self.started_time,
            "written_time": to_text(now_ms()),
        }


def find_home() -> Path:
    """Return the folder of the setting RACKSTREAM_HOME."""
    # The environment overrides .env. Reading .env loads Pydantic, which takes longer than the rest
    # of a health check.
    if home := os.environ.get("RACKSTREAM_HOME"):
        return Path(home)
    from events import settings

    return settings.load().rackstream_home


def status_folder(home: Path) -> Path:
    """Return the folder of all status files: RACKSTREAM_STATUS, or one below RACKSTREAM_HOME."""
    return Path(os.environ.get(FOLDER_VARIABLE) or home / "status")


def own_file(home: Path, program: str) -> Path:
    """Return the status file of this process."""
    return status_folder(home) / f"{program}-{socket.gethostname()}-{os.getpid()}.json"


def write_status(file: Path, status: ProgramStatus) -> None:
    """Replace a status file; raise `OSError` when it cannot be written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, msgspec.json.format(msgspec.json.encode(status), indent=1) + b"\n")


def read_status(file: Path, kind: type[Status]) -> Status:
    """Return what a status file holds.

    Raises `UserFacingError` when it is damaged, has an impossible time, or is of another format,
    and `FileNotFoundError` when its process has removed it.
    """
    text = file.read_bytes()
    try:
        version = msgspec.json.decode(text, type=_AnyFormat).format_version
        if version == FORMAT_VERSION:
            status = msgspec.json.decode(text, type=kind)
            _check_times(msgspec.to_builtins(status))
            return status
    except (msgspec.DecodeError, ValueError, OverflowError):
        raise UserFacingError(
            f"the status file {file} is cut off or damaged: delete it; "
            "a process that still runs writes it again within a second."
        ) from None
    raise UserFacingError(
        f"the status file {file} has format {version}, and this program reads format "
        f"{FORMAT_VERSION}: use the version of Rackstream that wrote it, or delete the file."
    )


def _check_times(value: object, name: str = "") -> None:
    """Raise `ValueError` or `OverflowError` if a field whose name is that of a time has none."""
    match value:
        case str() if name.endswith(("_time", "since")):
            to_ms(value)
        case dict():
            for key, content in value.items():
                _check_times(content, key)
        case list():
            for content in value:
                _check_times(content)


class _AnyFormat(msgspec.Struct):
    format_version: int


def find_statuses(
    home: Path, program: str, kind: type[Status], *, host: str | None = None
) -> Found[Status]:
    """Return the statuses of a program, of all hosts or of one, the first started first.

    The program `*` is any program.
    """
    found = Found[Status]([], [])
    wanted = f"{program}-{host or '*'}"
    for file in sorted(status_folder(home).glob(f"{wanted}-*.json")):
        # What remains is the process's number, not the rest of the name of another host.
        if not fnmatchcase(file.stem.rpartition("-")[0], wanted):
            continue
        try:
            found.statuses.append(read_status(file, kind))
        except UserFacingError as error:
            found.unreadable.append(str(error))
        except FileNotFoundError:
            continue  # its process has just removed it
        except OSError as error:
            found.unreadable.append(
                f"the status file {file} cannot be read ({error.strerror}): check who owns it."
            )
    found.statuses.sort(key=lambda status: (status.started_time, status.pid))
    return found


def age_s(time: str, at_ms: int) -> float:
    """Return how many seconds ago a time was."""
    return (at_ms - to_ms(time)) / 1000


def has_ended(status: ProgramStatus, at_ms: int) -> bool:
    """Tell whether the process has ended, or hangs."""
    return (
        status.error is not None
        or age_s(status.written_time, at_ms) > MAX_AGE_S
        or (status.host == socket.gethostname() and not _runs(status.pid))
    )


def process_problems(status: ProgramStatus, at_ms: int) -> list[str]:
    """Return what is wrong with a process of any program, as sentences; none when it is healthy."""
    process = f"process {status.pid}"
    written_s = age_s(status.written_time, at_ms)
    if status.error is not None:
        return [f"{process} has ended: {status.error}"]
    if status.host == socket.gethostname() and not _runs(status.pid):
        return [f"{process} was killed, {duration(written_s)} ago: start it again."]
    if written_s > MAX_AGE_S:
        return [
            f"{process} hangs or was killed: its status is {duration(written_s)} old; "
            "start it again."
        ]
    outage_s = age_s(status.broker.since, at_ms)
    if not status.broker.reachable and outage_s > MAX_BROKER_OUTAGE_S:
        return [
            f"the broker at {status.broker.servers} has not answered for {duration(outage_s)}: "
            "see whether it runs."
        ]
    return []


def problems_found(
    found: Found[Status], problems: Callable[[Status, int], list[str]], at_ms: int
) -> list[str]:
    """Return what is wrong with the processes of some status files, as sentences."""
    return [
        *found.unreadable,
        *(sentence for status in found.statuses for sentence in problems(status, at_ms)),
    ]


def require_healthy(sentences: Sequence[str]) -> None:
    """Raise `UserFacingError` with the first sentence, and how many more there are, if any."""
    if sentences:
        more = f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else ""
        raise UserFacingError(f"{sentences[0]}{more}")


def duration(seconds: float) -> str:
    """Return a duration for people: `8 s`, `3 min`, `5 h`, `2 d`."""
    for unit_s, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{max(0.0, seconds):.0f} s"


def remove_superseded(
    home: Path, program: str, kind: type[Status], is_same: Callable[[Status], bool]
) -> None:
    """Remove what ended processes left, where this one takes over their task or a day has passed.

    `is_same` tells whether a status is of a process that had the task of this one.
    """
    at_ms = now_ms()
    for file in status_folder(home).glob(f"{program}-*.json"):
        with suppress(OSError, UserFacingError):
            status = read_status(file, kind)
            forgotten = age_s(status.written_time, at_ms) > FORGOTTEN_AFTER_S
            if has_ended(status, at_ms) and (forgotten or is_same(status)):
                file.unlink()


class StatusWriter:
    """Writes a status file every second, on a thread of its own, until the context ends.

    A process that ends in order removes the file. One that fails leaves it, with the error.
    `snapshot` must not block. `warn` receives one line when the file cannot be written.
    """

    def __init__(
        self, file: Path, snapshot: Callable[[], ProgramStatus], warn: Callable[[str], None]
    ) -> None:
        self._file, self._snapshot, self._warn = file, snapshot, warn
        self._end = Event()
        self._warned = False
        self._thread = Thread(target=self._run, name="status", daemon=True)

    def __enter__(self) -> Self:
        self._write(self._snapshot())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._end.set()
        self._thread.join()
        if kind is not None and issubclass(kind, Exception):
            status = self._snapshot()
            status.error = str(error) or kind.__name__
            self._write(status)
        else:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._end.wait(WRITE_INTERVAL_S):
            self._write(self._snapshot())

    def _write(self, status: ProgramStatus) -> None:
        try:
            write_status(self._file, status)
        except OSError as error:
            if not self._warned:
                self._warn(f"the status file {self._file} cannot be written: {error}")
            self._warned = True
        else:
            self._warned = False


def _runs(pid: int) -> bool:
    """Tell whether a process of this host runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
