"""What a point's programs left in files: the producer's summary and truth, Spark's progress."""

from pathlib import Path
from typing import Any

import msgspec

from events.cli import PersonError

Row = dict[str, Any]


def summary(log: Path) -> Row:
    """Return what the producer says at its end: the last JSON object of its output."""
    lines = [line for line in log.read_bytes().splitlines() if line.startswith(b"{")]
    if not lines:
        raise PersonError(f"the producer left no summary: see {log}.")
    return _row(lines[-1])


def truth(path: Path) -> dict[str, list[Row]]:
    """Return the lines of a truth file by kind."""
    found: dict[str, list[Row]] = {}
    with path.open("rb") as file:
        for line in file:
            row = _row(line)
            found.setdefault(row["kind"], []).append(row)
    return found


def progress(path: Path) -> dict[str, list[Row]]:
    """Return Spark's progress by query, as far as it is written to the end of a line."""
    found: dict[str, list[Row]] = {}
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
        row = _row(line)
        found.setdefault(row["name"], []).append(row)
    return found


def _row(line: bytes) -> Row:
    return msgspec.json.decode(line, type=Row)
