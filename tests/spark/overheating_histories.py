"""Generate histories and rules for `rack-overheating`, and state the contract in its own words.

Histories have readings that are more than 32 late, up to three copies of each, ties in `sequence`,
gaps and clocks that jump.
"""

from hypothesis import strategies as st

from events.records import RackReading
from events.rules import Overheating
from tests.builders import reading

Change = tuple[str, str | None, list[str]]
"""Id of the deciding reading, severity (None for `NORMAL`), and the ids of the evidence."""

HOT, AT, WARM, COLD = 104.5, 100.0, 95.0, 70.0
"""Temperatures for a threshold of 100 °C."""


_SPELLS = ([HOT, HOT, HOT, HOT + 1, AT, WARM, COLD], [HOT, HOT + 1, AT], [WARM], [COLD])


@st.composite
def histories(
    draw: st.DrawFn, rack: str = "rack-0001", max_readings: int = 120
) -> list[RackReading]:
    """Return one rack's readings in the order of a topic."""
    random = draw(st.randoms(use_true_random=False))
    sequence, at_s, spell, end_of_spell = 0, 0, _SPELLS[0], 0
    # With many late readings, or with few, so that a state is old when one comes.
    late, lateness = draw(st.sampled_from([0.05, 0.4])), [2, 5, 25, 70]
    sent = []
    for number in range(draw(st.integers(1, max_readings))):
        sequence += random.choice([0, 1, 1, 1, 1, 50])
        at_s += random.choice([1, 1, 1, 1, 20, -30])
        if number == end_of_spell:
            spell, end_of_spell = random.choice(_SPELLS), number + random.choice([4, 10, 40])
        celsius = random.choice(spell)
        event_id = f"{random.randrange(10)}-{number}"
        measured = reading(sequence, celsius, rack, event_id=event_id, at_s=at_s)
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            delay = random.choice(lateness) if random.random() < late else 0
            sent.append((number + delay, measured))
    return [one for _, one in sorted(sent, key=lambda one: one[0])]


@st.composite
def rules(draw: st.DrawFn) -> Overheating:
    """Return a rule with any options."""
    return Overheating(
        count=draw(st.integers(1, 8)),
        threshold_c=draw(st.sampled_from([None, AT, HOT])),
        severity=draw(st.sampled_from([None, "critical", "warning"])),
        within_s=draw(st.sampled_from([None, None, 1.0, 5.0])),
        clear_below_c=draw(st.sampled_from([None, AT, WARM, WARM])),
        rising=draw(st.sampled_from([None, None, 1, 2])),
        critical_after_s=draw(st.sampled_from([None, None, 5.0, 60.0])),
    )


def changes_by_the_contract(history: list[RackReading]) -> list[Change]:
    """Return the changes of state: the last three of all distinct readings so far are hot."""
    distinct: dict[str, RackReading] = {}
    changes: list[Change] = []
    before = False
    for taken in history:
        distinct.setdefault(taken.event_id, taken)
        last = sorted(distinct.values(), key=lambda one: (one.sequence, one.event_id))[-3:]
        warning = len(last) == 3 and all(one.temperature_c >= AT for one in last)
        if warning != before:
            evidence = [one.event_id for one in last]
            changes.append((taken.event_id, "error" if warning else None, evidence))
        before = warning
    return changes
