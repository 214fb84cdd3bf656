"""A scenario file is checked, and an error names the line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from events.cli import UserFacingError
from events.settings import Settings
from events.times import now_ms
from producer import run_commands
from producer.faults import Duplicate, Late, Overheating
from producer.pacing.schedule import make_schedule
from producer.run import Outcome, run
from producer.scenario import HISTORY_S, Scenario, load_scenario, parse_fault
from producer.streams.stream_set import StreamSet, clock_rate
from tests.builders import T0

SCENARIOS = Path(__file__).parents[2] / "producer" / "scenarios"


def load(tmp_path: Path, text: str) -> Scenario:
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    return load_scenario(path, {}, [])


def test_a_scenario_has_options_and_faults(tmp_path: Path) -> None:
    scenario = load(
        tmp_path,
        "rate: 200\nracks: 8\nseed: 3\nfaults:\n- fault: duplicate\n  share: 0.5\n- fault: late\n",
    )
    assert (scenario.rate, scenario.racks, scenario.seed) == (200.0, 8, 3)
    assert scenario.faults == (Duplicate(share=0.5), Late())


def test_command_line_options_override_the_file_and_faults_are_added(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("rate: 200\nracks: 8\nfaults: [{fault: late}]\n", encoding="utf-8")
    scenario = load_scenario(path, {"rate": "max", "count": 5}, ["overheating=3,length_s=2"])
    assert (scenario.rate, scenario.racks, scenario.count) == ("max", 8, 5)
    assert scenario.faults == (Late(), Overheating(racks=3, length_s=2))


def test_an_empty_scenario_has_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "") == Scenario() == load_scenario(None, {}, [])


WRONG_FILES = [
    (
        "rate: 10\nracks: none\n",
        r"line 2 of the scenario .*\(racks\): Expected `int`, got `str`",
    ),
    ("rate: 10\nracks: 0\n", r"line 2 of .*\(racks\): Expected `int` >= 1"),
    ("racks: 5\nrade: 10\n", r"line 2 of .*unknown field `rade`"),
    ("rate: .inf\n", r"line 1 of .*\(rate\): Expected `float` <= 1000000000"),
    ("duration: .inf\n", r"line 1 of .*\(duration\): Expected `float` <= 1000000000"),
    ("rate: quick\n", r"line 1 of .*\(rate\): Invalid enum value 'quick'"),
    ("streams: [clocks]\n", r"line 1 of .*\(streams\[0\]\): Invalid enum value 'clocks'"),
    ("streams: []\n", r"line 1 of .*\(streams\): Expected `array` of length >= 1"),
    (
        "faults:\n  - fault: late\n  - fault: duplicate\n    share: 2\n",
        r"line 4 of .*\(faults\[1\]\.share\): Expected `float` <= 1",
    ),
    (
        "faults:\n  - fault: late\n  - fault: duplicate\n    # a comment\n    shere: 0.1\n",
        r"line 5 of .*\(faults\[1\]\): Object contains unknown field `shere`",
    ),
    (
        "faults:\n\n  - fault: nonsense\n",
        r"line 3 of .*\(faults\[0\]\.fault\): Invalid value 'nonsense'",
    ),
    ("faults:\n  - share: 0.1\n", r"line 2 of .*missing required field `fault`"),
    (
        "rate: 10\n  racks: 5\n",
        r"line 2 of the scenario .* is not YAML: mapping values are not allowed here",
    ),
    ("- rate\n", r"line 1 of .*Expected `object`, got `array`"),
]


def mismatches(
    action: Callable[[str], object], cases: list[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Return the cases (text, pattern, error) whose error does not match the pattern."""
    found = []
    for text, pattern in cases:
        with pytest.raises(UserFacingError) as error:
            action(text)
        if not re.search(pattern, str(error.value)):
            found.append((text, pattern, str(error.value)))
    return found


def test_an_error_names_the_line(tmp_path: Path) -> None:
    assert mismatches(lambda text: load(tmp_path, text), WRONG_FILES) == []


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        UserFacingError, match=r"none\.yaml cannot be read \(No such file or directory\)"
    ):
        load_scenario(tmp_path / "none.yaml", {}, [])


WRONG_FAULTS = [
    ("nonsense", "there is no fault 'nonsense': choose one of overheating, late"),
    ("duplicate=2", r"--fault duplicate=2: share: Expected `float` <= 1"),
    ("duplicate=0.1,copies", "'copies' is not of the form option=value"),
    ("duplicate=0.1,copies=9", r"copies: Expected `int` <= 2"),
    ("duplicate,colour=red", "unknown field `colour`"),
    ("late=0.1,max_s=7200", r"max_s: Expected `float` <= 7180"),
]


def test_a_wrong_fault_option_is_reported() -> None:
    assert mismatches(parse_fault, WRONG_FAULTS) == []


def test_a_fault_option_takes_lists() -> None:
    fault = parse_fault("overheating=[rack-0001,rack-0002],every_s=null")
    assert fault == Overheating(racks=["rack-0001", "rack-0002"], every_s=None)


