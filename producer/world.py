"""What is there to be measured? Sites, racks and their device types, made once from a seed.

Faker names what is few (the sites and where they lie); what is many (up to a million racks) is drawn with
numpy.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from faker import Faker
from numpy.typing import NDArray

from events.records import InventoryRack
from producer.hashing import Floats, Ints, uniform

MAX_RACKS = 1_000_000
RACKS_IN_A_ROW = 10
"""Racks of a row stand side by side and share its air: their temperatures move together."""

DEVICE_TYPES = {"gpu-server": 95.0, "compute-server": 85.0, "storage-array": 75.0, "network-switch": 90.0}
"""Device types and the temperature in °C at which a rack of them is usually too hot."""


@dataclass(frozen=True, slots=True)
class Site:
    """One place with racks. Its longitude in degrees tells when it is noon there."""

    site_id: str
    longitude: float


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """All sites and racks. Arrays have one entry per rack, by its index; temperatures in hundredths of °C."""

    seed: int
    sites: tuple[Site, ...]
    device_types: tuple[str, ...]
    rack_ids: list[str]
    site: Ints
    row: Ints
    device: Ints
    threshold: Ints
    usual: Ints

    def inventory(self, readings_per_second: float) -> Iterator[InventoryRack]:
        """Return the racks as the inventory lists them, each with how many readings it sends in a second."""
        for index in range(len(self.rack_ids)):
            yield self.rack(index, readings_per_second)

    def rack(self, index: int, readings_per_second: float) -> InventoryRack:
        """Return one rack as the inventory lists it, with how many readings it sends in a second."""
        return InventoryRack(
            rack_id=self.rack_ids[index],
            site_id=self.sites[self.site[index]].site_id,
            device_type=self.device_types[self.device[index]],
            threshold_c=float(self.threshold[index]) / 100,
            readings_per_second=readings_per_second,
        )


def make_world(seed: int, racks: int, sites: int | None = None) -> World:
    """Make the world of a seed: racks in rows of ten, by default one site per ten racks, at most eight."""
    site_count = sites or min(8, max(1, racks // RACKS_IN_A_ROW))
    site_count = min(site_count, racks)
    index = np.arange(racks, dtype=np.int64)
    site: Ints = index * site_count // racks
    first_of_site: Ints = -(-site * racks // site_count)
    # A row never reaches into another site: rows are counted from the site's first rack.
    row: Ints = site * (racks // site_count // RACKS_IN_A_ROW + 2) + (index - first_of_site) // RACKS_IN_A_ROW
    device = (uniform(seed, "device of a row", row) * len(DEVICE_TYPES)).astype(np.int64)
    threshold = _hundredths(np.array(list(DEVICE_TYPES.values())))[device]
    threshold = threshold + ((uniform(seed, "threshold", index) * 3).astype(np.int64) - 1) * 250
    usual = threshold - _hundredths(14 + 10 * uniform(seed, "margin", index))
    return World(
        seed=seed,
        sites=tuple(_sites(seed, site_count)),
        device_types=tuple(DEVICE_TYPES),
        rack_ids=[f"rack-{number:04d}" for number in range(1, racks + 1)],
        site=site,
        row=row,
        device=device,
        threshold=threshold,
        usual=usual,
    )


def _sites(seed: int, count: int) -> Iterator[Site]:
    fake = Faker("en_US")
    fake.seed_instance(seed)
    names: set[str] = set()
    while len(names) < count:
        name = "site-" + "-".join("".join(c if c.isalnum() else " " for c in fake.city().lower()).split())
        longitude = float(fake.longitude())
        if name not in names:
            names.add(name)
            yield Site(name, longitude)


def _hundredths(celsius: NDArray[np.float64] | Floats) -> Ints:
    return np.rint(celsius * 100).astype(np.int64)
