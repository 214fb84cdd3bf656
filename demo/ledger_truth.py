"""Derive the expected outputs of the jobs from all runs of a ledger."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from confluent_kafka import KafkaError, KafkaException

from broker.topics import read_to_end
from demo.clickstream import KINDS
from demo.comparison import Comparison, Row
from demo.verdict import Truth
from events.catalog import RULES
from events.cli import UserFacingError
from events.records import InventoryRack
from events.rules import Rules
from events.settings import Settings
from events.times import to_text
from events.topics import USER_ACTIONS, Topic
from producer.expected.rack_alerts import READING_RULES, AlertSelection
from producer.expected.topic_contents import TopicContents
from producer.expected.truth import distinct_events, truth_rows
from producer.ledger import LedgerRun, TopicRecord, add_unnoted, read_runs
from producer.positions import position_of, split_position
from producer.scenario import Scenario
from producer.streams.stream_plan import FLUSH_SUBJECT, FaultFlag

FAULT_COUNTS = {
    "duplicates": FaultFlag.COPY,
    "late": FaultFlag.LATE,
    "too_late": FaultFlag.TOO_LATE,
    "out_of_order": FaultFlag.OUT_OF_ORDER,
    "malformed": FaultFlag.MALFORMED,
}
"""The counts of a summary, by the fault that each one counts."""
NAMES_OF_NOT_DUE = {
    "session": "sessions", "attribution": "unclicked impressions", "window": "closed windows",
}  # fmt: skip
"""The truth's kinds that have rows which wait for the watermark, and the report's names of them."""
_JSON = msgspec.json.Encoder(decimal_format="number")


def read_ledger_truth(
    settings: Settings,
    ledger: Path,
    inventory: Sequence[InventoryRack],
    rules: Rules,
    *,
    lost_signal_watermark_ms: int,
    rules_to_prove: Sequence[str] = RULES,
    clickstream_required: bool = True,
    closed_windows: bool = False,
) -> Truth:
    """Return the truth of a ledger's runs; `inputs` compares the ledger with the input topics.

    With `closed_windows` it has those of `rack_temperature` in append mode, too.

    A record of an input topic is wrong if no run has sent it. It is missing if the broker has
    acknowledged it and the topic does not hold it, or holds another one at its position.

    Raises `UserFacingError` when the ledger cannot be read, when the racks of its runs differ, and
    when an input topic cannot be read.
    """
    runs = read_runs(ledger)
    with_racks = [run for run in runs if "racks" in run.start.scenario.streams]
    _refuse_several_fleets(ledger, [run.start.scenario for run in with_racks])
    # A silence before the first reading has a wall-clock time, and a history is hours older.
    start_wall_ms = min(run.start.start_wall_ms for run in with_racks or runs)
    topics = list(dict.fromkeys(one.plan.topic for run in runs for one in run.streams))
    expected_count, missing, wrong, contents = 0, list[str](), list[str](), list[TopicContents]()
    for topic in topics:
        positions = array("q")
        others = add_unnoted(runs, topic, _noting(read_topic(settings, topic), positions))
        streams = [one for run in runs for one in run.streams if one.plan.topic == topic]
        contents.append(TopicContents(streams))
        rows = contents[-1].rows
        flushes = [one.flush_position for one in streams if one.flush_position is not None]
        noted = position_of(rows[:, 2], rows[:, 3])
        acknowledged = np.append(noted, [position_of(*position) for position in flushes]).astype(
            np.int64
        )
        expected_count += len(acknowledged)
        taken, count = np.unique(acknowledged, return_counts=True)
        lost = np.setdiff1d(taken, np.array(positions, dtype=np.int64), assume_unique=True)
        missing += [_record(topic, *split_position(position)) for position in lost.tolist()]
        # A broker that has lost a record gives its offset to another one.
        missing += [
            f"{_record(topic, *split_position(position))}, at a position acknowledged again"
            for position in np.repeat(taken, count - 1).tolist()
        ]
        wrong += [f"{_record(topic, each.partition, each.offset)} is of no run" for each in others]
    selection = AlertSelection(READING_RULES, rules, lost_signal_watermark_ms)
    kinds = truth_rows(contents, selection, goes_on=True)
    windows = kinds.get("window", [])
    actions = [topic for topic in contents if topic.plans[0].topic == USER_ACTIONS]
    return Truth(
        _summary(runs, contents, start_wall_ms),
        kinds.get("alert", []),
        kinds["dead-letter"],
        windows,
        {kind: _as_json(_due(kinds[kind])) for kind in KINDS if kind in kinds},
        inventory,
        rules,
        rules_to_prove,
        inputs=Comparison(
            expected_count, expected_count - len(missing) + len(wrong), missing, wrong
        ),
        distinct=_as_json(distinct_events(actions[0])) if actions else (),
        signal_statistics=kinds.get("signal-statistic", []),
        not_due=_count_not_due(kinds, closed_windows=closed_windows),
        clickstream_required=clickstream_required,
        closed_windows=_due(windows) if closed_windows else None,
    )


def _refuse_several_fleets(ledger: Path, scenarios: Iterable[Scenario]) -> None:
    """Raise `UserFacingError` unless all runs have the same racks, which send equally often.

    A run of the history has another rate and time scale, but as many readings of event time, up to
    the rounding of both.
    """
    fleets = {
        (one.seed, one.racks, one.sites, round(one.readings_per_second, 6)) for one in scenarios
    }
    if len(fleets) > 1:
        raise UserFacingError(
            f"the ledger {ledger} has runs of scenarios with different racks or rates: give each a "
            "folder and topics of its own (in containers: make clean before another SCENARIO)."
        )


def _due(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not row.get("not_due")]


def _count_not_due(kinds: Mapping[str, Sequence[Row]], *, closed_windows: bool) -> dict[str, int]:
    """Count the rows that wait for the watermark, without indeterminate ones and flush records'."""
    return {
        name: sum(
            bool(row.get("not_due")) and not row.get("either") and FLUSH_SUBJECT not in row.values()
            for row in kinds.get(kind, ())
        )
        for kind, name in NAMES_OF_NOT_DUE.items()
        if kind != "window" or closed_windows
    }


