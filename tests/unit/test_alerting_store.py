"""The database and the log file have each alert once, despite repeats, bad records and kills."""

import os
import re
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting import schema
from alerting.alert_log import LogFile
from alerting.cli.queries import list_incidents, open_database
from alerting.store import AlertBatch, Counts, Store, read_counts
from events.cli import UserFacingError
from tests.alerting import FakeRecord
from tests.builders import alert_value, number_of
from tests.support import examples

SEEN = "2026-11-21T06:30:00.000Z"


class KilledError(Exception):
    """Simulates a kill between writing and committing."""


def ignore(_: str) -> None:
    pass


def alerts(*numbers: int) -> list[FakeRecord]:
    return [FakeRecord(offset, alert_value(number)) for offset, number in enumerate(numbers)]


def ingest(
    store: Store, records: Sequence[FakeRecord], log: LogFile | None = None, *, killed: bool = False
) -> AlertBatch:
    with store.transaction():
        batch = store.ingest_alerts(records, SEEN)
        if log is not None:
            log.append(batch.new_alerts)
        if killed:
            raise KilledError
    return batch


def numbers_in(log_file: Path) -> list[int]:
    return [
        number_of(msgspec.json.decode(line)["alert_id"])
        for line in log_file.read_bytes().splitlines()
    ]


