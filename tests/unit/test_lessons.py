"""Every lesson has its page, data, expected output and explanation, and golden figures hold."""

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lessons.__main__ import app
from lessons.harness import catalogue, pages
from lessons.harness.catalogue import LESSONS, NAMES, Lesson, load
from lessons.harness.runner import difference_from_expected

LONGEST = 110
"""Most lines of a lesson, docstring included."""


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


def test_plain_python_computes_the_same_step_sums() -> None:
    first = [
        json.loads(line)
        for line in (LESSONS / "data/steps/first.json").read_text(encoding="utf-8").splitlines()
    ]
    moments = [datetime.fromisoformat(event["timestamp"]).replace(tzinfo=UTC) for event in first]
    steps = [event["num_steps"] for event in first]
    for at in range(2, 8_712):
        moments.append(moments[1] + timedelta(seconds=50 * (at - 1)))
        steps.append(1_000 + at * 7_919 % 9_000)
    sums: dict[datetime, int] = defaultdict(int)
    for moment, number in zip(moments, steps, strict=True):
        sums[moment - timedelta(seconds=moment.timestamp() % 300)] += number
    watermark = max(moments) - timedelta(minutes=10)
    closed = {
        start: total for start, total in sums.items() if start + timedelta(minutes=5) <= watermark
    }
    text = load("steps").expected.read_text(encoding="utf-8")
    assert (
        f"at once: {len(closed)} windows closed, {sum(closed.values()):,} of {sum(steps):,} steps"
        in text
    )
    assert f"file by file: {len(closed)} windows closed, {sum(closed.values()):,} of" in text
    assert len(closed) == 1_450
    for start in sorted(closed)[:3]:
        window = f"{{{start:%Y-%m-%d %H:%M:%S}, {start + timedelta(minutes=5):%Y-%m-%d %H:%M:%S}}}"
        assert f"{window}  {closed[start]}\n" in text


# Figures from published lessons, and figures measured with this Spark version.
GOLDEN = {
    "console_sink": [
        "{2018-03-02 10:10:00, 2018-03-02 10:20:00}|open  |2 ",
        "{2018-03-02 10:00:00, 2018-03-02 10:10:00}|close |6 ",
        "{2018-03-02 10:00:00, 2018-03-02 10:10:00}|open  |8 ",
    ],
    "late_rows": [
        "1      0        2018-03-02 10:23:50  0 ",
        "10:20  open    2\n  batch",
        "10:10  open    2",
    ],
    "user_minutes": [
        "10:00   user1  2\n  10:01   user1  1\n  10:01   user2  1\n  10:02   user2  1",
    ],
    "window_sums": ["09:59:00  10:01:00  6\n  10:00:00  10:02:00  21\n  10:01:00  10:03:00  15"],
    "actions_per_hour": [
        "7356 events",
        *(
            f"Jul-26 0{hour}:00  {action:<6}  {count}\n"
            for hour, *counts in (
                (2, 11, 179),
                (3, 344, 1001),
                (4, 815, 999),
                (5, 1003, 1000),
                (6, 1011, 993),
            )
            for action, count in zip(("Close", "Open"), counts, strict=True)
        ),
        "the same: True",
    ],
    "late_rows_counted": [
        "hour: 10000 rows were late",
        "2      10000    2018-03-02 09:50:00  2784",
        "2      10000    2018-03-02 09:50:00  10000",
    ],
    "running_count": [
        "user1  1\n  user2  1\nbatch 1\n  user   count\n  user1  2\n  user2  1\n  user3  1",
    ],
    "parquet_sink": ["complete  refused, STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"],
    "rack_warning": ["rack1  WARNING  08:16:04", "rack2  WARNING  08:16:08"],
    "watching_a_query": [
        "'Waiting for data to arrive', 'isDataAvailable': False, 'isTriggerActive': False",
    ],
    "unsupported_operations": [
        "limit\n  append    allowed\n  update    refused",
        "distinct\n  append    allowed\n  update    allowed",
        "two aggregations\n  append    allowed\n  update    refused",
    ],
    "bad_records": ["a folder for bad records was made: False"],
    "sensor_alerts": [
        "ALERT from Sensors: Between 10:00:00 and 10:00:05, device 2 reported only 2 times",
    ],
}


def test_the_golden_figures_are_in_the_expected_outputs() -> None:
    texts = {name: load(name).expected.read_text(encoding="utf-8") for name in GOLDEN}
    missing = {name: [f for f in GOLDEN[name] if f not in text] for name, text in texts.items()}
    assert {name: figures for name, figures in missing.items() if figures} == {}


def test_two_consecutive_hot_readings_give_no_warning() -> None:
    warned = Counter(
        re.findall(r"(rack\d)  WARNING", load("rack_warning").expected.read_text(encoding="utf-8"))
    )
    assert warned == {"rack1": 3, "rack2": 3}  # the lesson runs three times


def test_rack_averages_equal_the_golden_values() -> None:
    text = load("rack_averages").expected.read_text(encoding="utf-8")
    averages = [99.5, 99.5, 100.0, 102.5, 100.75, 104.75, 101.5, 106.0, 102.0, 108.0]
    update = text.partition("batch 1")[0]
    assert [float(number) for number in re.findall(r"rack\d  ([\d.]+)", update)] == averages
