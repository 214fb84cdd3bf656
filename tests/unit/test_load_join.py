"""The plans of the join send the events and faults of the scenario `join.yaml`."""

import pytest

from loadtest.plan import PLANS, load_plan
from producer.scenario import load_scenario
from tests.support import ROOT

SCENARIO = load_scenario(ROOT / "producer" / "scenarios" / "join.yaml", {}, [])


@pytest.mark.parametrize("name", ["join-backlog", "join-kills"])
def test_a_plan_of_the_join_has_the_faults_of_the_scenario(name: str) -> None:
    plan = load_plan(PLANS / f"{name}.yaml")
    assert plan.faults == SCENARIO.faults
    assert (plan.streams, plan.seed) == (SCENARIO.streams, SCENARIO.seed)


def test_the_backlog_of_the_join_is_the_scenario() -> None:
    plan = load_plan(PLANS / "join-backlog.yaml")
    assert (plan.count, plan.time_scale) == (SCENARIO.count, SCENARIO.time_scale)
