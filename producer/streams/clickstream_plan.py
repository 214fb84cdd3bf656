"""Define what the plans of impressions, clicks and actions share: users, and a run's id."""

import zlib
from collections.abc import Sequence

import pyarrow as pa

from producer.faults import AnyFault
from producer.hashing import Ints
from producer.pacing.schedule import Schedule
from producer.streams.encoding import integers, json_text
from producer.streams.stream_plan import StreamPlan
from producer.world.clickstream_entities import ClickstreamEntities


class ClickstreamPlan(StreamPlan):
    """The events of one topic of the clickstream in one run."""

    def __init__(
        self,
        seed: int,
        entities: ClickstreamEntities,
        schedule: Schedule,
        faults: Sequence[AnyFault],
        run_id: str,
    ) -> None:
        # Each stream has its own seed, so that a fault affects different numbers in each.
        super().__init__(zlib.crc32(f"{seed}|{self.topic.name}".encode()), schedule, faults)
        self.entities = entities
        self._run_id = run_id
        self._names = pa.array([json_text(name)[1:-1] + "-" for name in entities.names])

    @property
    def run_id(self) -> str:
        """The prefix of this run's event ids."""
        return self._run_id

    def user_ids(self, users: Ints) -> list[object]:
        """Return the pieces for a user's id, inside quotation marks."""
        return [self._names.take(pa.array(users % len(self.entities.names))), integers(users)]
