"""Every lesson has its page, data, expected output and explanation."""

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from events.cli import END_SIGNALS
from events.settings import Settings
from lessons.__main__ import app
from lessons.harness import catalogue, pages, runner
from lessons.harness.broker import LazyBroker
from lessons.harness.catalogue import LESSONS, NAMES, Lesson, load
from lessons.harness.runner import difference_from_expected

LONGEST = 110
"""Most lines of a lesson, docstring included."""


@pytest.mark.parametrize("number", END_SIGNALS)
def test_a_signal_that_ends_the_program_stops_the_broker_and_leaves_no_files(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = list[bool]()
    monkeypatch.setattr(LazyBroker, "stop", lambda _: stopped.append(True))
    monkeypatch.setattr(runner, "_session", lambda *_: os.kill(os.getpid(), number))
    handlers = {each: signal.signal(each, signal.default_int_handler) for each in END_SIGNALS}
    try:
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit):
            runner.run_lessons(
                [], Settings(rackstream_home=tmp_path), keep=False, accept=False, echo=print
            )
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert stopped == [True]
    assert list((tmp_path / "lessons").iterdir()) == []


def test_every_module_is_in_a_chapter_and_every_chapter_lists_modules() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in LESSONS.glob("[!_]*.py"))


def test_every_output_and_data_folder_belongs_to_a_lesson() -> None:
    assert {path.stem for path in (LESSONS / "expected").iterdir()} <= set(NAMES)
    assert {path.name for path in (LESSONS / "data").iterdir()} <= set(NAMES)


def problems(lesson: Lesson) -> list[str]:
    """Return what a lesson lacks."""
    files = [path for path in lesson.data.rglob("*") if path.is_file()]
    text = " ".join([lesson.explanation, *lesson.parts.values()])
    mentioned = set(re.findall(r"\(lesson (\w+)\)", text))
    checks = {
        "no title": lesson.title,
        "no explanation": lesson.explanation,
        "nothing to notice": lesson.parts.get("Notice"),
        "nothing about production": lesson.parts.get("In production"),
        "no expected output": lesson.expected.exists()
        and lesson.expected.read_text(encoding="utf-8").strip(),
        "neither data files nor a reason": files or "Data" in lesson.parts,
        "data files and a reason for none": not (files and "Data" in lesson.parts),
        "an empty data file": all(path.stat().st_size for path in files),
        f"over {LONGEST} lines": len(lesson.source.splitlines()) <= LONGEST,
        f"mentions unknown lessons {sorted(mentioned - set(NAMES))}": mentioned <= set(NAMES),
    }
    return [problem for problem, passes in checks.items() if not passes]


def test_every_lesson_is_complete_and_small() -> None:
    found = {name: problems(load(name)) for name in NAMES}
    assert {name: lacks for name, lacks in found.items() if lacks} == {}


def test_each_problem_of_a_lesson_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "LESSONS", tmp_path)
    (tmp_path / "data" / "bad").mkdir(parents=True)
    (tmp_path / "expected").mkdir()
    (tmp_path / "expected" / "bad.txt").write_text("\n")
    parts = {"Data": "see (lesson no_such)"}
    bad = replace(load("late_rows"), name="bad", title="", explanation="", parts=parts)
    bad = replace(bad, source="\n" * (LONGEST + 1))
    expected = [
        "no title",
        "no explanation",
        "nothing to notice",
        "nothing about production",
        "no expected output",
        f"over {LONGEST} lines",
        "mentions unknown lessons ['no_such']",
    ]
    assert problems(bad) == expected
    (tmp_path / "data" / "bad" / "empty.json").touch()
    assert problems(bad)[5:7] == ["data files and a reason for none", "an empty data file"]
    assert "neither data files nor a reason" in problems(replace(bad, name="other", parts={}))


def test_the_generated_pages_are_up_to_date() -> None:
    assert pages.stale() == [], "run python -m lessons pages"


def test_missing_pages_are_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    assert len(pages.stale()) == len(NAMES) + 1


def test_a_different_output_is_shown_line_by_line() -> None:
    difference = difference_from_expected(load("late_rows"), "something else\n")
    assert "-batch 0" in difference
    assert "+something else" in difference


def test_links_in_the_pages_exist() -> None:
    for page, text in pages.pages().items():
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "no_such"], "there is no lesson 'no_such'"),
        (["run"], "name the lessons to run, or use --all"),
    ],
)
def test_a_wrong_command_is_explained(arguments: list[str], words: str) -> None:
    assert words in str(CliRunner().invoke(app, arguments).exception)


def test_list_and_show_print_names_and_source() -> None:
    listed = CliRunner().invoke(app, ["list"]).output
    assert all(f"  {name} " in listed for name in NAMES)
    assert CliRunner().invoke(app, ["show", "late_rows"]).output.startswith('"""Late rows')
