"""`docker compose up`: every rule within two minutes, and a verdict on all that the jobs write."""

import json
import os
import re
from collections.abc import Sequence

import pytest

from demo.comparison import Row
from demo.verdict import CLOSED_WINDOWS
from events.catalog import RULES
from events.times import now_ms
from events.topics import ALERTS
from tests.containers.operator_commands import OPEN_INCIDENT, operator_commands
from tests.containers.stack import ONE_SHOTS, Stack
from tests.demo import RULES_IN_BOTH_STATES, VERDICT_ROWS, table_of
from tests.promises import Promises
from tests.support import SPARK_STARTS_WITHIN_S, above, equal_to, eventually

EACH_VERDICT = "EACH_VERDICT" in os.environ
"""The long form: a verdict after the start, after kills one by one, and after `down` and `up`.

The last verdict waits for closed windows. Then one part after the other is stopped. The short form
kills first what starts quickly, and then the drivers; those in micro-batches continue in new
containers. It has one verdict, at its end. It stops `closed-windows` once that is healthy, for it
lasts half as long as the first window takes to be closed.
"""
pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.timeout(3000 if EACH_VERDICT else 1500),
]

PROMISED_FIRST_ALERT_S = 90.0
PROMISED_EVERY_RULE_S = 120.0
# An idle machine needs a minute (docs/cold-start.md); a developer's machine may be busy.
FIRST_ALERT_WITHIN_S = float(os.environ.get("FIRST_ALERT_WITHIN_S", "240"))
ALL_RULES_WITHIN_S = 1.5 * FIRST_ALERT_WITHIN_S
PRODUCERS = ("producer", "clickstream")
QUICK = ("alerting", "dashboard", *PRODUCERS, "kafka")
"""What is healthy within seconds of its restart."""
REAL_TIME, MICRO_BATCH, CLOSING = "real-time", "micro-batch", "closed-windows"
PROGRAMS = (*QUICK, REAL_TIME, MICRO_BATCH, CLOSING)
STOPPED = ("real-time", "micro-batch", "alerting", "dashboard", "producer")
UNHEALTHY_WITHIN_S = 180.0
"""Without a broker: 30 s by the health commands, until three checks have failed, one per 30 s."""
WINDOWS_ARE_CLOSED_S = 16 * 60.0
"""A window is closed 10 to 15 minutes after its first reading."""
LIST_OPEN = ("alerting", "python", "-m", "alerting", "list", "--json")


def run_operator_commands(stack: Stack, *, compaction: bool) -> None:
    """Run the commands of the docs: the compaction, which needs the archive, or all others."""
    for words in operator_commands():
        if ("compact" in words) == compaction:
            run_operator_command(stack, words)


def run_operator_command(stack: Stack, words: Sequence[str]) -> None:
    """Run a command of the docs as it is written, with an ID of an open incident for `ID`.

    It is run again if it fails: the incident may have been resolved since it was listed, the
    archive may not have begun after a kill, and another compaction may be running.
    """

    def error() -> str:
        filled_in = list(words)
        if OPEN_INCIDENT in words:
            listed = stack.command("exec", "--no-TTY", *LIST_OPEN)
            if not listed:
                return "no incident is open"
            newest = json.loads(listed.splitlines()[0])["alert_id"]
            filled_in = [newest if word == OPEN_INCIDENT else word for word in words]
        done = stack.attempt("exec", "--no-TTY", *filled_in)
        return done.stdout + done.stderr if done.returncode else ""

    # A failed command has taken a second of a processor from what it waits for.
    eventually(error, equal_to(""), timeout_s=SPARK_STARTS_WITHIN_S, every_s=10)


def assert_all_is_right(stack: Stack, *, closed_windows: bool = False) -> None:
    """Run the verdict, which must have each row and find nothing missing or wrong.

    With `closed_windows` some of them are due.
    """
    status, text = stack.verdict()
    print(f"\n{text}")  # noqa: T201 - for docs/operations.md
    assert "All outputs match the truth: 0 missing, 0 wrong." in text, text
    assert status == 0, text
    table = table_of(text)
    assert set(table) - {CLOSED_WINDOWS} == {*VERDICT_ROWS}
    expect_nothing = {name for name, (expected, *_) in table.items() if not expected}
    assert expect_nothing <= (set() if closed_windows else {CLOSED_WINDOWS})
    assert CLOSED_WINDOWS in table or not closed_windows


def seen_rules(stack: Stack) -> set[tuple[str, str]]:
    """Return the rules and states of the alerts that alerting has logged."""
    return {(alert["rule"], alert["state"]) for alert in stack.alerts()}


def await_page(stack: Stack) -> None:
    """Wait until the dashboard's page answers on its port of this machine."""
    eventually(stack.page, lambda page: "<title>Rackstream</title>" in page, timeout_s=60)


def assert_each_stop_is_visible(stack: Stack) -> None:
    """Stop one part after the other, which `docker compose ps --all` must show, and nothing else.

    Without the broker no other part works.
    """
    stack.await_healthy()
    for name in STOPPED:
        stack.command("stop", "--timeout", "30", name)
        assert stack.not_working() == {name: "exited"}, f"{name} was stopped"
        stack.start(name)
        stack.await_healthy()
    stack.command("stop", "--timeout", "30", "kafka")
    stopped_ms = now_ms()
    shown = eventually(
        stack.not_working,
        lambda shown: shown.keys() == {*PROGRAMS},
        timeout_s=UNHEALTHY_WITHIN_S,
        every_s=5,
    )
    print(f"\n{(now_ms() - stopped_ms) / 1000:.0f} s after the broker was stopped: {shown}")  # noqa: T201 - for docs
    assert shown["kafka"] == "exited"
    stack.start("kafka")
    stack.await_healthy()


