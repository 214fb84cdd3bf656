"""Record when drivers started and when their jobs were ready: from there on delays are measured.

The status file of a driver ends with it. This one stays, a small file for each start, and only
those of the newest starts are kept.
"""

from pathlib import Path

import msgspec

from events.cli import UserFacingError
from events.driver_status import PROGRAM
from events.files import replace_file
from events.status_file import own_file, status_folder
from events.times import to_ms

MAX_STARTS = 1000
"""Files of older starts are removed: a driver that fails at once is started again for ever."""


class DriverStart(msgspec.Struct, kw_only=True):
    """A start of a driver; `ready_times` has each of its jobs that alert.

    A job is ready when its first batch with records has ended: only with records does it start its
    Python workers and load its code. None: that has not happened, or it runs in Real-time Mode,
    whose batches end after minutes.
    """

    topic_prefix: str
    started_time: str
    ready_times: dict[str, str | None]


def write_start(home: Path, start: DriverStart) -> None:
    """Write or replace the file of this process's start, and remove those of the oldest starts.

    Raises `OSError` when that cannot be done.
    """
    folder = _folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{to_ms(start.started_time):013d}-{own_file(home, PROGRAM).name}"
    replace_file(folder / name, msgspec.json.encode(start))
    for old in sorted(folder.glob("*.json"))[:-MAX_STARTS]:
        old.unlink(missing_ok=True)  # another driver may do the same


def read_starts(home: Path, topic_prefix: str) -> list[DriverStart]:
    """Return the known starts of all drivers of these topics, the first one first.

    Raises `UserFacingError` when a file cannot be read.
    """
    starts = []
    for file in sorted(_folder(home).glob("*.json")):
        try:
            starts.append(msgspec.json.decode(file.read_bytes(), type=DriverStart))
        except FileNotFoundError:
            continue  # a driver has just removed it
        except (OSError, msgspec.DecodeError) as error:
            raise UserFacingError(
                f"the file of a driver's start {file} cannot be read ({error}): delete it."
            ) from None
    return [start for start in starts if start.topic_prefix == topic_prefix]


def _folder(home: Path) -> Path:
    return status_folder(home) / "starts"
