"""The registry finds the module of each job of the catalog, and misses none."""

import ast
from pathlib import Path

import pytest

from events import catalog
from events.triggers import Trigger
from spark_jobs.registry import JOBS, QUESTIONS, module_file
from tests.support import ROOT


def test_the_registry_has_every_job_of_the_catalog_in_its_order() -> None:
    assert tuple(JOBS) == catalog.JOBS
    assert all(QUESTIONS.values())


def test_a_job_without_a_module_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError) as refused:
        module_file(tmp_path, "archive")
    assert str(refused.value) == (
        f"the job archive needs exactly one module below {tmp_path} (archive.py or archive/job.py "
        "in a subfolder): found none."
    )


def test_a_job_with_two_modules_is_an_error(tmp_path: Path) -> None:
    for path in ("storage/archive.py", "rules/archive/job.py"):
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.touch()
    with pytest.raises(LookupError, match=r"found rules/archive/job\.py and storage/archive\.py"):
        module_file(tmp_path, "archive")


@pytest.mark.parametrize("path", ["storage/archive.py", "rules/archive/job.py"])
def test_a_module_is_a_file_or_a_folder(tmp_path: Path, path: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.touch()
    assert module_file(tmp_path, "archive") == file


def test_the_runtime_knows_no_job_by_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} names {node.value}"
        for path in sorted((ROOT / "spark_jobs/runtime").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in catalog.JOBS
    ]
    assert not found, "\n".join(found)


def test_rules_by_the_wall_clock_repeat_their_last_batch_at_a_start() -> None:
    found = {
        (job.name, trigger)
        for job in JOBS.values()
        for trigger, plan in job.plans.items()
        if plan.by_wall_clock
    }
    assert found == {
        ("silent_sensor", Trigger.MICRO_BATCH),
        ("site_outage", Trigger.MICRO_BATCH),
    }


def test_no_plan_of_real_time_mode_takes_batches_which_are_made_in_python() -> None:
    with_batches = {
        trigger for job in JOBS.values() for trigger, plan in job.plans.items() if plan.batches
    }
    assert with_batches == {Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW}
