"""Build the command lines of a point's programs; their files are in the point's folder."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from events.triggers import Trigger
from loadtest import container
from loadtest.measure.correctness import compared_kinds
from loadtest.plan import Point
from spark_jobs.registry import JOBS
from spark_jobs.runtime.job import COMMON_OPTIONS

SCENARIO, INVENTORY, TRUTH = "scenario.yaml", "inventory.jsonl", "truth.jsonl"
CHECKPOINT, PROGRESS = "checkpoint", "progress.jsonl"


def write_scenario(point: Point, folder: Path) -> None:
    """Write the producer's scenario, which the other commands name."""
    text = yaml.safe_dump(scenario(point), sort_keys=False)
    (folder / SCENARIO).write_text(text, encoding="utf-8")


def world(folder: Path) -> list[str]:
    """Return the command that writes the inventory, which the jobs read at their start."""
    return [
        "producer",
        "world",
        f"--scenario={folder / SCENARIO}",
        f"--inventory={folder / INVENTORY}",
    ]


def producer(point: Point, folder: Path) -> list[str]:
    """Return the command that sends the load."""
    settings = point.settings
    options = ["producer", "run", f"--scenario={folder / SCENARIO}"]
    if settings.truth:
        options.append(f"--truth={folder / TRUTH}")
        options.append(f"--truth-kinds={','.join(compared_kinds(settings))}")
        if settings.rules:
            options.append(f"--alerts-of={','.join(settings.rules)}")
    if settings.flush:
        options.append("--flush")
    return options


def jobs(point: Point, folder: Path) -> list[str]:
    """Return the command that runs the jobs; a catch-up in micro-batches ends when all is read.

    Of an option that is there twice the last one counts: the plan's own overrides the service's.
    """
    settings = point.settings
    trigger = Trigger("available-now" if settings.terminates else settings.trigger)
    not_for_every_job = {
        "inventory": f"--inventory={folder / INVENTORY}",
        "state_partitions": f"--state-partitions={settings.state_partitions}",
    }

    def uses(name: str) -> bool:
        return any(trigger in JOBS[job].triggers_with(name) for job in settings.jobs)

    def takes_from_service(name: str) -> bool:
        return name in COMMON_OPTIONS and name != "inventory" and uses(name)

    return [
        *("spark_jobs", "run", *settings.jobs),
        f"--trigger={trigger}",
        f"--checkpoint-root={folder / CHECKPOINT}",
        f"--progress={folder / PROGRESS}",
        *(option for name, option in not_for_every_job.items() if uses(name)),
        *(container.options(settings.service, takes_from_service) if settings.service else ()),
        *(f"--conf={key}={value}" for key, value in settings.conf.items()),
        *settings.options,
    ]


def engine_options(
    folder: Path, servers: str, prefix: str, options: tuple[str, ...] = ()
) -> list[str]:
    """Return the options that every engine takes, and the plan's own (`--name=value`)."""
    return [
        *("--bootstrap", servers),
        *("--prefix", prefix),
        *("--inventory", str(folder / INVENTORY)),
        *("--state", str(folder / CHECKPOINT)),
        *(word for option in options for word in option.split("=", 1)),
    ]


def scenario(point: Point) -> dict[str, Any]:
    """Return the producer's scenario of a point."""
    settings = point.settings
    content: dict[str, Any] = {
        "streams": settings.streams,
        "racks": settings.racks,
        "seed": settings.seed,
        "time_scale": settings.time_scale,
        "faults": settings.faults,
    }
    if settings.count:
        content |= {"rate": "max", "count": settings.count}
    else:
        content |= {"rate": point.rate, "duration": point.seconds}
        if settings.shape is not None:
            content["shape"] = settings.shape
    plain: dict[str, Any] = msgspec.to_builtins(content)
    return plain
