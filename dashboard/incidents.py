"""Keep the incidents that alerting publishes, open and resolved, and note which were removed."""

from collections import deque
from collections.abc import Iterable

import msgspec

from dashboard.racks import Racks
from dashboard.received import Received, RecordReader
from events.catalog import SITE_OUTAGE
from events.records import Incident

MAX_INCIDENTS = 5_000
MAX_LEFT_OUT = 5_000
"""How many incidents that are left out are counted."""
MAX_REMOVED = 1_000
"""Removed incidents that are remembered; a browser that is further behind gets a snapshot."""
MAX_TEXT = 500
"""How many characters are kept of an incident's texts."""

IncidentKey = tuple[str, str]
"""An incident's rule and subject."""


class Incidents:
    """The newest record of each incident; open ones put their rack in WARNING."""

    def __init__(self, racks: Racks, reader: RecordReader) -> None:
        self._racks, self._reader = racks, reader
        self._open: dict[IncidentKey, tuple[int, Incident]] = {}
        self._resolved: dict[IncidentKey, tuple[int, Incident]] = {}
        self._left_out: set[int] = set()
        self._removed = deque[tuple[int, IncidentKey]](maxlen=MAX_REMOVED)
        self.forgotten_version = 0
        """Removals up to this version are forgotten."""

    def apply(self, records: Iterable[Received], version: int) -> None:
        """Take records of the topic; incidents that they change get the version."""
        for record in records:
            if record.value is None:
                rule, _, subject = (record.key or b"").decode("utf-8", "replace").partition("|")
                self._remove((rule, subject), version)
                continue
            for incident in self._reader.decoded([record], _INCIDENT):
                key = (incident.rule, incident.subject)
                is_open = incident.status != "resolved"
                self._pop(key)
                incidents = self._open if is_open else self._resolved
                incidents[key] = (version, _with_short_texts(incident))
                self._set_rule(key, version, is_open=is_open)
                if len(self._open) + len(self._resolved) > MAX_INCIDENTS:
                    self._evict(version)

    def _set_rule(self, key: IncidentKey, version: int, *, is_open: bool) -> None:
        rule, subject = key
        if rule != SITE_OUTAGE:  # whose subject is a site, and a rack may have the same id
            self._racks.set_rule(subject, rule, is_open=is_open, version=version)

    def _pop(self, key: IncidentKey) -> bool:
        self._left_out.discard(hash(key))
        found = self._open.pop(key, None) or self._resolved.pop(key, None)
        return found is not None

    def _remove(self, key: IncidentKey, version: int) -> None:
        if self._pop(key):
            self._note_removal(key, version)
        self._set_rule(key, version, is_open=False)

    def _evict(self, version: int) -> None:
        """Leave out the incident that changed longest ago, a resolved one if there is any.

        An open one still keeps its rack in WARNING, unless the rack is unknown: they are bounded.
        """
        incidents = self._resolved or self._open
        key = next(iter(incidents))
        del incidents[key]
        self._note_removal(key, version)
        if key[1] not in self._racks:
            self._set_rule(key, version, is_open=False)
        if len(self._left_out) < MAX_LEFT_OUT:
            self._left_out.add(hash(key))

    def _note_removal(self, key: IncidentKey, version: int) -> None:
        if len(self._removed) == MAX_REMOVED:
            self.forgotten_version = self._removed[0][0]
        self._removed.append((version, key))

    def changed_since(self, version: int) -> list[Incident]:
        """Return the incidents that changed after a version."""
        return [
            incident
            for changed, incident in (*self._open.values(), *self._resolved.values())
            if changed > version
        ]

    def removed_since(self, version: int) -> list[IncidentKey]:
        """Return the incidents that were removed after a version, and did not come again."""
        return [key for changed, key in self._removed if changed > version and key not in self]

    @property
    def left_out(self) -> int:
        """How many incidents there are beyond those that are kept."""
        return len(self._left_out)

    def __contains__(self, key: object) -> bool:
        return key in self._open or key in self._resolved


def _with_short_texts(incident: Incident) -> Incident:
    by = incident.acknowledged_by
    return msgspec.structs.replace(
        incident,
        summary=incident.summary[:MAX_TEXT],
        acknowledged_by=None if by is None else by[:MAX_TEXT],
    )


_INCIDENT = msgspec.json.Decoder(Incident)