def test_a_repeated_alert_is_counted_but_not_new(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        batch = ingest(store, alerts(1, 2, 1, 1))
        assert [number_of(new.alert.alert_id) for new in batch.new_alerts] == [1, 2]
        assert store.counts() == Counts(alerts=2, repeats=2)
    assert read_counts(tmp_path / "db") == Counts(alerts=2, repeats=2)


def test_after_a_restart_known_alerts_are_still_repeats(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        ingest(store, alerts(1, 2))
    with Store(tmp_path / "db") as store:
        assert store.next_offsets() == {0: 2}
        batch = ingest(store, [FakeRecord(2, alert_value(2)), FakeRecord(3, alert_value(3))])
        assert (len(batch.new_alerts), batch.repeats) == (1, 1)


def test_records_read_again_at_the_same_offsets_are_no_repeats(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        ingest(store, alerts(1, 2, 2))
        assert ingest(store, alerts(1, 2, 2)) == AlertBatch()
        assert store.counts() == Counts(alerts=2, repeats=1)


def test_each_partition_has_its_own_offsets(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        ingest(store, [FakeRecord(5, alert_value(1)), FakeRecord(0, alert_value(2), partition=3)])
        assert store.next_offsets() == {0: 6, 3: 1}


def test_a_batch_that_is_not_committed_leaves_no_trace(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        with pytest.raises(KilledError):
            ingest(store, alerts(1, 2), killed=True)
        assert store.counts() == Counts()
        assert store.next_offsets() == {}


def test_malformed_alerts_are_counted_and_skipped(tmp_path: Path) -> None:
    malformed = [
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
        (alert_value(1, alert_id="x" * 257), "alert_id"),
        (alert_value(1, subject="é" * 129), "subject is over 256 bytes"),
        (alert_value(1)[:-1] + b',"extra":NaN}', "malformed"),
        (alert_value(1)[:-1] + b',"extra":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "deep"),
    ]
    records = [FakeRecord(offset, value) for offset, (value, _) in enumerate(malformed)]
    with Store(tmp_path / "db") as store:
        batch = ingest(store, [*records, FakeRecord(len(records), alert_value(2))])
        assert len(batch.new_alerts) == 1
        assert [bad.offset for bad in batch.malformed] == [record.offset for record in records]
        wrong_errors = [
            (value, bad.error)
            for bad, (value, error) in zip(batch.malformed, malformed, strict=True)
            if not re.search(error, bad.error)
        ]
        assert wrong_errors == []
        assert store.counts() == Counts(alerts=1, malformed=len(records))
        assert store.next_offsets() == {0: len(records) + 1}


def test_malformed_commands_are_counted_too_unless_only_alerts_are_asked_for(
    tmp_path: Path,
) -> None:
    with Store(tmp_path / "db") as store:
        ingest(store, [FakeRecord(0, b"no alert")])
        with store.transaction():
            store.ingest_commands([FakeRecord(0, b"no command"), FakeRecord(1, None)], SEEN)
        assert store.counts() == Counts(malformed=3)
    assert read_counts(tmp_path / "db") == Counts(malformed=3)
    assert read_counts(tmp_path / "db", commands=False) == Counts(malformed=1)


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    value = alert_value(1, channel="pager", big=1)[:-1] + b',"more":123456789012345678901234567890}'
    with Store(tmp_path / "db") as store:
        (new,) = ingest(store, [FakeRecord(0, value)]).new_alerts
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        assert db.execute("SELECT alert FROM alerts").fetchone() == (value.decode(),)
    assert new.text == value.decode()


def test_a_database_without_tables_has_zero_counts(tmp_path: Path) -> None:
    (tmp_path / "db").touch()
    assert read_counts(tmp_path / "db") == Counts()


def test_two_processes_cannot_share_a_database(tmp_path: Path) -> None:
    with Store(tmp_path / "db"), pytest.raises(UserFacingError, match="another alerting process"):
        Store(tmp_path / "db")
    with Store(tmp_path / "db"):
        pass


def test_a_database_that_cannot_be_locked_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "db.lock").mkdir()
    with pytest.raises(UserFacingError, match=r"cannot be written .* with --database\.$"):
        Store(tmp_path / "db")


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("text that is longer than the header of a database\n" * 100)
    with pytest.raises(UserFacingError, match="cannot be used"):
        Store(tmp_path / "db")


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute("CREATE TABLE other (x)")
    with pytest.raises(UserFacingError, match="is not a database of alerting"):
        Store(tmp_path / "db")
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("other",)]


@pytest.mark.parametrize("found", [1, 2, schema.FORMAT + 1])
def test_a_database_of_another_format_is_refused_and_left_alone(tmp_path: Path, found: int) -> None:
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE alerts (alert_id TEXT PRIMARY KEY, alert TEXT, repeats INTEGER)")
        db.execute("CREATE TABLE malformed (partition INTEGER, offset INTEGER)")
        db.execute(f"PRAGMA user_version = {found}")
    before = path.read_bytes()
    sentence = re.escape(
        f"the database {path} has format {found}, but this version of alerting uses format "
        f"{schema.FORMAT}: remove it to read all alerts again, or choose another with --database."
    )
    with pytest.raises(UserFacingError, match=f"^{sentence}$"):
        Store(path)
    with pytest.raises(UserFacingError, match=f"^{sentence}$"), open_database(path):
        pass
    with pytest.raises(UserFacingError, match=f"^{sentence}$"):
        read_counts(path)
    assert path.read_bytes() == before


def plan_of_open_incidents(path: Path) -> str:
    """Return how SQLite finds the open incidents of a database."""
    statements = list[str]()
    with open_database(path) as db:
        db.set_trace_callback(statements.append)
        list_incidents(db, 0, only_open=True)
        db.set_trace_callback(None)
        (query,) = (each for each in statements if "FROM incidents " in each)
        plan = db.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
    return ", ".join(detail for *_, detail in plan)


def test_open_incidents_are_found_by_an_index_also_in_a_database_made_without_it(
    tmp_path: Path,
) -> None:
    with Store(tmp_path / "db"):
        assert "USING INDEX open_incidents" in plan_of_open_incidents(tmp_path / "db")
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute("DROP INDEX open_incidents")
    assert "open_incidents" not in plan_of_open_incidents(tmp_path / "db")
    with Store(tmp_path / "db"):
        assert "USING INDEX open_incidents" in plan_of_open_incidents(tmp_path / "db")


def test_a_database_made_without_the_table_of_unmatched_ends_gets_it(tmp_path: Path) -> None:
    with Store(tmp_path / "db"):
        pass
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute("DROP TABLE unmatched_ends")
    with Store(tmp_path / "db") as store:
        assert len(ingest(store, alerts(1)).new_alerts) == 1


def test_a_database_is_refused_for_another_topic(tmp_path: Path) -> None:
    with Store(tmp_path / "db") as store:
        store.bind_topic("alerts", "id-1")
        store.bind_topic("alerts", "id-1")
        with pytest.raises(UserFacingError, match="deleted and created again"):
            store.bind_topic("alerts", "id-2")
        with pytest.raises(UserFacingError, match="belongs to the topic alerts, not other-alerts"):
            store.bind_topic("other-alerts", "id-3")


def test_lines_written_before_a_kill_are_cut_off_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, ignore)) as log:
            ingest(store, alerts(1, 2), log)
            with pytest.raises(KilledError):
                ingest(store, [FakeRecord(2, alert_value(3))], log, killed=True)
        assert numbers_in(path) == [1, 2, 3]
        with closing(LogFile(path, store, ignore)) as log:
            assert numbers_in(path) == [1, 2]
            ingest(store, [FakeRecord(2, alert_value(3))], log)
    assert numbers_in(path) == [1, 2, 3]


def test_lines_of_a_killed_first_batch_are_cut_off_but_earlier_contents_are_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_bytes(alert_value(9) + b"\n")
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, ignore)) as log, pytest.raises(KilledError):
            ingest(store, alerts(1), log, killed=True)
        with closing(LogFile(path, store, ignore)):
            assert numbers_in(path) == [9]


