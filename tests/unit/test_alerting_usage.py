"""What the command line says about missing databases, wrong values and wrong usage."""

from pathlib import Path

import pytest

from alerting.store import Store
from broker.server import free_port
from tests.support import run


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["list", "--database=none"], "alerting: the database none cannot be read"),
        (["show", "abc", "--database=none"], "alerting: the database none cannot be read"),
        (
            ["silence", "--rule=lost-signal", "--subject=r", "--for=0s"],
            "alerting: --for must be greater than 0",
        ),
        (
            ["silence", "--rule=lost-signal", f"--subject={'ä' * 200}", "--for=1h"],
            "alerting: a subject has at most",
        ),
        (
            ["run", "--database=none", "--remind-after=0"],
            "alerting: --remind-after must be greater than 0",
        ),
    ],
)
def test_a_users_mistake_ends_in_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run("alerting", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(sentence) and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("log_file", "dead_letters", "named"),
    [
        ("./db", "dead", "--log-file and --database"),
        ("db-wal", "dead", "--log-file and --database"),
        ("link", "dead", "--log-file and --database"),
        ("log", "db", "ALERTING_DEAD_LETTERS and --database"),
        ("log", "./log", "--log-file and ALERTING_DEAD_LETTERS"),
    ],
)
def test_a_file_for_two_purposes_is_refused(
    tmp_path: Path, log_file: str, dead_letters: str, named: str
) -> None:
    (tmp_path / "link").symlink_to("db")
    done = run(
        "alerting",
        "run",
        f"--database={tmp_path / 'db'}",
        f"--log-file={tmp_path}/{log_file}",
        "--idle-exit=0",
        env={
            "ALERTING_DEAD_LETTERS": f"{tmp_path}/{dead_letters}",
            "KAFKA_BOOTSTRAP_SERVERS": f"localhost:{free_port()}",
        },
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"alerting: {named} name the same file")
    assert not (tmp_path / "db").exists()


def test_an_invalid_duration_or_rule_is_wrong_usage() -> None:
    for wrong in (["--rule=lost-signal", "--for=soon"], ["--rule=lost", "--for=1h"]):
        done = run("alerting", "silence", "--subject=rack-1", *wrong)
        assert done.returncode == 2 and "Traceback" not in done.stderr


def test_an_argument_that_is_not_utf_8_is_wrong_usage(tmp_path: Path) -> None:
    with Store(tmp_path / "\udcff"):
        pass
    database = f"--database={tmp_path}/\udcff"
    for arguments, named in (
        (["silence", "--rule=lost-signal", "--subject=\udcff", "--for=1h"], "\\udcff"),
        (["show", database, "\udcfe"], "\\udcfe"),
    ):
        done = run("alerting", *arguments)
        assert done.returncode == 2
        assert done.stderr == f"alerting: '{named}' is not UTF-8: correct that argument.\n"
    assert run("alerting", "list", database).stdout == "No open incidents.\n"


def test_a_limit_may_be_any_number(tmp_path: Path) -> None:
    with Store(tmp_path / "db"):
        pass
    done = run("alerting", "history", f"--database={tmp_path / 'db'}", f"--limit={10**20}")
    assert (done.stdout, done.stderr) == ("No such incidents.\n", "")


def test_the_database_is_a_setting_that_the_option_overrides(tmp_path: Path) -> None:
    with Store(tmp_path / "db"):
        pass
    env = {"ALERTING_DATABASE": str(tmp_path / "db")}
    assert run("alerting", "list", env=env).stdout == "No open incidents.\n"
    assert run("alerting", "counts", env=env).stdout.startswith("0 alerts")
    overridden = run("alerting", "list", "--database=none", env=env)
    assert overridden.stderr.startswith("alerting: the database none cannot be read")
    default = run("alerting", "list", env={"ALERTING_DATABASE": "", "RACKSTREAM_HOME": "no-home"})
    assert default.stderr.startswith(
        "alerting: the database no-home/alerting.sqlite3 cannot be read"
    )
