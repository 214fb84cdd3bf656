"""Print what to expect of a demo, then the verdict as a table and a sentence."""

from collections.abc import Iterator
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from demo.comparison import Comparison
from demo.delays import Delay
from demo.verdict import Actual, Truth, Verdict, empty_rows
from events.constants import CONSECUTIVE_READINGS
from producer.faults import Overheating
from producer.scenario import Scenario

DIFFERENCES_SHOWN = 5
"""How many missing and how many wrong rows of each kind are listed."""
MAX_WIDTH = 200
"""How many characters wide the table may be; it needs 80 with counts of 100,000."""


def expectation(
    scenario: Scenario,
    bootstrap: str,
    folder: str,
    duration_s: float | None,
    *,
    clickstream: bool = True,
    rules: Path | None = None,
) -> str:
    """Return what is about to happen and what to look for.

    `rules` is the rules file, if that changes the overheating rule.
    """
    faults = [fault.racks for fault in scenario.faults if isinstance(fault, Overheating)]
    rule = (
        f"a rack overheats by {rules},\nand a NORMAL when it no longer does"
        if rules
        else f"a rack's last {CONSECUTIVE_READINGS} readings are all at\n"
        "or above its threshold, and a NORMAL when they no longer are"
    )
    hot = sum(racks if isinstance(racks, int) else len(racks) for racks in faults)
    rate = scenario.rate if scenario.rate == "max" else f"{scenario.rate:g}"
    end = "until Ctrl-C" if duration_s is None else f"for {duration_s:g} s"
    users = "Users see ads, click and act at the same time; their hours pass in seconds.\n"
    return (
        f"{scenario.racks} racks send {rate} readings/s {end} to a Kafka broker on {bootstrap}; "
        f"{hot} of them overheat.\n"
        f"{users if clickstream else ''}"
        f"Within half a minute you see a WARNING when {rule}: each exactly once, despite\n"
        "duplicates, late and malformed records. At the end a table compares actual with expected\n"
        "output.\n"
        f"Logs and data: {folder} (until the next demo). Ctrl-C ends it."
    )


def show(
    console: Console, truth: Truth, actual: Actual, verdict: Verdict, first_alert_s: float | None
) -> None:
    """Print the table, what is missing or wrong, and the conclusion."""
    table = Table(box=SIMPLE, collapse_padding=True, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("expected", "actual", "missing", "wrong", "delay p50", "max"):
        table.add_column(heading, justify="right", no_wrap=True)
    empty = empty_rows(truth, verdict.others)
    for name, compared in verdict.by_name.items():
        counts = (compared.expected, compared.actual, len(compared.missing), len(compared.wrong))
        fails = not compared.passed or name in empty
        table.add_row(
            name,
            *(f"{count:,}" for count in counts),
            *_delay_cells(verdict.delays.by_rule.get(name)),
            style="bold red" if fails else "",
        )
        if waiting := truth.not_due.get(name):
            table.add_row("  not due yet", f"{waiting:,}", style="dim")
    if early := verdict.delays.before_first_batch:
        label = "due before first batch"
        table.add_row(label, "", f"{early.alerts:,}", "", "", *_delay_cells(early), style="dim")
    # Lines may be longer than the terminal's: otherwise Rich cuts counts of a million.
    anywhere = console.options.update(width=MAX_WIDTH)
    table.width = console.measure(table, options=anywhere).maximum
    console.print(table, crop=False)
    summary = truth.summary
    console.print(
        f"sent: {summary['acknowledged']:,} records, of them {summary['duplicates']:,} duplicates, "
        f"{summary['late']:,} late, {summary['too_late']:,} too late, "
        f"{summary['out_of_order']:,} out of order, {summary['malformed']:,} malformed"
    )
    console.print(f"duplicate alerts, removed: {actual.repeats:,}")
    either = sum(compared.either for compared in verdict.by_name.values())
    console.print(f"indeterminate rows, not compared: {either:,}")
    if first_alert_s is not None:
        console.print(f"from start to first alert: {first_alert_s:.1f} s")
    for name, compared in verdict.by_name.items():
        for line in _differences(name, compared):
            console.print(line, style="red", markup=False)
    console.print(conclusion(verdict), style="bold green" if verdict.proves_all else "bold red")


def _delay_cells(delay: Delay | None) -> tuple[str, ...]:
    return (_seconds(delay.p50_s), _seconds(delay.max_s)) if delay else ()


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:,.0f} s"


def conclusion(verdict: Verdict) -> str:
    """Return the verdict, with the names of the outputs that failed, or that expected nothing."""
    lacks = ", ".join(verdict.shortfalls)
    if not verdict.passed:
        failed = {name: each for name, each in verdict.by_name.items() if not each.passed}
        missing = sum(len(each.missing) for each in failed.values())
        wrong = sum(len(each.wrong) for each in failed.values())
        sentence = f"FAILED in {', '.join(failed)}: {missing:,} missing, {wrong:,} wrong."
        return f"{sentence} Not proved: {lacks}." if lacks else sentence
    if lacks:
        return (
            "Nothing is missing or wrong, but what was sent is too little to prove anything: "
            f"{lacks}. Let every producer run for 60 s."
        )
    return "All outputs match the truth: 0 missing, 0 wrong."


def _differences(name: str, compared: Comparison) -> Iterator[str]:
    for kind, sentences in (("missing", compared.missing), ("wrong", compared.wrong)):
        for sentence in sentences[:DIFFERENCES_SHOWN]:
            yield f"{kind}: {sentence}"
        if len(sentences) > DIFFERENCES_SHOWN:
            yield f"{kind}: and {len(sentences) - DIFFERENCES_SHOWN:,} more of {name}"
