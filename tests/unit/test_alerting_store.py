"""Each alert once: in the database and in the log file, whatever comes twice, is broken, or is cut short."""

import os
import re
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerting.lines import LogFile
from alerting.store import Counts, Store, Taken, read_counts
from events.cli import PersonError
from tests.alerting import Incoming
from tests.support import alert_value

SEEN = "2026-11-21T06:30:00.000Z"


class KilledError(Exception):
    """Stands for the end of the process between writing and committing."""


def quiet(_: str) -> None:
    pass


def alerts(*numbers: int) -> list[Incoming]:
    return [Incoming(offset, alert_value(number)) for offset, number in enumerate(numbers)]


def take(
    store: Store, records: Sequence[Incoming], log: LogFile | None = None, *, killed: bool = False
) -> Taken:
    with store.transaction():
        taken = store.take(records, SEEN)
        if log is not None:
            log.append(taken.alerts)
        if killed:
            raise KilledError
    return taken


def numbers_in(log_file: Path) -> list[int]:
    return [int(msgspec.json.decode(line)["alert_id"], 16) for line in log_file.read_bytes().splitlines()]


def test_an_alert_that_comes_again_is_counted_but_not_new(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        taken = take(store, alerts(1, 2, 1, 1))
        assert [int(new.alert.alert_id, 16) for new in taken.alerts] == [1, 2]
        assert store.counts() == Counts(alerts=2, repeats=2)
    assert read_counts(tmp_path / "db") == Counts(alerts=2, repeats=2)


def test_after_a_restart_what_was_seen_is_still_seen(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        take(store, alerts(1, 2))
    with Store(tmp_path / "db") as store:
        assert store.next_offsets() == {0: 2}
        taken = take(store, [Incoming(2, alert_value(2)), Incoming(3, alert_value(3))])
        assert (len(taken.alerts), taken.repeats) == (1, 1)


def test_offsets_that_were_taken_are_no_repeats_when_they_are_read_again(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        take(store, alerts(1, 2, 2))
        assert take(store, alerts(1, 2, 2)) == Taken()
        assert store.counts() == Counts(alerts=2, repeats=1)


def test_each_partition_has_its_own_offsets(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        take(store, [Incoming(5, alert_value(1)), Incoming(0, alert_value(2), partition=3)])
        assert store.next_offsets() == {0: 6, 3: 1}


def test_a_batch_that_is_not_committed_leaves_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        with pytest.raises(KilledError):
            take(store, alerts(1, 2), killed=True)
        assert store.counts() == Counts()
        assert store.next_offsets() == {}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "no value"),
        (b"", "truncated"),
        (b"nonsense", "malformed"),
        (b"[]", "object"),
        (b"{}", "missing"),
        (b"\xff\xfe", "malformed"),
        (alert_value(1).replace(b"too hot", b"too \xff"), "UTF-8"),
        (alert_value(1).replace(b"too hot", b"too \\ud800"), "JSON|truncated|surrogate"),
        (alert_value(1, state="HOT"), "state"),
        (alert_value(1, summary=7), "summary"),
        (alert_value(1)[:-1] + b',"extra":NaN}', "malformed"),
        (alert_value(1)[:-1] + b',"extra":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "deep"),
    ],
)
def test_a_record_that_is_no_alert_is_counted_and_passed_over(
    tmp_path: Path, value: bytes | None, error: str
) -> None:
    with Store(tmp_path / "db") as store:
        taken = take(store, [Incoming(0, value), Incoming(1, alert_value(2))])
        assert len(taken.alerts) == 1
        assert [bad.offset for bad in taken.malformed] == [0]
        assert re.search(error, taken.malformed[0].error)
        assert store.counts() == Counts(alerts=1, malformed=1)
        assert store.next_offsets() == {0: 2}


def test_fields_this_version_does_not_know_are_kept(tmp_path: Path) -> None:
    value = alert_value(1, route="pager", big=1)[:-1] + b',"more":123456789012345678901234567890}'
    with Store(tmp_path / "db") as store:
        (new,) = take(store, [Incoming(0, value)]).alerts
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        assert db.execute("SELECT alert FROM alerts").fetchone() == (value.decode(),)
    assert new.text == value.decode()


def test_a_database_that_is_just_being_made_has_counted_nothing(tmp_path: Path) -> None:
    (tmp_path / "db").touch()
    assert read_counts(tmp_path / "db") == Counts()


def test_two_processes_cannot_share_a_database(tmp_path: Path) -> None:
    with Store(tmp_path / "db"), pytest.raises(PersonError, match="another alerting process"):
        Store(tmp_path / "db")
    with Store(tmp_path / "db"):
        pass


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("a letter to a friend, long enough to be no empty file\n" * 100)
    with pytest.raises(PersonError, match="cannot be used"):
        Store(tmp_path / "db")


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute("CREATE TABLE theirs (x)")
    with pytest.raises(PersonError, match="not a database of this version"):
        Store(tmp_path / "db")
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_a_database_stays_with_its_topic(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        store.bind("alerts", "id-1")
        store.bind("alerts", "id-1")
        with pytest.raises(PersonError, match="made anew"):
            store.bind("alerts", "id-2")
        with pytest.raises(PersonError, match="belongs to the topic alerts, not other-alerts"):
            store.bind("other-alerts", "id-3")


def test_lines_written_before_a_kill_are_cut_and_come_again(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, quiet)) as log:
            take(store, alerts(1, 2), log)
            with pytest.raises(KilledError):
                take(store, [Incoming(2, alert_value(3))], log, killed=True)
        assert numbers_in(path) == [1, 2, 3]
        with closing(LogFile(path, store, quiet)) as log:
            assert numbers_in(path) == [1, 2]
            take(store, [Incoming(2, alert_value(3))], log)
    assert numbers_in(path) == [1, 2, 3]


def test_lines_of_the_very_first_batch_are_cut_too_but_not_what_was_there_before(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_bytes(alert_value(9) + b"\n")
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, quiet)) as log, pytest.raises(KilledError):
            take(store, alerts(1), log, killed=True)
        with closing(LogFile(path, store, quiet)):
            assert numbers_in(path) == [9]


def test_a_half_written_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, quiet)) as log:
            take(store, alerts(1), log)
        with path.open("ab") as file:
            file.write(b'{"first_seen_ti')
        with closing(LogFile(path, store, quiet)):
            assert numbers_in(path) == [1]


