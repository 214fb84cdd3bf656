"""The other engines: which are installed, and what a person reads when one is not."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from events.cli import UserFacingError
from loadtest import commands, engines
from loadtest.__main__ import capacity_command, run_command
from loadtest.engines import ENGINES, JavaEngine, PythonEngine
from loadtest.engines.python.rule import StateReading, add_reading
from loadtest.plan import PLANS, Engine, load_plans, variants


def test_a_plan_may_name_spark_and_every_other_engine() -> None:
    assert {"spark", *ENGINES} == set(Engine.__args__)  # type: ignore[attr-defined] # a Literal's values


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the engines' sources and environments into an empty folder."""
    monkeypatch.setattr(engines, "FOLDER", tmp_path)
    monkeypatch.setenv("RACKSTREAM_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.usefixtures("empty_folder")
def test_engines_that_are_not_installed_are_missing_and_spark_never_is() -> None:
    assert engines.missing(["spark", "quix", "flink", "flink"]) == ["flink", "quix"]
    assert engines.missing(["spark", *ENGINES]) == sorted(ENGINES)


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize(
    ("command", "plan"),
    [
        (lambda plan: run_command([plan]), "overheating-engines-latency"),
        (capacity_command, "overheating-engines-capacity"),
    ],
)
def test_a_run_without_its_engine_is_refused(command: Callable[[str], None], plan: str) -> None:
    with pytest.raises(
        UserFacingError,
        match=rf"needs flink, .* run python -m loadtest engines {plan} --install\.$",
    ):
        command(plan)


def test_run_refuses_a_capacity_plan_and_names_the_command_for_it(tmp_path: Path) -> None:
    with pytest.raises(
        UserFacingError, match=r"run python -m loadtest capacity overheating-engines-capacity\.$"
    ):
        run_command(["overheating-engines-capacity"])
    own = tmp_path / "own.yaml"
    shutil.copy(PLANS / "overheating-engines-capacity.yaml", own)
    with pytest.raises(
        UserFacingError, match=rf"run python -m loadtest capacity {re.escape(str(own))}\.$"
    ):
        run_command([str(own)])


def test_a_java_engine_without_maven_names_the_package_to_install(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(empty_folder))
    with pytest.raises(UserFacingError, match="install the package maven"):
        JavaEngine("flink", "it.jar", ("overheating",)).install()


def test_a_jar_older_than_the_sources_of_its_module_or_the_shared_one_is_not_installed(
    empty_folder: Path,
) -> None:
    engine, java = JavaEngine("flink", "it.jar", ("overheating",)), empty_folder / "java"
    poms = [java / "pom.xml", java / "shared" / "pom.xml", java / "flink" / "pom.xml"]
    jar = java / "flink" / "target" / "it.jar"
    jar.parent.mkdir(parents=True)
    for pom in poms:
        pom.parent.mkdir(exist_ok=True)
        pom.write_text("<project/>")
    jar.touch()
    assert engine.is_installed
    assert engine.command("overheating")[-2:] == (str(jar), "overheating")
    for pom in poms:
        os.utime(pom, ns=(0, jar.stat().st_mtime_ns + 10**9))
        assert not engine.is_installed, pom
        os.utime(pom, ns=(0, 0))


def test_an_environment_made_from_another_lock_file_is_not_installed(empty_folder: Path) -> None:
    engine = PythonEngine("quix")
    lock = empty_folder / "python" / "requirements-quix.lock"
    copy = empty_folder / "home" / "engines" / "quix" / lock.name
    for file in (lock, copy):
        file.parent.mkdir(parents=True)
        file.write_text("a==1\n")
    assert engine.is_installed
    lock.write_text("a==2\n")
    assert not engine.is_installed


def test_an_engine_is_given_the_options_of_the_plan_as_words(tmp_path: Path) -> None:
    given = commands.engine_options(tmp_path, "it:9092", "a-", ("--update-interval-ms=1000",))
    assert given[:4] == ["--bootstrap", "it:9092", "--prefix", "a-"]
    assert given[-2:] == ["--update-interval-ms", "1000"]


def test_every_job_of_an_engine_is_compared_with_spark_in_a_plan_for_each_measure() -> None:
    plans = load_plans()
    compared = {
        (name.rpartition("-engines-")[2], own.engine, own.jobs)
        for name, plan in plans.items()
        for _, own in variants(plan)
        if "engines-" in name
    }
    for name, engine in ENGINES.items():
        if isinstance(engine, PythonEngine):
            continue
        for job in engine.jobs[1:]:
            for measure in ("catch-up", "latency", "capacity"):
                assert (measure, name, (job,)) in compared
                assert (measure, "spark", (job,)) in compared


def test_the_python_engines_rule_counts_three_distinct_readings_by_sequence() -> None:
    # The state of an engine may come back from JSON, with lists for tuples.
    last: Sequence[StateReading] = [[1, "b", "", 120.0], [2, "c", "", 120.0]]
    states: list[bool | None] = []
    for reading in (
        (2, "c", "", 120.0),  # a copy of the last
        (3, "d", "", 100.0),  # the third at the threshold
        (1, "b", "", 120.0),  # a copy of the oldest
        (0, "a", "", 20.0),  # older than the last three
        (5, "f", "", 20.0),
        (4, "e", "", 120.0),  # out of order, behind the cold one
    ):
        last, state = add_reading(last, reading, 100.0)
        states.append(state)
    assert states == [None, True, None, None, False, None]
    assert [reading[1] for reading in last] == ["d", "e", "f"]
