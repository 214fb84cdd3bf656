"""Make users, ads, pages and devices of the clickstream once from a seed with Faker."""

from collections.abc import Callable
from dataclasses import dataclass

from faker import Faker

NAMES, ADS, PAGES = 200, 100, 60
CHECKOUT = "/checkout"
"""The page of every purchase."""


@dataclass(frozen=True, slots=True)
class ClickstreamEntities:
    """The texts that clickstream events choose from; a user is a name and a number."""

    names: tuple[str, ...]
    ads: tuple[str, ...]
    pages: tuple[str, ...]
    devices: tuple[str, ...] = ("phone", "laptop", "tablet", "tv")

    def user_id(self, number: int) -> str:
        """Return the id of a user, such as `maria-4711`."""
        return f"{self.names[number % len(self.names)]}-{number}"


def make_clickstream_entities(seed: int) -> ClickstreamEntities:
    """Make the entities of a seed; the last page is the checkout."""
    fake = Faker("en_US")
    fake.seed_instance(seed)
    return ClickstreamEntities(
        names=_distinct(NAMES, lambda: _slug(fake.first_name())),
        ads=_distinct(ADS, lambda: f"ad-{_slug(fake.catch_phrase())}"),
        pages=(*_distinct(PAGES, lambda: f"/{fake.uri_path()}"), CHECKOUT),
    )


def _distinct(count: int, make: Callable[[], str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[make()] = None
    return tuple(found)


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())
