"""Each lesson has golden figures, and no figure of its stored output can change unseen."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from lessons.harness.catalogue import NAMES
from tests.unit.lessons_golden.output import CHECKS, Output, printed

for _path in sorted(Path(__file__).parent.glob("test_*.py")):
    import_module(f"{__package__}.{_path.stem}")

FIGURE = re.compile(r"\d+|\b(?:allowed|refused|True|False|null)\b|\(no rows\)")
OTHER_WORDS = {
    "allowed": "refused",
    "refused": "allowed",
    "True": "False",
    "False": "True",
    "null": "7",
    "(no rows)": "7",
}


def with_another_figure(text: str, figure: re.Match[str]) -> str:
    """Return an output in which one figure has another last digit, or says the opposite."""
    number = figure[0]
    another = OTHER_WORDS.get(number) or f"{number[:-1]}{(int(number[-1]) + 1) % 10}"
    return text[: figure.start()] + another + text[figure.end() :]


def passes(lesson: str, output: Output) -> bool:
    """Say whether all tests of a lesson's figures pass with an output."""
    try:
        for check in CHECKS[lesson]:
            check(output)
    except (AssertionError, LookupError, ValueError):
        return False
    return True


def unseen(lesson: str, text: str) -> list[str]:
    """Return the lines of an output that have a figure which may change without a failing test."""
    changed = ((m, with_another_figure(text, m)) for m in FIGURE.finditer(text))
    starts = [figure.start() for figure, other in changed if passes(lesson, Output(other))]
    numbers = sorted({text.count("\n", 0, start) for start in starts})
    return [text.splitlines()[number] for number in numbers]


def test_every_lesson_has_golden_figures() -> None:
    assert sorted(CHECKS) == sorted(NAMES)


@pytest.mark.parametrize("lesson", NAMES)
def test_no_figure_of_a_lesson_can_change_unseen(lesson: str) -> None:
    text = printed(lesson).text
    assert passes(lesson, Output(text))
    assert unseen(lesson, text) == []


def test_a_figure_that_no_test_states_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def states_the_count(output: Output) -> None:
        assert output["late"].batches == {0: [("10:20", "open", 2)]}

    monkeypatch.setitem(CHECKS, "late_rows", [states_the_count])
    text = "late\nbatch 0\n  start  action  count\n  10:20  open    2\n"
    assert unseen("late_rows", text) == []
    assert unseen("late_rows", f"{text}1 row was late: True\n") == ["1 row was late: True"]
