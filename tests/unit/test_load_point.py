"""How long a point waits for outputs, and which failures of its programs blame the load."""

import sys
from pathlib import Path

import pytest

from events.cli import UserFacingError
from loadtest.plan import load_plan, points
from loadtest.point import longest_idle_s
from loadtest.programs import ProgramFailedError, Programs
from tests.support import ROOT


def test_a_live_point_waits_a_minute_for_outputs_that_are_missing() -> None:
    (quick, *_) = points(load_plan(ROOT / "loadtest" / "plans" / "quick.yaml"))
    assert quick.settings.trigger == "real-time"
    assert longest_idle_s(quick.settings, outputs_missing=False) < 10
    assert longest_idle_s(quick.settings, outputs_missing=True) == 60


def test_a_program_that_fails_before_it_runs_does_not_fail_because_of_the_load(
    tmp_path: Path,
) -> None:
    programs = Programs(tmp_path, {})
    failing = (sys.executable, "-c", "print('no such option'); raise SystemExit(3)")
    with programs.running("jobs", launcher=failing) as jobs:
        jobs.wait()
        with pytest.raises(UserFacingError, match="ended with exit status 3: no such") as at_start:
            programs.wait_for_output("jobs", ["running"])
        with pytest.raises(ProgramFailedError, match="ended with exit status 3: no such option"):
            programs.check()
    assert type(at_start.value) is UserFacingError