def _noting(records: Iterable[TopicRecord], positions: "array[int]") -> Iterator[TopicRecord]:
    """Pass records on, and append the position of each."""
    for record in records:
        positions.append(position_of(record.partition, record.offset))
        yield record


def read_topic(settings: Settings, topic: Topic) -> Iterator[TopicRecord]:
    """Yield what a topic holds now, partition by partition in their orders.

    Raises `UserFacingError` when there is no such topic, or the broker does not answer.
    """
    servers = settings.kafka_bootstrap_servers
    try:
        for message in read_to_end(servers, settings.topic(topic)):
            position = message.partition() or 0, message.offset() or 0, message.timestamp()[1]
            yield TopicRecord(*position, message.value() or b"")
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UserFacingError(
                f"the broker at {servers} has no topic {settings.topic(topic)}: is it the broker "
                "of the ledger's runs, and TOPIC_PREFIX theirs?"
            ) from None
        raise UserFacingError(
            f"no broker answers at {servers}: {error.args[0].str()}; see whether it runs."
        ) from None


def _summary(
    runs: Sequence[LedgerRun], contents: Sequence[TopicContents], start_wall_ms: int
) -> Row:
    """Return what the report says of all runs together."""
    flags = np.concatenate([topic.rows[:, 1] for topic in contents])
    counts = {name: int(np.count_nonzero(flags & flag)) for name, flag in FAULT_COUNTS.items()}
    seconds = max((run.end.summary["seconds"] for run in runs if run.end), default=0.0)
    return {
        "acknowledged": len(flags),
        "seconds": seconds,
        "start_wall_time": to_text(start_wall_ms),
        **counts,
    }


def _as_json(rows: Sequence[Row]) -> list[Row]:
    """Return rows as their JSON is read: money is a float, as in the outputs compared with them."""
    read: list[Row] = msgspec.json.decode(_JSON.encode(rows))
    return read


def _record(topic: Topic, partition: int, offset: int) -> str:
    return f"record {offset} of partition {partition} of {topic.name}"
