"""The two tiers of the tests: each test is in exactly one pytest command of the Makefile."""

import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ALL_KINDS_OF_TESTS = """
import pytest

def test_quick(): pass

@pytest.mark.alone
def test_quick_alone(): pass

@pytest.mark.full
def test_full(): pass

@pytest.mark.full
@pytest.mark.alone
def test_full_alone(): pass
"""
TIERS = {
    "test": ["test_quick", "test_quick_alone"],
    "test-rest": ["test_full", "test_full_alone"],
}


def pytest_commands(target: str) -> list[str]:
    """Return the arguments of each pytest command of a Makefile target."""
    recipe = re.search(rf"^{target}: setup .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    return re.findall(r"^\t\$\(PY\) -m pytest (.*)$", recipe[1], re.MULTILINE)


def test_every_test_is_in_one_command_and_those_that_run_alone_come_after_the_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_kinds.py").write_text(ALL_KINDS_OF_TESTS, encoding="utf-8")
    collect = (sys.executable, "-m", "pytest", "--collect-only", "-q", f"--rootdir={tmp_path}")
    config = f"--config-file={ROOT / 'pyproject.toml'}"
    found: dict[str, list[str]] = {}
    for target in TIERS:
        found[target] = []
        for command in pytest_commands(target):
            option, expression, *others = shlex.split(command)
            assert option == "-m"
            several = f"$(FILES_AT_A_TIME)={3 if target == 'test' else 4}"
            assert others in ([], [several]), "a path would leave tests out"
            assert ("not alone" in expression) == bool(others)
            done = subprocess.run(
                [*collect, config, option, expression, "test_kinds.py"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=True,
            )
            found[target] += re.findall(r"::(\w+)", done.stdout)
    assert found == TIERS
    assert set(Counter(name for names in found.values() for name in names).values()) == {1}


def test_all_tests_are_the_two_tiers_and_ci_runs_both() -> None:
    assert re.search(r"^test-all: test test-rest ##", MAKEFILE, re.MULTILINE)
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    made = re.findall(r"^make (\S+)$", ci, re.MULTILINE)
    assert made == ["packages", "lint", "test", "test-rest"]