def test_a_log_file_that_was_rotated_away_is_begun_anew_and_nothing_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    told: list[str] = []
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, told.append)) as log:
            take(store, alerts(1), log)
        path.rename(tmp_path / "alerts.jsonl.1")
        path.write_bytes(alert_value(9) + b"\n" + alert_value(10) + b"\n")
        with closing(LogFile(path, store, told.append)) as log:
            take(store, [Incoming(1, alert_value(2))], log)
        assert numbers_in(path) == [9, 10, 2]
        assert numbers_in(tmp_path / "alerts.jsonl.1") == [1]
        os.truncate(path, 0)
        with closing(LogFile(path, store, told.append)) as log:
            take(store, [Incoming(2, alert_value(3))], log)
        assert numbers_in(path) == [3]
    assert len(told) == 2


def test_two_databases_cannot_share_a_log_file(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with (
        Store(tmp_path / "a") as a,
        Store(tmp_path / "b") as b,
        closing(LogFile(path, a, quiet)),
        pytest.raises(PersonError, match="another process writes"),
    ):
        LogFile(path, b, quiet)


def test_a_log_file_that_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store, pytest.raises(PersonError, match="not a regular file"):
        LogFile(Path("/dev/null"), store, quiet)


@settings(max_examples=40, deadline=None)
@given(
    sent=st.lists(st.one_of(st.integers(0, 12), st.none()), max_size=40),
    batch_sizes=st.lists(st.integers(1, 7), min_size=1, max_size=40),
    kills=st.lists(st.booleans(), min_size=1, max_size=40),
)
def test_any_mixture_of_repeats_nonsense_and_kills_logs_each_alert_once_and_in_order(
    sent: list[int | None], batch_sizes: list[int], kills: list[bool]
) -> None:
    topic = [Incoming(n, b"?" if number is None else alert_value(number)) for n, number in enumerate(sent)]
    first_seen = list(dict.fromkeys(number for number in sent if number is not None))
    with tempfile.TemporaryDirectory() as folder:
        log_path, step = Path(folder) / "log", 0
        while True:
            with Store(Path(folder) / "db") as store, closing(LogFile(log_path, store, quiet)) as log:
                position = store.next_offsets().get(0, 0)
                while position < len(topic):
                    batch = topic[position : position + batch_sizes[step % len(batch_sizes)]]
                    step += 1
                    try:
                        take(store, batch, log, killed=kills[step % len(kills)] and step < 60)
                    except KilledError:
                        break
                    position += len(batch)
                else:
                    break
        assert numbers_in(log_path) == first_seen
        nonsense = sent.count(None)
        assert read_counts(Path(folder) / "db") == Counts(
            len(first_seen), len(sent) - nonsense - len(first_seen), nonsense
        )
