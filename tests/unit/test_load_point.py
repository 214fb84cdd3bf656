"""How long a point waits for outputs."""

from loadtest.plan import load_plan, points
from loadtest.point import longest_idle_s
from tests.support import ROOT


def test_a_live_point_waits_a_minute_for_outputs_that_are_missing() -> None:
    (quick, *_) = points(load_plan(ROOT / "loadtest" / "plans" / "quick.yaml"))
    assert quick.settings.trigger == "real-time"
    assert longest_idle_s(quick.settings, outputs_missing=False) < 10
    assert longest_idle_s(quick.settings, outputs_missing=True) == 60
