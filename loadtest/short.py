"""Make short forms of plans: the same programs with a small load, to show that a plan runs.

They measure nothing: the jobs are not warm, and the limits allow any speed.
"""

from typing import Any

from msgspec.structs import replace

from loadtest.plan import (
    PER_BATCH,
    CapacityBounds,
    Gates,
    Limits,
    Plan,
    PointSettings,
    Variant,
    variants,
)
from producer.faults import AnyFault, RackFault
from producer.pacing.shape import AnyShape, Burst, Daily
from spark_jobs.runtime.kafka_io import ReadOptions

DESCRIPTION = "Short form, which measures nothing."
"""How the description of a short form begins."""
WARM_UP_S, DURATION_S = 8.0, 16.0
DURATION_WITH_KILLS_S = 180.0
"""Each start of the jobs takes half a minute on a busy machine, and there may be three."""
RATE, COUNT, RACKS = 600.0, 120_000, 5_000
"""The highest rate (events/s), number of events in a catch-up, and number of racks."""
IDLE_S = 30.0
"""The jobs are cold: their first output may come long after the load has ended."""
ANY_SPEED = Gates(schedule_lag_ms=60_000, tail_s=120, min_latencies=0)


def shortened(plan: Plan) -> Plan:
    """Return the plan with small loads, each point once, without goals and limits.

    Moments and lengths of faults and shapes keep their place in the load. A catch-up keeps its
    number of batches, so that kills come between the same ones. A capacity is searched at one rate.
    """
    return replace(
        plan,
        **_small_load(plan),
        description=f"{DESCRIPTION} {plan.description}",
        goals=(),
        repeats=1,
        gates=ANY_SPEED,
        capacity=plan.capacity
        and CapacityBounds(low=RATE, high=RATE, p99_ms=600_000, lag_growth=10, late_per_s=1e6),
        variants=tuple(
            _variant(name, replace(settings, **_small_load(settings)))
            for name, settings in variants(plan)
            if name
        ),
    )


def _variant(name: str, settings: PointSettings) -> Variant:
    own = {key: getattr(settings, key) for key in Variant.__struct_fields__ if key != "name"}
    return Variant(name=name, **own)


def _small_load(settings: PointSettings) -> dict[str, Any]:
    """Return the settings that differ in the short form."""
    common: dict[str, Any] = {"racks": min(settings.racks, RACKS), "limits": Limits()}
    if settings.count:
        count = min(settings.count, COUNT)
        return common | {
            "count": count,
            "options": _with_as_many_batches(settings.options, count / settings.count)
            if settings.terminates and settings.jobs
            else settings.options,
        }
    warm_up = min(settings.warm_up, WARM_UP_S)
    duration = min(settings.duration, DURATION_WITH_KILLS_S if settings.kills else DURATION_S)
    share = (warm_up + duration) / (settings.warm_up + settings.duration)
    slower = min(1.0, RATE / max(settings.rates))
    rates = tuple(rate * slower for rate in settings.rates)
    return common | {
        "rate": rates,
        "idle_s": settings.idle_s or IDLE_S,
        "warm_up": warm_up,
        "duration": duration,
        # 1 is the real time, in which windows also have a deadline: it stays.
        "time_scale": settings.time_scale
        if settings.time_scale == 1
        else settings.time_scale / share,
        "shape": settings.shape and _shape_in(share, settings.shape),
        "faults": tuple(_fault_in(share, fault) for fault in settings.faults),
    }


def _with_as_many_batches(options: tuple[str, ...], share: float) -> tuple[str, ...]:
    given = [text for text in options if text.startswith(PER_BATCH)]
    per_batch = int(given[0].removeprefix(PER_BATCH)) if given else ReadOptions().records_per_batch
    others = tuple(text for text in options if text not in given)
    return (*others, f"{PER_BATCH}{max(1, int((per_batch or 0) * share))}")


def _shape_in(share: float, shape: AnyShape) -> AnyShape:
    if isinstance(shape, Burst):
        return replace(
            shape,
            start_s=shape.start_s * share,
            length_s=shape.length_s * share,
            every_s=shape.every_s and shape.every_s * share,
        )
    return replace(shape, day_s=shape.day_s * share) if isinstance(shape, Daily) else shape


def _fault_in(share: float, fault: AnyFault) -> AnyFault:
    if not isinstance(fault, RackFault):
        return fault
    return replace(
        fault,
        start_s=fault.start_s * share,
        length_s=fault.length_s * share,
        every_s=fault.every_s and fault.every_s * share,
        stagger_s=fault.stagger_s * share,
    )