def checkpointed_queries(stack: Stack) -> set[str]:
    """Return the ids of the queries that have a checkpoint: a new one gets a new id."""
    metadata = "cat /var/lib/rackstream/checkpoints/*/*/*/*/*/metadata"
    text = stack.command("exec", "--no-TTY", "micro-batch", "sh", "-c", metadata)
    return set(re.findall(r'"id":"([0-9a-f-]{36})"', text))


def await_every_rule_and_more(stack: Stack) -> None:
    """Wait until every rule has alerts, and more have been logged than now.

    A stop may come before a rule's first alert, and a verdict fails where a row expects none.
    """
    before = len(stack.alerts())

    def enough(seen: list[Row]) -> bool:
        return {alert["rule"] for alert in seen} == set(RULES) and len(seen) > before + 4

    stack.await_alerts(enough, timeout_s=300)


def test_everything_comes_out_right_despite_kills_and_after_a_restart(
    stack: Stack, promises: Promises
) -> None:
    began_ms = now_ms()

    def took_s() -> float:
        return (now_ms() - began_ms) / 1000

    stack.up()
    stack.await_alerts(lambda seen: len(seen) >= 2, timeout_s=FIRST_ALERT_WITHIN_S, every_s=1)
    first_alert_s = took_s()
    print(f"\nfrom docker compose up to the first alerts: {first_alert_s:.1f} s")  # noqa: T201 - for docs
    if EACH_VERDICT:
        stack.await_alerts(
            lambda seen: {alert["rule"] for alert in seen} == set(RULES),
            timeout_s=ALL_RULES_WITHIN_S,
        )
        every_rule_s = took_s()
        print(f"to an alert of every rule: {every_rule_s:.1f} s")  # noqa: T201 - for docs/tuning.md
        in_both_states = RULES_IN_BOTH_STATES.__le__
        eventually(lambda: seen_rules(stack), in_both_states, timeout_s=ALL_RULES_WITHIN_S)
        print(f"to both states of every rule: {took_s():.1f} s")  # noqa: T201 - for docs/tuning.md
    await_page(stack)
    for name, found in zip(PROGRAMS, stack.inspect(*PROGRAMS), strict=True):
        assert found["State"]["Running"], name
        assert found["HostConfig"]["Memory"] > 0, name
        assert found["Config"]["User"] not in ("", "0", "root"), name
    stack.await_healthy(*PROGRAMS)
    for name, found in zip(ONE_SHOTS, stack.inspect(*ONE_SHOTS), strict=True):
        assert found["State"]["ExitCode"] == 0, name
    run_operator_commands(stack, compaction=False)

    if EACH_VERDICT:
        assert_all_is_right(stack)
        stack.up()

    # Crashed services restart.
    stack.await_history()
    if EACH_VERDICT:
        for name in PROGRAMS:
            stack.kill(name)
        await_every_rule_and_more(stack)
        await_page(stack)
        stack.compact("micro-batch", "single-broker")
        assert_all_is_right(stack)
    else:
        stack.command("stop", CLOSING)
        stack.kill(*QUICK, REAL_TIME)
        stack.await_healthy(*QUICK, REAL_TIME)
        await_page(stack)
        stack.kill(MICRO_BATCH)
    print(f"to the end of the kills: {took_s():.1f} s")  # noqa: T201 - for docs

    # `down` removes the containers and keeps their data, from which new ones continue.
    logged, queries = {row["alert_id"] for row in stack.alerts()}, checkpointed_queries(stack)
    assert queries
    stack.command("down", "--timeout", "20")
    assert stack.command("ps", "--all", "--quiet") == ""
    stack.up(without=() if EACH_VERDICT else (CLOSING,))
    await_every_rule_and_more(stack)
    print(f"to alerts after down and up: {took_s():.1f} s")  # noqa: T201 - for docs
    if not EACH_VERDICT:
        # As the verdict does later. The archive begins last, and sooner without their records.
        stack.command("stop", "--timeout", "60", *PRODUCERS)
    run_operator_commands(stack, compaction=True)
    if EACH_VERDICT:
        eventually(took_s, above(WINDOWS_ARE_CLOSED_S), timeout_s=WINDOWS_ARE_CLOSED_S, every_s=5)
    assert_all_is_right(stack, closed_windows=EACH_VERDICT)
    print(f"to the verdict: {took_s():.1f} s")  # noqa: T201 - for docs
    assert logged <= {
        json.loads(record.value or b"")["alert_id"] for record in stack.kafka.read_all(ALERTS)
    }
    assert logged <= {row["alert_id"] for row in stack.alerts()}
    # With new checkpoints, the jobs would repeat all outputs with the same ids.
    assert queries <= checkpointed_queries(stack)
    if EACH_VERDICT:
        stack.up()
        assert_each_stop_is_visible(stack)
    # A missed promise is excused by an overloaded machine, but not by the containers' load.
    stack.command("down", "--timeout", "3")
    if EACH_VERDICT:
        promises.compare("every rule of the containers", every_rule_s, PROMISED_EVERY_RULE_S)
    promises.compare("first alert of the containers", first_alert_s, PROMISED_FIRST_ALERT_S)
