"""Every lesson prints what is expected of it, in one session, and leaves nothing behind."""

import os
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from events.settings import Settings
from spark_jobs.lessons.frame.catalogue import NAMES, load
from tests.support import run

ALL_S = 900
"""Four minutes on two quiet processors; the bound is for a machine that does much else."""

LESSONS_TEST = "test_a_lesson_prints_what_is_expected"

Run = CompletedProcess[str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lessons")


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, home: Path) -> Run:
    """Run the lessons whose tests were selected, together."""
    tests = (item for item in request.session.items if isinstance(item, pytest.Function))
    named = {test.callspec.params["name"] for test in tests if test.originalname == LESSONS_TEST}
    wanted = [name for name in NAMES if name in named] or ["--all"]
    env = {"RACKSTREAM_JARS": str(Settings().jars_dir.resolve()), "RACKSTREAM_HOME": str(home)}
    env["KAFKA_HEAP_OPTS"] = os.environ["KAFKA_HEAP_OPTS"]
    return run("spark_jobs.lessons", "run", *wanted, env=env, timeout_s=ALL_S)


@pytest.mark.timeout(ALL_S + 60)
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_prints_what_is_expected(ran: Run, name: str) -> None:
    found = re.search(rf"^== {name}: .*\n((?:.*\n)*?)-- [\d.]+ s\n", ran.stdout, flags=re.MULTILINE)
    assert found, f"{name} did not come to its end:\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
    assert found.group(1) == load(name).expected.read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.broker
def test_the_lessons_leave_empty_folders_and_say_so_by_their_exit_status(ran: Run, home: Path) -> None:
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert [path.name for path in (home / "lessons").iterdir()] == []
