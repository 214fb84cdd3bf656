"""`alerting list` on a terminal of 80 columns, once and again and again."""

import io
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console, ConsoleDimensions

from alerting.cli import commands, operator_cli, queries, rendering
from events.cli import UserFacingError
from events.times import now_ms
from tests.alerting import HOUR, MINUTE, SECOND, AlertingSimulation
from tests.support import eventually, run
from tests.terminal import NARROW, on_terminal


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[AlertingSimulation]:
    """Return an alerting database as a process fills it now."""
    simulation = AlertingSimulation(tmp_path / "db", now_ms=now_ms())
    yield simulation
    simulation.close()


def overview(sim: AlertingSimulation, size: ConsoleDimensions = NARROW) -> list[str]:
    """Return the lines that `list --watch` shows."""
    with queries.open_database(sim.path) as db:
        incidents = queries.list_incidents(db, sim.now_ms, only_open=True)
        silences = queries.list_silences(db, sim.now_ms)
    console = Console(width=size.width, file=io.StringIO(), force_terminal=False)
    console.print(rendering.overview(incidents, silences, sim.now_ms, size))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_80_columns_show_every_fact_that_an_operator_needs(sim: AlertingSimulation) -> None:
    acknowledged = sim.alert("rack-0007", site_id="berlin")
    sim.ack(acknowledged, by="ada")
    sim.alert("rack-0031", site_id="hamburg", rule="silent-sensor")
    sim.silence(2 * HOUR, "rack-0031", rule="silent-sensor")
    sim.now_ms += 5 * MINUTE + SECOND
    sim.alert("berlin", severity="critical", site_id="berlin", rule="site-outage")
    lines = overview(sim)
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Open incidents: 3. Silences: 1. At 20")
    words = " ".join(" ".join(lines).split())
    assert f"{acknowledged.alert_id[:8]} acknowledged error rack-overheating 5m01s" in words
    assert "rack-0007 at berlin," in words and "by ada" in words
    assert "silenced error silent-sensor 5m01s" in words and "1h54m left" in words
    assert "firing critical site-outage 0s berlin" in words
    assert "inhibited" in words


def test_what_a_terminal_has_no_room_for_is_counted(sim: AlertingSimulation) -> None:
    for number in range(40):
        sim.alert(f"rack-{number:04d}")
    for size in (NARROW, ConsoleDimensions(200, 24)):
        lines = overview(sim, size)
        assert len(lines) <= size.height
        shown = sum("rack-overheating" in line for line in lines)
        assert f"... and {40 - shown} older incidents" in lines
        assert "rack-0039" in lines[2], "the newest is the first"


@pytest.mark.parametrize("width", [80, 200])
def test_an_id_is_no_markup(sim: AlertingSimulation, width: int) -> None:
    sim.alert(alert_id="[/a]\x1bx")
    assert any("[/a]\ufffdx" in line for line in overview(sim, ConsoleDimensions(width, 24)))


def test_answers_to_operators_have_no_control_characters(
    sim: AlertingSimulation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "publish", lambda *_: None)
    subject = "rack\x1b[2J"
    alert = sim.alert(subject)
    operator_cli.ack([alert.alert_id], sim.path, by="ada\x1b")
    sim.ack(alert, by="ada\x1b")
    operator_cli.ack([alert.alert_id], sim.path)
    operator_cli.silence("lost-signal", subject, HOUR)
    operator_cli.unsilence("lost-signal", subject)
    sim.alert(subject, "NORMAL")
    with pytest.raises(UserFacingError) as refused:
        operator_cli.ack([alert.alert_id], sim.path)
    lines = [*capsys.readouterr().out.splitlines(), str(refused.value)]
    assert len(lines) == 5 and all("rack\ufffd[2J" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_watch_shows_changes_until_ctrl_c_and_exits_with_0(sim: AlertingSimulation) -> None:
    sim.alert("rack-0007")
    with on_terminal("alerting", "list", "--watch", f"--database={sim.path}") as (process, output):
        eventually(output, lambda text: "rack-0007" in text)
        sim.alert("rack-0008")
        eventually(output, lambda text: "rack-0008" in text and "Open incidents: 2" in text)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert "\x1b[?1049l" in output(), "the terminal shows again what it showed before"
        assert process.stderr is not None and process.stderr.read() == b""


def test_watch_without_a_terminal_or_with_json_ends_in_a_sentence(sim: AlertingSimulation) -> None:
    sentence = "alerting: --watch needs a terminal and shows no JSON: programs can read the topic"
    done = run("alerting", "list", "--watch", f"--database={sim.path}")
    assert done.returncode == 1
    assert done.stderr.startswith(sentence) and done.stderr.count("\n") == 1
    command = ("alerting", "list", "--watch", "--json", f"--database={sim.path}")
    with on_terminal(*command) as (process, _):
        assert process.wait(timeout=30) == 1
        assert process.stderr is not None
        assert process.stderr.read().decode().startswith(sentence)


def test_a_missing_database_ends_watch_in_a_sentence(tmp_path: Path) -> None:
    command = ("alerting", "list", "--watch", f"--database={tmp_path / 'db'}")
    with on_terminal(*command) as (process, _):
        assert process.wait(timeout=30) == 1
        assert process.stderr is not None
        message = process.stderr.read().decode()
    assert message.startswith(f"alerting: the database {tmp_path / 'db'} cannot be read")
    assert message.count("\n") == 1
