"""Which streams can a run have, and how do they share its rate? One plan for each topic, drawn side by side.

Of 25 events, 10 are readings, 10 impressions, 1 a click and 4 user actions; a run with fewer streams keeps the
ratios of those that it has. With readings alone every event is one, and nothing else is drawn.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from producer.actions import ActionPlan
from producer.audience import make_audience
from producer.clicks import IMPRESSIONS_PER_CLICK, ClickPlan, ImpressionPlan
from producer.faults import AnyFault
from producer.plan import Plan
from producer.schedule import Schedule
from producer.stream import Batch, StreamPlan, run_name, stretches
from producer.world import World

Stream = Literal["racks", "clicks", "actions"]
TOPICS: dict[Stream, dict[type[StreamPlan], int]] = {
    "racks": {Plan: 10},
    "clicks": {ImpressionPlan: IMPRESSIONS_PER_CLICK, ClickPlan: 1},
    "actions": {ActionPlan: 4},
}
"""The plans of each stream, one for each topic, and how they share the rate."""
CLICKSTREAM_PER_SECOND = 20.0
"""Events in a second of event time where neither a rate nor racks, with a reading a second each, tell."""


class Streams:
    """The plans of a run's streams, to be drawn together."""

    def __init__(
        self, names: Sequence[Stream], world: World, schedule: Schedule, faults: Sequence[AnyFault]
    ) -> None:
        self._kinds = plan_types(names)
        self._world = world
        self._faults = faults
        self._racks = Plan(world, schedule, faults, first_sequence=1) if Plan in self._kinds else None
        self._audience = None if list(self._kinds) == [Plan] else make_audience(world.seed)
        self.starting(schedule, first_sequence=1)

    def starting(self, schedule: Schedule, first_sequence: int) -> None:
        """Make the plans for a start at another time."""
        seed, faults, audience = self._world.seed, self._faults, self._audience
        self.schedule = schedule
        self.run_id = run_name(seed, len(self._world.rack_ids), schedule.start_event_ms, first_sequence)
        self.plans: list[StreamPlan] = []
        parts = dict(zip(self._kinds, parts_of(schedule, list(self._kinds.values())), strict=True))
        if self._racks:
            self.plans.append(self._racks.starting(parts[Plan], first_sequence))
        if audience and ClickPlan in parts:
            shown = ImpressionPlan(seed, audience, parts[ImpressionPlan], faults, self.run_id)
            self.plans += [shown, ClickPlan(seed, shown, parts[ClickPlan], faults)]
        if audience and ActionPlan in parts:
            self.plans.append(ActionPlan(seed, audience, parts[ActionPlan], faults, self.run_id))

    @property
    def readings_per_second(self) -> float:
        """How many readings all racks together take in a second of event time."""
        return sum(plan.schedule.per_event_second for plan in self.plans if isinstance(plan, Plan))

    def rounds(self) -> Iterator[tuple[Batch, ...]]:
        """Draw the records, a stretch of the schedule at a time: a batch of each topic for the same time."""
        return zip(*(plan.batches(self._edges(plan)) for plan in self.plans), strict=True)

    def _edges(self, plan: StreamPlan) -> Iterator[int]:
        """Return the first number of the plan that is due at or after each of the whole schedule's edges."""
        weight, whole = self._kinds[type(plan)], sum(self._kinds.values())
        for edge in stretches(self.schedule):
            at_end = edge == self.schedule.count
            yield (plan.schedule.count or 0) if at_end else -(-edge * weight // whole)


def plan_types(names: Sequence[Stream]) -> dict[type[StreamPlan], int]:
    """Return the plans that these streams have, in the order of sending, and how they share the rate."""
    return {kind: weight for name, kinds in TOPICS.items() if name in names for kind, weight in kinds.items()}


def parts_of(schedule: Schedule, weights: Sequence[int]) -> list[Schedule]:
    """Return the schedule of each topic; what cannot be shared out evenly is the first one's."""
    whole = sum(weights)
    counts: list[int | None] = [None] * len(weights)
    if schedule.count is not None:
        others = [schedule.count * weight // whole for weight in weights[1:]]
        counts = [schedule.count - sum(others), *others]
    return [schedule.part(weight / whole, count) for weight, count in zip(weights, counts, strict=True)]


def clock_rate(names: Sequence[Stream], racks: int) -> float:
    """Return how many events there are in a second of event time when the run goes as fast as possible."""
    kinds = plan_types(names)
    return racks * sum(kinds.values()) / kinds[Plan] if Plan in kinds else CLICKSTREAM_PER_SECOND
