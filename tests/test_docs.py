"""The documentation knows every command, option, setting, job and target, and speaks of none that is not there."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from events.settings import Settings
from spark_jobs.registry import JOBS
from tests.support import ROOT

PROGRAMS = ("alerting", "broker", "demo", "loadtest", "producer", "spark_jobs")
USERS_PROGRAMS = ("alerting", "broker", "producer", "spark_jobs")

# What the contract promises; more may be there.
CONTRACT = {
    "alerting run": ["--database", "--idle-exit"],
    "broker up": ["--port", "--data-dir"],
    "broker down": ["--port", "--data-dir"],
    "broker status": [],
    "broker topics": [],
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
    "spark_jobs run": ["--trigger", "--checkpoint-root", "--starting-offsets", "--inventory"],
}


def commands(program: str) -> dict[str, TyperCommand]:
    """Return the commands of a program by how they are called: `producer run`."""
    top = get_command(import_module(f"{program}.__main__").app)
    found = top.commands.items() if isinstance(top, TyperGroup) else [("", top)]
    return {
        f"{program} {name}".strip(): command for name, command in found if isinstance(command, TyperCommand)
    }


COMMANDS = {name: command for program in PROGRAMS for name, command in commands(program).items()}


def options(name: str) -> list[TyperOption]:
    return [option for option in COMMANDS[name].params if isinstance(option, TyperOption)]


def long_names(name: str) -> set[str]:
    names = (text for option in options(name) for text in (*option.opts, *option.secondary_opts))
    return {text for text in names if text.startswith("--")}


@pytest.fixture(scope="module")
def documentation() -> str:
    """Return all that a user may read."""
    return "\n".join(path.read_text(encoding="utf-8") for path in documents())


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", CONTRACT)
def test_a_command_of_the_contract_has_its_options(name: str) -> None:
    assert set(CONTRACT[name]) <= long_names(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_explains_itself(name: str) -> None:
    assert COMMANDS[name].help
    assert [option.name for option in options(name) if not option.help] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.split()[0] in USERS_PROGRAMS])
def test_a_commands_section_has_each_of_its_options_and_no_other(name: str) -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    _, heading, section = text.partition(f"\n## `python -m {name}`\n")
    assert heading, f"docs/commands.md says nothing of python -m {name}"
    rows = re.findall(r"^\| (`--.*?`) \|", section.partition("\n## ")[0], flags=re.MULTILINE)
    assert set(re.findall(r"--[\w-]+", " ".join(rows))) == long_names(name) - {"--help"}


def test_the_documentation_calls_no_command_and_no_option_that_is_not_there(documentation: str) -> None:
    called = re.findall(r"python -m (\w+(?: [a-z]\w*)?)((?: +[^\s`|]+)*)", documentation)
    called = [(name, rest) for name, rest in called if name.split()[0] in PROGRAMS]
    assert len(called) > 5
    for name, rest in called:
        known = name if name in COMMANDS else name.split()[0]
        assert known in COMMANDS or known in USERS_PROGRAMS, f"python -m {name}"
        for option in re.findall(r"--[a-z][\w-]*", rest):
            assert known not in COMMANDS or option in long_names(known), f"python -m {name} {option}"


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


@pytest.mark.parametrize("name", JOBS)
def test_every_job_is_documented(documentation: str, name: str) -> None:
    assert f"`{name}`" in documentation


def test_every_target_of_make_is_described_and_every_one_spoken_of_is_there(documentation: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.MULTILINE))
    described = set(re.findall(r"^([a-z][\w-]*):.*## \S", makefile, flags=re.MULTILINE))
    assert targets == described
    spoken_of = set(re.findall(r"(?:`|^\$? *)make ([a-z][a-z-]*)", documentation, flags=re.MULTILINE))
    assert {"demo", "test"} <= spoken_of
    assert spoken_of <= targets, f"make {sorted(spoken_of - targets)}"


def test_links_between_the_documents_lead_somewhere() -> None:
    for document in documents():
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} points to {target}"
