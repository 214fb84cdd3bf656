"""Apply the overheating rule to one rack's readings, without Spark (`docs/rules.md`).

Readings are taken in the topic's order and kept in the order of `sequence`. A late reading is
inserted at its place, and the rule is applied again to every reading that is kept.

A rule without memory keeps the last `count` readings, from which its state follows. A rule with
memory (hysteresis, a time bound, escalation) keeps 32, and its state before the first of them. A
rack that moves from such a rule to one without memory keeps its state until that follows from its
readings.
"""

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from spark_jobs.rules.overheating.limits import Limits

CRITICAL = "critical"


class Reading(NamedTuple):
    """A reading as the rule sees it, ordered by `sequence`, then `event_id`.

    `event_time` is in epoch microseconds. `hot` is by the threshold under which it was taken.
    """

    sequence: int
    event_id: str
    event_time: int
    temperature_c: float
    hot: bool


class RuleState(Struct, forbid_unknown_fields=True):
    """The rule's state after some readings in the order of `sequence`."""

    severity: str | None = None
    """That of the `WARNING`; None in `NORMAL`."""
    opened: int = 0
    """Event time of the reading that opened the `WARNING`."""
    rises: int | None = None
    """How many readings since then were each higher than the one before.

    It is None once a reading was not higher.
    """
    last_c: float = 0.0
    hot: list[int] = field(default_factory=list)
    """Event times of the consecutive hot readings up to the last, at most `Limits.count`."""

    def apply(self, reading: Reading, limits: Limits) -> None:
        """Update the state with the next reading."""
        self.hot = [*self.hot, reading.event_time][-limits.count :] if reading.hot else []
        if self.severity is None:
            if len(self.hot) == limits.count and (
                limits.within_us is None or self.hot[-1] - self.hot[0] <= limits.within_us
            ):
                self.severity, self.opened, self.rises = limits.severity, reading.event_time, 0
        elif (
            not reading.hot
            if limits.clear_below_c is None
            else reading.temperature_c < limits.clear_below_c
        ):
            self.severity = None
        else:
            self._escalate(reading, limits)
        self.last_c = reading.temperature_c

    def _escalate(self, reading: Reading, limits: Limits) -> None:
        if self.rises is not None:
            self.rises = self.rises + 1 if reading.temperature_c > self.last_c else None
        has_risen = (
            limits.rising is not None and self.rises is not None and self.rises >= limits.rising
        )
        has_lasted = (
            limits.critical_after_us is not None
            and reading.event_time - self.opened > limits.critical_after_us
        )
        if has_risen or has_lasted:
            self.severity = CRITICAL


class Memory(Struct, forbid_unknown_fields=True):
    """The state of a rule with memory before and after the readings that are kept."""

    before: RuleState
    after: RuleState


class RackHistory:
    """One rack's last distinct readings by `sequence`, and the rule's state after them."""

    def __init__(
        self, limits: Limits, readings: Iterable[Reading] = (), memory: Memory | None = None
    ) -> None:
        self._has_memory, self._size = limits.has_memory, limits.history_size
        # There may be more, from another rule that the inventory gave the rack before.
        self.limits, self.readings = limits, list(readings)[-self._size :]
        self._moved = memory is not None and not self._has_memory
        if memory and self._has_memory:
            self._before, self._after = memory.before, memory.after
        else:
            self._before = RuleState()
            self._after = self._replay()
            if memory:
                self._after.severity = memory.after.severity

    @property
    def severity(self) -> str | None:
        """The severity of the rack's `WARNING`, or None in `NORMAL`."""
        return self._after.severity

    @property
    def memory(self) -> Memory | None:
        """What to keep besides the readings; None if the state follows from them."""
        if not self._has_memory:
            # A reading may have to end what a rule with memory began.
            unfinished = self._moved and self._after.severity != self._replay().severity
            return Memory(self._before, self._after) if unfinished else None
        if not (self._before.severity or self._before.hot or self._after.severity):
            return None
        return Memory(self._before, self._after)

    @property
    def evidence(self) -> list[Reading]:
        """The readings that decide the state."""
        return self.readings[-self.limits.count :]

    def add(self, reading: Reading) -> bool:
        """Take the next reading of the topic; return whether it changed state or severity."""
        readings, position, event_id = self.readings, reading[:2], reading.event_id
        is_latest = not readings or position > readings[-1][:2]
        if not is_latest and len(readings) == self._size and position < readings[0][:2]:
            return False
        for other in readings:
            if other.event_id == event_id:
                return False
        severity = self._after.severity
        if is_latest:
            readings.append(reading)
            self._after.apply(reading, self.limits)
        else:
            insort(readings, reading)
            self._after = self._replay()
        if len(readings) > self._size:
            oldest = readings.pop(0)
            if self._has_memory:
                self._before.apply(oldest, self.limits)
        return self._after.severity != severity

    def _replay(self) -> RuleState:
        state = replace(self._before)
        for reading in self.readings:
            state.apply(reading, self.limits)
        return state
