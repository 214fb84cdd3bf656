"""What the demo says: what to expect, and the verdict as a table and a sentence."""

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from demo.comparison import Comparison
from demo.verdict import Seen, Truth, Verdict
from producer.faults import Overheating
from producer.scenario import Scenario

SHOWN = 5
"""So many missing and wrong ones are told one by one."""


def expectation(scenario: Scenario, bootstrap: str, folder: str, duration_s: float | None) -> str:
    """Return what is about to happen and what to look for."""
    named = [fault.racks for fault in scenario.faults if isinstance(fault, Overheating)]
    hot = sum(racks if isinstance(racks, int) else len(racks) for racks in named)
    rate = scenario.rate if scenario.rate == "max" else f"{scenario.rate:g}"
    end = "until Ctrl-C" if duration_s is None else f"for {duration_s:g} s"
    return (
        f"{scenario.racks} racks send {rate} readings/s {end} to a Kafka broker on {bootstrap}; "
        f"{hot} of them overheat.\n"
        "Beside them come ad impressions, clicks and actions of users, whose hours pass in seconds.\n"
        "Expect, in half a minute or less, a WARNING when a rack's last three readings are at or above its\n"
        "threshold, and a NORMAL when they no longer are: each once, whatever comes twice, late or spoiled. At the\n"
        "end a table holds all that came out to what had to: alerts, windows, attributions, sessions and totals.\n"
        f"Logs and data: {folder} (until the next demo). Ctrl-C ends it."
    )


def show(console: Console, truth: Truth, seen: Seen, verdict: Verdict, first_alert_s: float | None) -> None:
    """Print the table, and what is missing or wrong."""
    table = Table("", "expected", "seen", "missing", "wrong", box=SIMPLE)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, compared in verdict.by_name.items():
        counts = (compared.expected, compared.seen, len(compared.missing), len(compared.wrong))
        table.add_row(name, *(f"{count:,}" for count in counts), style="" if compared.holds else "bold red")
    console.print(table)
    summary = truth.summary
    console.print(
        f"sent: {summary['acknowledged']:,} records, of them {summary['duplicates']:,} duplicates, "
        f"{summary['late']:,} late, {summary['too_late']:,} too late, "
        f"{summary['out_of_order']:,} out of order, {summary['malformed']:,} malformed"
    )
    console.print(f"alerts sent again, and removed: {seen.repeats:,}")
    either = sum(compared.either for compared in verdict.by_name.values())
    console.print(f"rows not compared, as they depend on when what came: {either:,}")
    if first_alert_s is not None:
        console.print(f"from start to the first alert: {first_alert_s:.1f} s")
    for name, compared in verdict.by_name.items():
        for line in _complaints(name, compared):
            console.print(line, style="red")
    console.print(
        conclusion(verdict), style="bold green" if verdict.holds and not verdict.shortfalls else "bold red"
    )


def conclusion(verdict: Verdict) -> str:
    """Return the verdict in one sentence."""
    if not verdict.holds:
        compared = (verdict.alerts, verdict.dead_letters, verdict.windows)
        missing, wrong = sum(len(c.missing) for c in compared), sum(len(c.wrong) for c in compared)
        return f"Not what had to come out: {missing:,} missing, {wrong:,} wrong."
    if verdict.shortfalls:
        return (
            "Nothing is missing or wrong, but the scenario was too short to prove anything: "
            f"{', '.join(verdict.shortfalls)}. Let it run for 60 s."
        )
    return "Everything that had to come out did, once, and nothing else: 0 missing, 0 wrong."


def _complaints(name: str, compared: Comparison) -> Iterator[str]:
    for kind, which in (("missing", compared.missing), ("wrong", compared.wrong)):
        for text in which[:SHOWN]:
            yield f"{kind}: {text}"
        if len(which) > SHOWN:
            yield f"{kind}: and {len(which) - SHOWN:,} more {name}"
