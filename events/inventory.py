"""The inventory: a file of JSON lines, one rack each, with the threshold at which the rack is too hot."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from events.cli import PersonError
from events.records import InventoryRack, encode

DEFAULT_THRESHOLD_C = 100.0
"""The threshold of every rack that the inventory does not name."""


def read_inventory(path: Path) -> list[InventoryRack]:
    """Read the racks; raise `PersonError` naming the line that is wrong or that repeats a rack."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise PersonError(
            f"the inventory {path} cannot be read ({error.strerror}): check --inventory."
        ) from None
    racks: dict[str, InventoryRack] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rack = msgspec.json.decode(line, type=InventoryRack)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PersonError(f"line {number} of the inventory {path} is wrong: {error}.") from None
        if rack.rack_id in racks:
            raise PersonError(f"line {number} of the inventory {path} repeats the rack {rack.rack_id!r}.")
        racks[rack.rack_id] = rack
    return list(racks.values())


def write_inventory(path: Path, racks: Iterable[InventoryRack]) -> None:
    """Write the racks, one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encode(rack) + b"\n" for rack in racks))
