"""Read and write the inventory, a file of JSON lines: one rack per line, with its threshold."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from events.cli import UserFacingError
from events.constants import FLEET_SCOPE
from events.files import replace_file, writing
from events.ids import long_id
from events.records import MAX_ID_BYTES, InventoryRack, encode


def read_inventory(path: Path) -> list[InventoryRack]:
    """Read the racks.

    Raises `UserFacingError` with the first line that is wrong, repeats a rack, or names one as the
    scope of all racks.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserFacingError(
            f"the inventory {path} cannot be read ({error.strerror}): check --inventory."
        ) from None
    racks: dict[str, InventoryRack] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rack = msgspec.json.decode(line, type=InventoryRack)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserFacingError(
                f"line {number} of the inventory {path} is wrong: {error}."
            ) from None
        if name := long_id(rack):
            raise UserFacingError(
                f"line {number} of the inventory {path} is wrong: {name} is longer than "
                f"{MAX_ID_BYTES} bytes, so no reading could have it."
            )
        if rack.rack_id in racks:
            raise UserFacingError(
                f"line {number} of the inventory {path} repeats the rack {rack.rack_id!r}."
            )
        if rack.rack_id == FLEET_SCOPE:
            raise UserFacingError(
                f"line {number} of the inventory {path} has a rack {FLEET_SCOPE!r}: in the topic "
                "rack-temperature this is the scope of all racks. Give the rack another id."
            )
        racks[rack.rack_id] = rack
    return list(racks.values())


def write_inventory(path: Path, racks: Iterable[InventoryRack]) -> None:
    """Write the racks, one JSON object per line; raise `UserFacingError` when that fails."""
    lines = b"".join(encode(rack) + b"\n" for rack in racks)
    advice = "correct --inventory, its folder's owner, or make room on its disk"
    with writing(f"the inventory {path}", advice):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lines)  # a job that starts meanwhile reads the old racks or the new
