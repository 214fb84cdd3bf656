"""Read what a point's programs leave: the producer's summary and truth, Spark's progress."""

from pathlib import Path
from typing import Any

import msgspec

from events.cli import UserFacingError

Row = dict[str, Any]


def summary(log: Path) -> Row:
    """Return the producer's summary: the last JSON object of its output."""
    lines = [line for line in log.read_bytes().splitlines() if line.startswith(b"{")]
    if not lines:
        raise UserFacingError(f"the producer printed no summary: see {log}.")
    return _row(lines[-1])


def truth(path: Path) -> dict[str, list[Row]]:
    """Return the rows of a truth file by kind."""
    found: dict[str, list[Row]] = {}
    with path.open("rb") as file:
        for line in file:
            row = _row(line)
            found.setdefault(row["kind"], []).append(row)
    return found


def progress(path: Path) -> dict[str, list[Row]]:
    """Return Spark's progress by query, up to the last complete line."""
    found: dict[str, list[Row]] = {}
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
        row = _row(line)
        found.setdefault(row["name"], []).append(row)
    return found


def _row(line: bytes) -> Row:
    return msgspec.json.decode(line, type=Row)
