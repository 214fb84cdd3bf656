"""Track the versions of the parts of the state that are sent as a whole."""

from collections.abc import Iterable, Iterator

SECTION_INTERVAL_MS = 1_000
"""The least time between two versions of a section."""


class _Section:
    __slots__ = ("is_dirty", "published_ms", "version")

    def __init__(self) -> None:
        self.version, self.is_dirty = 1, False
        self.published_ms: int | None = None


class Sections:
    """Sections by name; a change is given a version when the section's last one is old enough."""

    def __init__(self, names: Iterable[str]) -> None:
        self._sections = {name: _Section() for name in names}

    def mark(self, name: str) -> None:
        """Note that a section has changed."""
        self._sections[name].is_dirty = True

    def publish(self, version: int, at_ms: int) -> int:
        """Give each section that is due a version of its own; return the newest version.

        `at_ms` is of a clock that never steps back.
        """
        for section in self._sections.values():
            last_ms = section.published_ms
            is_due = last_ms is None or at_ms - last_ms >= SECTION_INTERVAL_MS
            if section.is_dirty and is_due:
                version += 1
                section.version, section.is_dirty = version, False
                section.published_ms = at_ms
        return version

    def changed_since(self, version: int) -> Iterator[str]:
        """Yield the names of the sections that got a version after this one."""
        for name, section in self._sections.items():
            if section.version > version:
                yield name