def test_a_partial_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, ignore)) as log:
            ingest(store, alerts(1), log)
        with path.open("ab") as file:
            file.write(b'{"first_seen_ti')
        with closing(LogFile(path, store, ignore)):
            assert numbers_in(path) == [1]


def test_a_rotated_log_file_is_started_anew_and_nothing_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    reports: list[str] = []
    with Store(tmp_path / "db") as store:
        with closing(LogFile(path, store, reports.append)) as log:
            ingest(store, alerts(1), log)
        path.rename(tmp_path / "alerts.jsonl.1")
        path.write_bytes(alert_value(9) + b"\n" + alert_value(10) + b"\n")
        with closing(LogFile(path, store, reports.append)) as log:
            ingest(store, [FakeRecord(1, alert_value(2))], log)
        assert numbers_in(path) == [9, 10, 2]
        assert numbers_in(tmp_path / "alerts.jsonl.1") == [1]
        os.truncate(path, 0)
        with closing(LogFile(path, store, reports.append)) as log:
            ingest(store, [FakeRecord(2, alert_value(3))], log)
        assert numbers_in(path) == [3]
    assert len(reports) == 2


def test_two_databases_cannot_share_a_log_file(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with (
        Store(tmp_path / "a") as a,
        Store(tmp_path / "b") as b,
        closing(LogFile(path, a, ignore)),
        pytest.raises(UserFacingError, match="another process writes"),
    ):
        LogFile(path, b, ignore)


def test_a_log_file_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "db") as store,
        pytest.raises(UserFacingError, match="not a regular file"),
    ):
        LogFile(Path("/dev/null"), store, ignore)


@examples(40)
@given(
    sent=st.lists(st.one_of(st.integers(0, 12), st.none()), max_size=40),
    batch_sizes=st.lists(st.integers(1, 7), min_size=1, max_size=40),
    kills=st.lists(st.booleans(), min_size=1, max_size=40),
)
def test_any_mix_of_repeats_malformed_records_and_kills_logs_each_alert_once_in_order(
    sent: list[int | None], batch_sizes: list[int], kills: list[bool]
) -> None:
    topic = [
        FakeRecord(n, b"?" if number is None else alert_value(number))
        for n, number in enumerate(sent)
    ]
    first_seen = list(dict.fromkeys(number for number in sent if number is not None))
    with tempfile.TemporaryDirectory() as folder:
        log_path, step = Path(folder) / "log", 0
        while True:
            with (
                Store(Path(folder) / "db") as store,
                closing(LogFile(log_path, store, ignore)) as log,
            ):
                position = store.next_offsets().get(0, 0)
                while position < len(topic):
                    batch = topic[position : position + batch_sizes[step % len(batch_sizes)]]
                    step += 1
                    try:
                        ingest(store, batch, log, killed=kills[step % len(kills)] and step < 60)
                    except KilledError:
                        break
                    position += len(batch)
                else:
                    break
        assert numbers_in(log_path) == first_seen
        malformed = sent.count(None)
        assert read_counts(Path(folder) / "db") == Counts(
            len(first_seen), len(sent) - malformed - len(first_seen), malformed
        )
