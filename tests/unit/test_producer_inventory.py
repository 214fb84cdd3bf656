"""The inventory carries the rate at which each rack really sends its readings."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from events.inventory import read_inventory
from events.times import now_ms
from loadtest import commands
from loadtest.plan import load_plan, points
from producer.__main__ import app
from producer.pacing.schedule import make_schedule
from producer.scenario import Scenario, load_scenario
from producer.streams.reading_plan import ReadingPlan
from producer.streams.stream_set import StreamSet, clock_rate
from tests.support import ROOT

DEMO = "producer/scenarios/demo.yaml"
EVERYTHING = {"streams": ["racks", "clicks", "actions"]}
SCENARIOS: dict[str, tuple[dict[str, Any], float]] = {
    "one stream": ({"rate": 200, "racks": 40}, 5.0),
    "faster event time": ({"rate": 200, "racks": 40, "time_scale": 4}, 1.25),
    "shared rate": ({"rate": 250, "racks": 40, **EVERYTHING}, 2.5),
    "shared rate, faster event time": (
        {"rate": 70, "racks": 7, "time_scale": 3, **EVERYTHING},
        70 * 10 / 25 / 3 / 7,
    ),
    "highest rate": ({"rate": "max", "racks": 40, "count": 5}, 1.0),
    "highest rate, faster event time": ({"rate": "max", "time_scale": 2, "count": 5}, 0.5),
    "no racks": ({"rate": 200, "streams": ["clicks"]}, 0.0),
}


def world_rates(folder: Path, *options: str) -> set[float]:
    """Return the rates in the inventory that `producer world` writes."""
    path = folder / "inventory.jsonl"
    done = CliRunner().invoke(app, ["world", f"--inventory={path}", *options])
    assert done.exit_code == 0, done.output
    return {rack.readings_per_second for rack in read_inventory(path)}


def sent_rate(scenario: Scenario) -> float:
    """Return how many readings per second a rack of the run sends, by the plan that draws them."""
    schedule = make_schedule(
        rate=scenario.paced_rate,
        clock_rate=clock_rate(scenario.streams, scenario.racks),
        now_ms=now_ms(),
        count=5,
        time_scale=scenario.time_scale,
    )
    streams = StreamSet(scenario.streams, scenario.make_world(), schedule, ())
    plans = (plan for plan in streams.plans if isinstance(plan, ReadingPlan))
    return sum(plan.schedule.event_time_rate / plan.subjects for plan in plans)


def test_world_writes_the_rate_that_each_rack_of_the_run_sends(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    written, sent = {}, {}
    for name, (content, _) in SCENARIOS.items():
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        written[name] = world_rates(tmp_path, f"--scenario={path}")
        sent[name] = {sent_rate(load_scenario(path, {}, []))}
    assert written == sent
    assert {name: rates.pop() for name, rates in written.items()} == {
        name: pytest.approx(rate) for name, (_, rate) in SCENARIOS.items()
    }


def test_world_takes_the_options_that_the_run_takes(tmp_path: Path) -> None:
    options = (
        "--rate=1,000",
        "--racks=20",
        "--time-scale=2",
        "--streams=racks,actions",
    )
    assert world_rates(tmp_path, *options) == {1000 * (10 / 14) / 2 / 20}
    assert world_rates(tmp_path, "--rate=400", f"--scenario={ROOT / DEMO}") == {10.0}


def options_of(arguments: list[str], program: str) -> set[str]:
    """Return the options of one call of the producer, without its output files."""
    assert arguments[:2] == ["producer", program]
    files = ("--inventory=", "--truth=", "--truth-kinds=", "--ledger=", "--alerts-of=", "--flush")
    return {argument for argument in arguments[2:] if not argument.startswith(files)}


def test_compose_and_kubernetes_give_world_the_options_of_the_run(tmp_path: Path) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    calls = {name: services[name]["command"] for name in ("world", "producer")}
    assert options_of(calls["world"], "world") == options_of(calls["producer"], "run")
    files = [ROOT / "deploy" / "kubernetes" / name for name in ("init.yaml", "producer.yaml")]
    arguments = {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"]["containers"][0]["args"]
        for path in files
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if "template" in manifest.get("spec", {})
    }
    options = options_of(arguments["world"], "world")
    assert options == options_of(arguments["producer"], "run") == {f"--scenario={DEMO}"}
    assert world_rates(tmp_path, f"--scenario={ROOT / DEMO}") == {100 / 40}


def test_load_plans_give_world_the_options_of_the_run(tmp_path: Path) -> None:
    for path in sorted((ROOT / "loadtest" / "plans").glob("*.yaml")):
        point = max(points(load_plan(path)), key=lambda point: -point.settings.racks)
        commands.write_scenario(point, tmp_path)
        world, producing = commands.world(tmp_path), commands.producer(point, tmp_path)
        assert options_of(world, "world") == options_of(producing, "run"), path
        scenario = load_scenario(tmp_path / commands.SCENARIO, {}, [])
        assert world_rates(tmp_path, *options_of(world, "world")) == {sent_rate(scenario)}, path
