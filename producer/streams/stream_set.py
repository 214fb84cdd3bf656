"""Draw the streams of a run together; they share its rate.

Of 25 events, 10 are readings, 10 impressions, 1 a click and 4 user actions. A run with fewer
streams keeps the ratios of those that it has.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from producer.faults import AnyFault
from producer.pacing.schedule import Schedule
from producer.streams.actions import ActionPlan
from producer.streams.clicks import IMPRESSIONS_PER_CLICK, ClickPlan, ImpressionPlan
from producer.streams.reading_plan import ReadingPlan
from producer.streams.stream_plan import Batch, StreamPlan, chunk_edges, run_name
from producer.world.clickstream_entities import make_clickstream_entities
from producer.world.racks import World

Stream = Literal["racks", "clicks", "actions"]
STREAM_PLANS: dict[Stream, dict[type[StreamPlan], int]] = {
    "racks": {ReadingPlan: 10},
    "clicks": {ImpressionPlan: IMPRESSIONS_PER_CLICK, ClickPlan: 1},
    "actions": {ActionPlan: 4},
}
"""The plans of each stream, one per topic, with their weights in the rate."""
CLICKSTREAM_PER_SECOND = 20.0
"""Events in a second of event time of an unpaced run without racks."""


class StreamSet:
    """The plans of a run's streams, to be drawn together."""

    def __init__(
        self, names: Sequence[Stream], world: World, schedule: Schedule, faults: Sequence[AnyFault]
    ) -> None:
        self._kinds = plan_types(names)
        self._world = world
        self._faults = faults
        self._reading_plan = (
            ReadingPlan(world, schedule, faults, first_sequence=1)
            if ReadingPlan in self._kinds
            else None
        )
        self._entities = (
            None if list(self._kinds) == [ReadingPlan] else make_clickstream_entities(world.seed)
        )
        self.restart(schedule, first_sequence=1)

    def restart(self, schedule: Schedule, first_sequence: int) -> None:
        """Make the plans for another start."""
        seed, faults, entities = self._world.seed, self._faults, self._entities
        self.schedule = schedule
        self.run_id = run_name(
            seed, len(self._world.rack_ids), schedule.start_event_ms, first_sequence
        )
        self.plans: list[StreamPlan] = []
        parts = dict(
            zip(self._kinds, split_schedule(schedule, list(self._kinds.values())), strict=True)
        )
        if self._reading_plan:
            self.plans.append(self._reading_plan.with_start(parts[ReadingPlan], first_sequence))
        if entities and ClickPlan in parts:
            shown = ImpressionPlan(seed, entities, parts[ImpressionPlan], faults, self.run_id)
            self.plans += [shown, ClickPlan(seed, shown, parts[ClickPlan], faults)]
        if entities and ActionPlan in parts:
            self.plans.append(ActionPlan(seed, entities, parts[ActionPlan], faults, self.run_id))

    def rounds(self) -> Iterator[tuple[Batch, ...]]:
        """Draw the records a chunk at a time: a round has one batch per topic for the same time."""
        return zip(*(plan.batches(self._edges(plan)) for plan in self.plans), strict=True)

    def _edges(self, plan: StreamPlan) -> Iterator[int]:
        """Yield the plan's first number that is due at or after each edge of the whole schedule."""
        weight, whole = self._kinds[type(plan)], sum(self._kinds.values())
        count = plan.schedule.count
        for edge in chunk_edges(self.schedule):
            if edge == self.schedule.count:
                yield count or 0
            else:
                number = -(-edge * weight // whole)
                yield number if count is None else min(number, count)


def plan_types(names: Sequence[Stream]) -> dict[type[StreamPlan], int]:
    """Return the plans of these streams in the order of sending, with their weights in the rate."""
    return {
        kind: weight
        for name, kinds in STREAM_PLANS.items()
        if name in names
        for kind, weight in kinds.items()
    }


def split_schedule(schedule: Schedule, weights: Sequence[int]) -> list[Schedule]:
    """Return the schedule of each topic; the first one takes the remainder of the count."""
    whole = sum(weights)
    counts: list[int | None] = [None] * len(weights)
    if schedule.count is not None:
        others = [schedule.count * weight // whole for weight in weights[1:]]
        counts = [schedule.count - sum(others), *others]
    return [
        schedule.part(weight / whole, count) for weight, count in zip(weights, counts, strict=True)
    ]


def readings_per_second(
    names: Sequence[Stream], rate: float | None, racks: int, time_scale: float
) -> float:
    """Return how many readings each rack sends in a second of event time; `rate` None is max."""
    kinds = plan_types(names)
    if ReadingPlan not in kinds:
        return 0.0
    rate = clock_rate(names, racks) if rate is None else rate
    # The arithmetic of `Schedule`, step by step, so that the truth's rate is the same float.
    return rate * (kinds[ReadingPlan] / sum(kinds.values())) / time_scale / racks


def clock_rate(names: Sequence[Stream], racks: int) -> float:
    """Return how many events of an unpaced run make a second of event time."""
    kinds = plan_types(names)
    return (
        racks * sum(kinds.values()) / kinds[ReadingPlan]
        if ReadingPlan in kinds
        else CLICKSTREAM_PER_SECOND
    )
