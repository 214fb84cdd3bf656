"""Compare transcripts in the README and the docs with what a program prints today."""

import re
from collections.abc import Iterable

import msgspec

from alerting.alert_log import terminal_line
from alerting.decoding import NewAlert
from events.records import Alert
from events.times import to_ms
from tests.support import ROOT


def transcript(page: str = "README.md", command: str = "$ make demo") -> list[str]:
    """Return the lines that a page shows below a command, up to the end of the block.

    A line `…` stands for lines that the page leaves out, and is not returned.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    below = rf"^{re.escape(command)}.*\n((?:.+\n)+?)```"
    found = re.search(below, text, flags=re.MULTILINE)
    assert found, f"{page} shows no transcript of {command}"
    return [line for line in found[1].splitlines() if line != "…"]


def longer_than_the_run(shown: Iterable[str]) -> str | None:
    """Say how far the alerts of a transcript lie apart, if that is longer than it says it ran.

    Alerts show event times. Those of readings, and of silences that end, lie within the run.
    """
    text = "\n".join(shown)
    duration = re.search(r" for ([\d.]+) s ", text)
    times = [to_ms(time) for time in re.findall(r"^\d{4}-\S+Z", text, flags=re.MULTILINE)]
    assert duration, "the transcript does not say how long the demo ran"
    assert times, "the transcript shows no alert"
    seconds = (max(times) - min(times)) / 1000
    return f"{seconds} s in a run of {duration[1]} s" if seconds > float(duration[1]) else None


def as_on_a_terminal(alert: dict[str, object]) -> str:
    """Return the line that a terminal shows for an alert that was printed as JSON."""
    decoded = msgspec.convert(alert, Alert)
    return terminal_line(NewAlert(decoded, "", decoded.detected_time, 0)).plain


def not_printed(printed: Iterable[str]) -> list[str]:
    """Return the lines of the transcript that are not among the printed ones.

    Times, numbers, ids and the widths of columns are ignored, and the rest of a line behind `…`.
    """
    known = [_without_values(line) for line in printed]
    return [
        line
        for line in transcript()
        if not any(_matches(_without_values(line), other) for other in known)
    ]


def _matches(shown: str, printed: str) -> bool:
    start, ellipsis, _ = shown.partition("…")
    return printed.startswith(start) if ellipsis else printed == shown


def _without_values(line: str) -> str:
    line = re.sub(r"\bsite-[\w-]+", "SITE", line)
    line = re.sub(r"\d[\d.,TZ-]*(:\d[\d.,TZ]*)*", "#", line)
    return " ".join(line.split())
