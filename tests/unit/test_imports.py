"""Imports go one way: between the packages of the repository, and inside `spark_jobs`.

All imports count, those inside functions and those for type checkers too. `docs/architecture.md`
draws the allowed arrows.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.support import ROOT

EVERYTHING = {"alerting", "broker", "demo", "jars", "lessons", "loadtest", "producer", "spark_jobs"}
# What each package may import beside itself and `events`.
ALLOWED = {
    "events": set(),
    "jars": set(),
    "broker": {"jars"},
    "producer": {"broker.topics"},
    "spark_jobs": {"broker.topics", "jars"},
    "alerting": {"broker.topics"},
    "dashboard": {"broker.topics"},
    "lessons": {"broker", "jars", "spark_jobs"},
    "demo": EVERYTHING | {"dashboard"},
    "loadtest": EVERYTHING | {"dashboard"},
    "docs": EVERYTHING | {"dashboard"},
    "tests": EVERYTHING | {"dashboard", "docs", "setup_env"},
    "setup_env": set(),
    "submit": set[str](),
}
# What imports a module by its name, and the files that may do so, beside the tests.
IMPORTING_CALLS = {"import_module", "__import__", "run_module", "run_path"}
IMPORT_BY_NAME = {
    "docs/commands.py",
    "lessons/harness/catalogue.py",
    "producer/expected/rack_alerts.py",
    "spark_jobs/registry.py",
    "submit.py",
}
QUESTION_FOLDERS = ("rules", "telemetry", "clickstream", "storage")
FRAMEWORK = "spark_jobs.rules.framework"
RUNTIME = "spark_jobs.runtime"


def modules() -> dict[str, Path]:
    """Return each module of the repository's packages by its name."""
    found = {}
    for package in ALLOWED:
        for path in [ROOT / f"{package}.py", *sorted((ROOT / package).rglob("*.py"))]:
            if path.exists():
                parts = path.relative_to(ROOT).with_suffix("").parts
                found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def imports_in(path: Path) -> Iterator[str]:
    """Yield each module of the repository that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            names = [
                name if (name := f"{node.module}.{alias.name}") in MODULES else str(node.module)
                for alias in node.names
            ]
        else:
            continue
        yield from (name for name in names if name in MODULES)


@cache
def imports() -> dict[str, set[str]]:
    """Return what each module imports of the repository; reading it all takes two seconds."""
    return {name: set(imports_in(path)) - {name} for name, path in MODULES.items()}


def is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def question_of(name: str) -> str | None:
    """Return the question (a file or a folder) that a module of `spark_jobs` belongs to."""
    parts = name.split(".")
    is_one = len(parts) > 2 and parts[1] in QUESTION_FOLDERS and not is_in(name, FRAMEWORK)
    return ".".join(parts[:3]) if is_one else None


def may_import(name: str, imported: str) -> bool:
    """Tell whether a module of `spark_jobs` may import another one of `spark_jobs`."""
    question = question_of(name)
    if question:
        shared = [question, RUNTIME, *([FRAMEWORK] if is_in(name, "spark_jobs.rules") else [])]
        return any(is_in(imported, package) for package in shared)
    if is_in(name, FRAMEWORK):
        return is_in(imported, FRAMEWORK) or is_in(imported, RUNTIME)
    if is_in(name, RUNTIME):
        return is_in(imported, RUNTIME)
    if name == "spark_jobs.registry":  # it imports the questions by their names in the catalog
        return is_in(imported, RUNTIME)
    return imported != "spark_jobs.__main__"


def test_each_package_imports_only_what_the_architecture_allows() -> None:
    wrong = []
    for name, imported in imports().items():
        package = name.split(".")[0]
        allowed = {package, "events", *ALLOWED[package]}
        wrong += [
            f"{name} imports {other}"
            for other in sorted(imported)
            if not any(is_in(other, each) for each in allowed)
        ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_setup_imports_only_the_standard_library() -> None:
    tree = ast.parse(MODULES["setup_env"].read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert imported <= sys.stdlib_module_names


def calls_in(text: str) -> set[str]:
    """Return the last names of the functions that a program calls."""
    called = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {
        func.attr if isinstance(func, ast.Attribute) else func.id
        for func in called
        if isinstance(func, ast.Attribute | ast.Name)
    }


def test_only_known_files_import_modules_by_name() -> None:
    importing = {
        path.relative_to(ROOT).as_posix()
        for name, path in MODULES.items()
        if not is_in(name, "tests") and calls_in(path.read_text(encoding="utf-8")) & IMPORTING_CALLS
    }
    assert importing == IMPORT_BY_NAME


def test_every_package_has_import_rules() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages <= ALLOWED.keys()


def test_in_spark_jobs_questions_import_the_runtime_and_never_each_other() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, imported in imports().items()
        if is_in(name, "spark_jobs")
        for other in sorted(imported)
        if is_in(other, "spark_jobs") and not may_import(name, other)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_a_private_module_is_imported_only_in_its_package_and_by_tests() -> None:
    private = {
        name: package
        for name in MODULES
        for package, _, last in [name.rpartition(".")]
        if last.startswith("_") and last != "__main__"
    }
    assert private
    wrong = [
        f"{name} imports {one}"
        for name, imported in imports().items()
        for one in imported & private.keys()
        if not is_in(name, private[one]) and not is_in(name, "tests")
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        circle = " <- ".join(error.args[1])
        raise AssertionError(f"these modules import each other: {circle}") from None