def test_faults_that_exclude_each_other_are_refused() -> None:
    for options, complaint in (
        (["late", "late"], "the fault late is given twice"),
        (["late,max_s=500", "duplicate,max_s=100"], "add up to at most 580"),
        (["late,min_s=30,max_s=20"], "has min_s 30 above max_s 20"),
    ):
        with pytest.raises(UserFacingError, match=complaint):
            load_scenario(None, {}, options)
    load_scenario(None, {}, ["overheating=1", "overheating=1,start_s=50"])


class NoBroker:
    """Publishes nothing, and has every topic."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def check_topic(self, topic: str) -> None:
        """Do nothing."""


def refusal(monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> str:
    """Return the sentence with which a run of a scenario is refused before it sends anything."""
    monkeypatch.setattr("producer.run.Publisher", NoBroker)
    with pytest.raises(UserFacingError) as refused:
        run(Settings(_env_file=None), scenario)
    return str(refused.value)


def test_places_beyond_the_watermark_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    beyond = load_scenario(None, {"streams": ["actions"]}, ["out-of-order=0.05,places=25"])
    assert refusal(monkeypatch, beyond) == (
        "with 25 places of the fault out-of-order a record of user-actions could be 750 s late, "
        "beyond the watermark of 600 s less 20 s: lower places."
    )
    with_copies = load_scenario(
        None, {"rate": 1.0}, ["out-of-order=0.05,places=14", "duplicate=0.01,max_s=30"]
    )
    assert refusal(monkeypatch, with_copies) == (
        "with 14 places of the fault out-of-order a record of rack-readings could be 591 s late, "
        "beyond the watermark of 600 s less 20 s: lower places, or max_s of duplicate."
    )


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"streams": ["actions"]}, 19),
        ({"streams": ["clicks"]}, 1000),
        ({"rate": 1.0}, 14),
        ({"rate": 1.0, "count": 500}, 1000),  # the run ends before
    ],
)
def test_places_within_the_watermark_are_accepted(options: dict[str, Any], places: int) -> None:
    check_delays(load_scenario(None, options, [f"out-of-order=0.05,places={places}"]))


def check_delays(scenario: Scenario) -> None:
    """Check the plans of a scenario, as a run does."""
    schedule = make_schedule(
        rate=scenario.paced_rate,
        clock_rate=clock_rate(scenario.streams, scenario.racks),
        now_ms=T0,
        duration_s=scenario.duration or 3600.0,
        count=scenario.count,
        time_scale=scenario.time_scale,
    )
    world = scenario.make_world()
    for plan in StreamSet(scenario.streams, world, schedule, scenario.faults).plans:
        plan.check_delays()


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_included_scenarios_are_valid(path: Path) -> None:
    scenario = load_scenario(path, {}, [])
    assert scenario.description
    check_delays(scenario)


def test_no_two_scenarios_have_the_same_seed() -> None:
    # Otherwise two runs that start at once have one id, and one replaces the other's ledger.
    seeds = [load_scenario(path, {}, []).seed for path in SCENARIOS.glob("*.yaml")]
    assert len(set(seeds)) == len(seeds) > 1


def test_a_history_has_as_many_events_per_hour_as_its_scenario_and_ends_now() -> None:
    scenario = Scenario(streams=("clicks", "actions"), rate=5.0, time_scale=2.0)
    history = scenario.history(4)
    assert (history.duration, history.time_scale) == (HISTORY_S, 240.0)
    assert history.paced_rate is not None
    assert history.paced_rate / history.time_scale == 5.0 / 2.0
    now = 1_700_000_000_000
    schedule = make_schedule(
        rate=history.paced_rate,
        clock_rate=20.0,
        now_ms=now,
        duration_s=history.duration,
        time_scale=history.time_scale,
    )
    assert schedule.count is not None
    first, last = schedule.event_ms(np.array([0, schedule.count - 1]))
    end_ms = now + 1000 * HISTORY_S
    assert end_ms - first == pytest.approx(4 * 3_600_000, rel=0.001)
    assert 0 <= end_ms - last < 1000


def test_the_readings_of_a_history_are_numbered_before_those_of_the_live_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firsts: list[int | None] = []

    def note(*_: Any, first_sequence: int | None, **__: Any) -> Outcome:
        firsts.append(first_sequence)
        return Outcome({"failed": 0}, "", None)

    monkeypatch.setattr(run_commands, "run", note)
    options = ["run", f"--ledger={tmp_path}", "--history-hours=24", "--rate=100", "--racks=40"]
    done = CliRunner().invoke(run_commands.app, options, catch_exceptions=False)
    assert done.exit_code == 0
    history, live = firsts
    # 2.5 readings per second of each rack. The live run's numbers begin with the clock.
    assert live is None
    assert history is not None
    assert history + 24 * 3600 * 2.5 <= now_ms()
    assert history > now_ms() - 24 * 3600 * 3 * 1000
    numbered = CliRunner().invoke(run_commands.app, [*options, "--first-sequence=1"])
    assert "leave out --first-sequence or --history-hours" in str(numbered.exception)


def test_a_history_without_a_rate_is_refused() -> None:
    with pytest.raises(UserFacingError, match="--history-hours needs a rate"):
        Scenario(rate="max").history(4)
