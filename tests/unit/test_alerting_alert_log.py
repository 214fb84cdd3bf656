"""The JSON line and the terminal line of an alert, and messages about malformed ones."""

import msgspec
import pytest

from alerting.alert_log import json_line, terminal_line
from alerting.decoding import NewAlert
from alerting.run_command import _report
from events.records import Alert
from tests.builders import alert_value

SEEN = "2026-11-21T06:30:00.000Z"


def new(value: bytes) -> NewAlert:
    return NewAlert(msgspec.json.decode(value, type=Alert), value.decode(), SEEN, 0)


def test_a_json_line_has_every_field_and_the_time_first_seen() -> None:
    value = alert_value(1, channel="pager")
    line = json_line(new(value))
    assert msgspec.json.decode(line) == {"first_seen_time": SEEN, **msgspec.json.decode(value)}


def test_an_alert_of_several_lines_is_logged_on_one() -> None:
    value = b" \r\n" + msgspec.json.format(alert_value(1, summary="two\nlines")) + b"\r\n"
    line = json_line(new(value))
    assert line.count("\n") == 1 and line.endswith("}\n")
    assert msgspec.json.decode(line)["summary"] == "two\nlines"


def test_a_terminal_line_shows_time_severity_rule_subject_summary_and_delay() -> None:
    assert terminal_line(new(alert_value(1))).plain == (
        "2026-11-21T06:26:00.123Z error    WARNING rack-overheating rack-0001 at site-1: "
        "Rack 1 is too hot. (detected after 0.4 s)"
    )


def test_an_alert_cannot_send_control_characters_to_the_terminal() -> None:
    line = terminal_line(
        new(alert_value(1, subject="rack\x1b[2J", summary="[bold]hot[/]\r\n\u202e"))
    ).plain
    assert "\x1b" not in line and "\r" not in line and "\n" not in line and "\u202e" not in line
    assert "[bold]hot[/]" in line


def test_a_malformed_value_cannot_send_control_characters_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _report("A record is not a valid alert (Invalid enum value '\x1b]0;owned\x07').")
    assert capsys.readouterr().err == (
        "alerting: A record is not a valid alert (Invalid enum value '\ufffd]0;owned\ufffd').\n"
    )
