"""Make sites, racks and their device types once from a seed.

Faker names the few sites; the up to a million racks are drawn with numpy.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from faker import Faker
from numpy.typing import NDArray

from events.records import InventoryRack
from producer.hashing import Floats, Ints, uniform

MAX_RACKS = 1_000_000
RACKS_PER_ROW = 10
"""The racks of a row stand side by side and share its air: their temperatures move together."""

DEVICE_TYPES = {
    "gpu-server": 95.0,
    "compute-server": 85.0,
    "storage-array": 75.0,
    "network-switch": 90.0,
}
"""Device types, each with the typical threshold of its racks in °C."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place with racks; its longitude in degrees determines its local noon."""

    site_id: str
    longitude: float


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """All sites and racks.

    The arrays have one entry per rack, by its index. Temperatures are in hundredths of °C.
    """

    seed: int
    sites: tuple[Site, ...]
    device_types: tuple[str, ...]
    rack_ids: list[str]
    site: Ints
    row: Ints
    device: Ints
    threshold: Ints
    base_temperature: Ints

    def inventory(self, readings_per_second: float) -> Iterator[InventoryRack]:
        """Yield the racks as inventory lines; each sends `readings_per_second`."""
        for index in range(len(self.rack_ids)):
            yield self.rack(index, readings_per_second)

    def rack(self, index: int, readings_per_second: float) -> InventoryRack:
        """Return one rack as an inventory line that sends `readings_per_second`."""
        return InventoryRack(
            rack_id=self.rack_ids[index],
            site_id=self.sites[self.site[index]].site_id,
            device_type=self.device_types[self.device[index]],
            threshold_c=float(self.threshold[index]) / 100,
            readings_per_second=readings_per_second,
        )


def make_world(seed: int, racks: int, sites: int | None = None) -> World:
    """Make the world of a seed: rows of ten racks, by default one site per ten racks, at most 8."""
    site_count = sites or min(8, max(1, racks // RACKS_PER_ROW))
    site_count = min(site_count, racks)
    index = np.arange(racks, dtype=np.int64)
    site: Ints = index * site_count // racks
    first_of_site: Ints = -(-site * racks // site_count)
    # A row never reaches into another site: rows are counted from the site's first rack.
    row: Ints = (
        site * (racks // site_count // RACKS_PER_ROW + 2) + (index - first_of_site) // RACKS_PER_ROW
    )
    device = (uniform(seed, "device of a row", row) * len(DEVICE_TYPES)).astype(np.int64)
    threshold = _hundredths(np.array(list(DEVICE_TYPES.values())))[device]
    threshold = threshold + ((uniform(seed, "threshold", index) * 3).astype(np.int64) - 1) * 250
    base_temperature = threshold - _hundredths(14 + 10 * uniform(seed, "margin", index))
    return World(
        seed=seed,
        sites=tuple(_sites(seed, site_count)),
        device_types=tuple(DEVICE_TYPES),
        rack_ids=[f"rack-{number:04d}" for number in range(1, racks + 1)],
        site=site,
        row=row,
        device=device,
        threshold=threshold,
        base_temperature=base_temperature,
    )


def _sites(seed: int, count: int) -> Iterator[Site]:
    fake = Faker("en_US")
    fake.seed_instance(seed)
    names: set[str] = set()
    while len(names) < count:
        name = "site-" + "-".join(
            "".join(c if c.isalnum() else " " for c in fake.city().lower()).split()
        )
        longitude = float(fake.longitude())
        if name not in names:
            names.add(name)
            yield Site(name, longitude)


def _hundredths(celsius: NDArray[np.float64] | Floats) -> Ints:
    return np.rint(celsius * 100).astype(np.int64)
