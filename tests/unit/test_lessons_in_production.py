"""The line "In production" of each lesson: its links lead to jobs, and all it names exists."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from events.catalog import JOBS
from events.topics import ALL
from lessons.harness import pages
from lessons.harness.catalogue import NAMES, Lesson, load
from tests.support import ROOT

# Values and calls, which no list of the repository has.
VALUES = {"either", "min", "Z"}


def codes(lesson: Lesson) -> list[str]:
    """Return what a lesson's line has in code, each on one line."""
    text = " ".join(lesson.parts["In production"].split())
    return re.findall(r"`([^`]+)`", text)


def jobs_of(lesson: Lesson) -> set[str]:
    """Return the jobs that a lesson's line names."""
    return {code.split()[0] for code in codes(lesson)} & set(JOBS)


def existing_words() -> set[str]:
    """Return the jobs, topics and fields, and the options and commands of the documentation."""
    commands = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    fields = {field for topic in ALL if topic.record for field in topic.record.__struct_fields__}
    return (
        {*JOBS, *VALUES, *fields}
        | {topic.name for topic in ALL}
        | set(re.findall(r"^\| `(--[\w-]+)` ", commands, re.MULTILINE))
        | set(re.findall(r"^## `(.+)`$", commands, re.MULTILINE))
        | {f"make {name}" for name in re.findall(r"^([\w-]+):", makefile, re.MULTILINE)}
    )


def unknown(lesson: Lesson, existing: set[str]) -> list[str]:
    """Return what a lesson's line names that does not exist; a command may have arguments."""

    def exists(code: str) -> bool:
        options = set(re.findall(r"--[\w-]+", code))
        known = any(code == word or code.startswith(f"{word} ") for word in existing)
        return known and options <= existing

    return [code for code in codes(lesson) if not (exists(code) or (ROOT / code).exists())]


def links_of(page: str) -> dict[str, str]:
    """Return the target of each link in a page's line, by the job that it names."""
    line = page.partition("**In production.**")[2].partition("\n\n")[0]
    found = re.findall(r"\[`([^`]+)`\]\(([^)\s]+)\)", line)
    return {" ".join(code.split()).split()[0]: target for code, target in found}


def test_every_line_names_a_job_or_says_that_none_uses_it() -> None:
    nameless = {
        name
        for name in NAMES
        if not jobs_of(load(name)) and "No job uses it" not in load(name).parts["In production"]
    }
    assert nameless == set()


def test_every_job_in_a_line_is_a_link_to_its_module() -> None:
    followed = 0
    for page, text in pages.pages().items():
        if page.stem not in NAMES:
            continue
        links = links_of(text)
        assert set(links) == jobs_of(load(page.stem)), page.name
        for job, target in links.items():
            module = (page.parent / target).resolve().relative_to(ROOT).with_suffix("")
            assert import_module(".".join(module.parts)).JOB.name == job, page.name
            followed += 1
    assert followed > len(NAMES) / 2


def test_all_that_a_line_names_exists() -> None:
    existing = existing_words()
    found = {name: unknown(load(name), existing) for name in NAMES}
    assert {name: words for name, words in found.items() if words} == {}


def test_a_job_that_is_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "`user_totals`, `user_sums` and `user_totals --no-such` do this; `python -m nothing` not."
    )
    lesson = replace(load("late_rows"), parts={"In production": text})
    assert unknown(lesson, existing_words()) == [
        "user_sums",
        "user_totals --no-such",
        "python -m nothing",
    ]
    monkeypatch.setattr(pages, "JOBS", ("user_sums",))
    with pytest.raises(LookupError, match="user_sums needs exactly one module"):
        pages._with_links_to_jobs(text)


def test_a_linked_line_stays_within_the_width_of_a_page() -> None:
    text = "word " * 30 + "`user_totals --state-retention ttl` " + "word " * 30
    linked = pages._wrapped(pages._with_links_to_jobs(text))
    target = Path("../../spark_jobs/clickstream/user_totals.py")
    assert f"ttl`]({target})" in " ".join(linked.split())
    assert max(map(len, linked.splitlines())) <= pages.WIDTH
