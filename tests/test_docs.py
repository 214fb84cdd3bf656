"""The documentation matches the programs: commands, options, settings, jobs, targets, links."""

import re
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperOption

from docs.commands import PAGE, PROGRAMS, commands, page
from events.settings import Settings
from spark_jobs.job_commands import MICRO_BATCH_DELAY_S
from spark_jobs.registry import JOBS
from tests.support import ROOT

# The options that the contract promises; a command may have more.
CONTRACT = {
    "alerting run": ["--database", "--idle-exit"],
    "broker up": ["--port", "--data-dir"],
    "broker down": ["--port", "--data-dir"],
    "broker status": [],
    "broker topics": [],
    "lessons list": [],
    "lessons run": ["--all"],
    "lessons show": [],
    "producer run": [
        "--rate",
        "--duration",
        "--count",
        "--seed",
        "--racks",
        "--start-time",
        "--time-scale",
        "--flush",
        "--scenario",
        "--inventory",
        "--truth",
        "--streams",
    ],
    "spark_jobs list": [],
    "spark_jobs run": [
        "--trigger",
        "--checkpoint-root",
        "--starting-offsets",
        "--inventory",
        "--all-real-time",
        "--all-micro-batch",
        "--restarts",
    ],
    "spark_jobs status": ["--watch", "--json"],
    "spark_jobs health": [],
    "producer health": [],
}

LONGEST_LINE = 100
GENERATED_ROWS = ("lessons.md", "- [`")
"""A page with a generated list, and how the lines of that list start."""

COMMANDS: dict[str, TyperCommand] = {
    name: command for program in PROGRAMS for name, command in commands(program).items()
}


def options(name: str) -> list[TyperOption]:
    return [option for option in COMMANDS[name].params if isinstance(option, TyperOption)]


def long_names(name: str) -> set[str]:
    names = (text for option in options(name) for text in (*option.opts, *option.secondary_opts))
    return {text for text in names if text.startswith("--")}


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def documentation() -> str:
    """Return all pages that a user reads."""
    return "\n".join(path.read_text(encoding="utf-8") for path in documents())


def test_every_command_of_the_contract_has_its_options() -> None:
    missing = {name: sorted(set(CONTRACT[name]) - long_names(name)) for name in CONTRACT}
    assert {name: flags for name, flags in missing.items() if flags} == {}


def test_every_command_and_option_explains_itself() -> None:
    silent = [name for name, command in COMMANDS.items() if not command.help]
    silent += [f"{name} {o.name}" for name in COMMANDS for o in options(name) if not o.help]
    assert silent == []


def test_the_page_of_commands_is_the_one_that_make_docs_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_no_page_names_an_absolute_path_of_a_checkout() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in documents()}
    folders = (str(ROOT), "/home/", "/work/", "/Users/", "/root/")
    found = [(name, folder) for name, text in pages.items() for folder in folders if folder in text]
    assert found == []


def test_the_documentation_calls_only_commands_and_options_that_exist(documentation: str) -> None:
    called = re.findall(r"python -m (\w+(?: [a-z]\w*)?)((?: +[^\s`|]+)*)", documentation)
    called = [(name, rest) for name, rest in called if name.split()[0] in PROGRAMS]
    assert len(called) > 5
    unknown = []
    for name, rest in called:
        known = name if name in COMMANDS else name.split()[0]
        if known not in COMMANDS:
            if name != known:
                unknown.append(f"python -m {name}")
            continue
        flags = re.findall(r"--[a-z][\w-]*", rest)
        unknown += [
            f"{known} {flag}" for flag in flags if flag not in {*long_names(known), "--help"}
        ]
    assert unknown == []


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_in_the_example_with_its_default_and_documented(
    documentation: str, name: str
) -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    default = Settings.model_fields[name].default
    found = re.search(rf"^(# )?{name.upper()}=(.*)$", example, flags=re.MULTILINE)
    assert found, f"{name.upper()} is not in .env.example"
    if default is not None:
        assert found.group(2) == str(default)
    assert name.upper() in documentation


def test_every_job_is_documented(documentation: str) -> None:
    assert [name for name in JOBS if f"`{name}`" not in documentation] == []


def test_the_delay_of_alerts_in_micro_batches_is_the_one_that_the_command_names() -> None:
    rules = " ".join((ROOT / "docs" / "rules.md").read_text(encoding="utf-8").split())
    least_s, most_s = MICRO_BATCH_DELAY_S
    assert f"Alerts then take {least_s} to {most_s} s and the interval of the batches" in rules


def test_every_target_of_make_is_described_and_only_existing_ones_are_mentioned(
    documentation: str,
) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.MULTILINE))
    described = set(re.findall(r"^([a-z][\w-]*):.*## \S", makefile, flags=re.MULTILINE))
    assert targets == described
    mentioned = set(
        re.findall(r"(?:`|^\$? *)make ([a-z][a-z-]*)", documentation, flags=re.MULTILINE)
    )
    assert {"demo", "test"} <= mentioned
    assert mentioned <= targets, f"make {sorted(mentioned - targets)}"


def test_no_line_of_prose_is_longer_than_a_line_of_code() -> None:
    page_name, row = GENERATED_ROWS
    too_long = []
    lessons = sorted((ROOT / "docs" / "lessons").glob("*.md"))
    for document in [*documents(), *lessons, ROOT / "CHANGELOG.md"]:
        in_code = False
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), start=1):
            in_code ^= line.lstrip().startswith("```")
            is_generated = document.name == page_name and line.startswith(row)
            is_prose = not (in_code or is_generated or line.startswith("|"))
            # A link or a word that does not fit cannot be broken.
            can_break = " " in re.sub(r"\]\([^)]*\)", "", line.strip())
            if is_prose and can_break and len(line) > LONGEST_LINE:
                too_long.append(f"{document.name}:{number}")
    assert too_long == []


def test_links_between_the_pages_lead_to_existing_files_and_headings() -> None:
    broken = []
    for document in documents():
        for target in re.findall(
            r"\]\((?!https?:|mailto:)([^)]+)\)", document.read_text(encoding="utf-8")
        ):
            name, _, anchor = target.partition("#")
            page_there = document.parent / name if name else document
            if not page_there.exists() or (anchor and anchor not in anchors(page_there)):
                broken.append(f"{document.name}: {target}")
    assert broken == []


def anchors(document: Path) -> set[str]:
    """Return the anchors that a page's headings get on GitHub."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
