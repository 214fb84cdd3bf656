"""Files follow the house style of CONTRIBUTING.md as far as no linter checks it."""

import ast
import os
import re
from fnmatch import fnmatch
from pathlib import Path

from tests.support import ROOT

VERBS = """
Add Administer Analyse Answer Apply Archive Ask Benchmark Bring Build Check Collect Compare Compute
Consume Convert Corrupt Count Create Decide Decode Define Deliver Derive Describe Detect Document
Draw Encode Estimate Explain Express Feed Fetch Fill Find Format Generate Give Help Join Judge Keep
Kill List Log Make Measure Merge Name Parse Prefetch Prepare Print Provide Publish Queue Read
Recognise Record Refuse Relay Render Repeat Replace Report Represent Run Sample Scrape Send Serve
Shape Share Show Start State Store Summarise Summarize Teach Tell Test Track Turn Use Watch Write
"""
"""The verbs with which docstrings of modules begin: add one when you need another."""

# The changelog's table has the field's word for each replaced name. It leaves out English words
# (`held`, `letters`), others' terms (`kafka`), and `begun-with.json`, by which `spark_jobs`
# recognises old checkpoints.
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
_, _, _REPLACED = CHANGELOG.partition("\n#### Names in the code\n")
REPLACED_NAMES = dict(
    re.findall(r"^\| `([\w-]+)` \| (.+) \|$", _REPLACED.partition("\n\n")[0], re.MULTILINE)
)

# Ruff measures the lines of Python; data and what programs print are as long as they are.
WRAPPED = [
    "Dockerfile", "Makefile", ".env.example", "*.yaml", "*.yml", "*.toml", "*.xml", "*.properties",
    "deploy/*", "loadtest/engines/java/*",
]  # fmt: skip
NOT_WRAPPED = [
    "deploy/monitoring/grafana/dashboard.json",  # JSON cannot break a text
    "deploy/spark/*.conf",  # each setting of Spark is one line
    "loadtest/engines/java/pom.xml",  # Maven's plugins have long class names
]


def _files() -> list[Path]:
    """Return the files that git does not ignore, also where git is not installed."""
    rules = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    ignored = [".git", *(rule.rstrip("/") for rule in rules)]

    def kept(names: list[str]) -> list[str]:
        return [name for name in names if not any(fnmatch(name, rule) for rule in ignored)]

    found = list[Path]()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = kept(folders)
        found += [Path(folder, name) for name in kept(names)]
    return sorted(found)


def _text(path: Path) -> str:
    """Return a file's text; none if it has a zero byte, as pictures have."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8")


FILES = _files()


def _is_one_of(path: Path, patterns: list[str]) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return any(fnmatch(name, pattern) for pattern in patterns)


def _states_what_holds(path: Path) -> bool:
    """Tell whether a module is a test or a lesson, whose first line is a statement."""
    is_lesson = path.parent == ROOT / "lessons" and not path.name.startswith("__")
    return is_lesson or path.name.startswith("test_")


def test_a_module_docstring_begins_with_a_verb_and_that_of_a_job_with_its_question() -> None:
    verbs, wrong = set(VERBS.split()), []
    for path in FILES:
        if path.suffix != ".py" or _states_what_holds(path):
            continue
        text = _text(path)
        first = (ast.get_docstring(ast.parse(text)) or "(no docstring)").splitlines()[0]
        is_job = "\nJOB = Job(" in text
        if not (first.endswith("?") if is_job else first.split()[0].rstrip(",") in verbs):
            wrong.append(f"{path.relative_to(ROOT)}: {first}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_names_that_were_replaced_are_not_used() -> None:
    assert "`UserFacingError`" in REPLACED_NAMES.values()
    replaced = re.compile(rf"\b({'|'.join(REPLACED_NAMES)})\b")
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {name}, expected: {REPLACED_NAMES[name]}"
        for path in FILES
        if path.name != "CHANGELOG.md"
        for number, line in enumerate(_text(path).splitlines(), start=1)
        for name in replaced.findall(line)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_build_files_and_deployment_have_lines_of_at_most_100_characters() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for path in FILES
        if _is_one_of(path, WRAPPED) and not _is_one_of(path, NOT_WRAPPED)
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if len(line) > 100 and len(line.split()) > 1  # a single word cannot be wrapped
    ]
    assert not wrong, "\n" + "\n".join(wrong)
