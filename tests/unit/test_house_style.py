"""Files follow the house style of CONTRIBUTING.md as far as no linter checks it."""

import ast
import os
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


FILES = _files()


def _states_what_holds(path: Path) -> bool:
    """Tell whether a module is a test or a lesson, whose first line is a statement."""
    is_lesson = path.parent == ROOT / "lessons" and not path.name.startswith("__")
    return is_lesson or path.name.startswith("test_")


def test_a_module_docstring_begins_with_a_verb_and_that_of_a_job_with_its_question() -> None:
    verbs, wrong = set(VERBS.split()), []
    for path in FILES:
        if path.suffix != ".py" or _states_what_holds(path):
            continue
        text = path.read_text(encoding="utf-8")
        first = (ast.get_docstring(ast.parse(text)) or "(no docstring)").splitlines()[0]
        is_job = "\nJOB = Job(" in text
        if not (first.endswith("?") if is_job else first.split()[0].rstrip(",") in verbs):
            wrong.append(f"{path.relative_to(ROOT)}: {first}")
    assert not wrong, "\n" + "\n".join(wrong)
