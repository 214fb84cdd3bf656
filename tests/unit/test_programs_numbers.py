"""What the command lines say about numbers that nothing can use."""

import pytest

from tests.support import run


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--lost-signal-watermark", "nan", "of seconds from 0 to 2592000"),
        ("--lost-signal-watermark", "inf", "of seconds from 0 to 2592000"),
        ("--history-hours", "nan", "of hours from 0.1 to 87600"),
        ("--history-hours", "inf", "of hours from 0.1 to 87600"),
        ("--history-hours", "0.0", "of hours from 0.1 to 87600"),
        ("--linger-ms", "nan", "of milliseconds from 0 to 900000"),
        ("--first-sequence", "9" * 20, f"from {-(10**18)} to {10**18}"),
    ],
)
def test_a_number_that_nothing_can_use_is_one_sentence(
    option: str, value: str, expected: str
) -> None:
    done = run("producer", "run", f"{option}={value}", "--ledger=none", "--count=1")
    assert done.returncode == 1
    assert done.stderr == f"producer: {option} {value} is not a number {expected}.\n"
