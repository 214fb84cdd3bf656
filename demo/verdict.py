"""Compare actual with expected outputs: pure functions over rows of the contract's fields."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from demo.clickstream import KINDS, compare_clickstream
from demo.comparison import Comparison, Row, compare, compare_last, difference, key_of
from demo.delays import Delays, alert_delays
from demo.incidents import compare_incidents
from events.catalog import RULES, SILENT_SENSOR
from events.driver_starts import DriverStart
from events.records import InventoryRack, RackTemperature, SignalStatistics, State, UserAction
from events.rules import Rules, SiteOutage
from events.times import to_ms, to_text
from producer.expected.oracles.site_outage import processing_order, site_outage_alerts

MINIMUM_ALERTS = 20
MINIMUM_DUPLICATES = 100
"""With fewer of either the scenario did not happen, and 0 wrong proves nothing."""

CLOSED_WINDOWS = "closed windows"
"""The row of the table about them, which may expect nothing as long as some are not due yet."""
FIRST_READINGS_WITHIN_MS = 1000
"""How long after the start of a scenario every rack has sent a reading, at the latest."""

NOT_ALERTS = "records that are no alerts"
"""The row of the table about them; there is one only if the topic `alerts` holds such records."""
OTHER_RECORDS = "records of another kind"
"""The row of the table about them; there is one only if another topic holds such records."""
ONLY_IN_TRUTH = {"kind", "decidable_time"}
"""What the truth says of an alert besides the alert's own fields."""
DEAD_LETTER_IDENTITY = ("source_topic", "partition", "offset")
WINDOW_KEY = ("scope", "window_start")
STATISTICS_KEY = ("window_start", "device_type", "rack_id")


@dataclass(frozen=True, slots=True)
class Truth:
    """What the producers' truth files expect; the clickstream's rows by kind, if there is one.

    Site outages follow from the alerts, the inventory and the rules that the jobs ran with. The
    scenario proves nothing unless each of `rules_to_prove` has alerts of both states. `inputs`
    compares what was sent with the input topics, if that is known. `distinct` has each user action
    once. `not_due` counts the rows that are left out because they wait for the watermark.
    `closed_windows` has the windows that append mode has written, if a job runs in it.

    If the outputs of a clickstream and the signal statistics are required, the verdict has their
    rows even if nothing was sent from which they follow.
    """

    summary: Row
    alerts: Sequence[Row]
    dead_letters: Sequence[Row]
    windows: Sequence[Row]
    clickstream: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    inventory: Sequence[InventoryRack] = ()
    rules: Rules = field(default_factory=Rules)
    rules_to_prove: Sequence[str] = RULES
    inputs: Comparison | None = None
    distinct: Sequence[Row] = ()
    signal_statistics: Sequence[Row] = ()
    not_due: Mapping[str, int] = field(default_factory=dict)
    clickstream_required: bool = True
    statistics_required: bool = True
    closed_windows: Sequence[Row] | None = None


@dataclass(frozen=True, slots=True)
class Actual:
    """What came out; of a window, a statistic, a total, a count or an incident its last record.

    `closed_windows` has each record that append mode has written, in the topic's order.

    `alerts` are as alerting logged them, `alert_topic` as their topic holds them, in its order and
    with append times in epoch ms. `starts` are those of the drivers, the first one first.

    `other_records` counts, by topic, the records of another kind than the topic's. `not_alerts` is
    this number for the topic `alerts`.
    """

    alerts: Sequence[Row] = ()
    not_alerts: int = 0
    repeats: int = 0
    dead_letters: Sequence[Row] = ()
    windows: Sequence[Row] = ()
    clickstream: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    alert_topic: Sequence[tuple[Row, int]] = ()
    starts: Sequence[DriverStart] = ()
    distinct: Sequence[Row] = ()
    signal_statistics: Sequence[Row] = ()
    incidents: Sequence[Row] = ()
    read_ms: int = 0
    closed_windows: Sequence[Row] = ()
    other_records: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparisons, the alerts' by rule, and what the scenario lacked to prove something.

    Those that may be None were not made: of inputs, closed windows, signal statistics, distinct
    actions, of the archive, and of the dashboard. There is one of `other_records` if there are any.
    """

    alerts: Mapping[str, Comparison]
    incidents: Comparison
    dead_letters: Comparison
    windows: Comparison
    clickstream: Mapping[str, Comparison]
    delays: Delays
    shortfalls: Sequence[str] = field(default_factory=list)
    inputs: Comparison | None = None
    closed_windows: Comparison | None = None
    signal_statistics: Comparison | None = None
    distinct: Comparison | None = None
    archived: Comparison | None = None
    dashboard: Comparison | None = None
    other_records: Comparison | None = None

    @property
    def passed(self) -> bool:
        """Tell whether every expected output came, and nothing else."""
        return all(compared.passed for compared in self.by_name.values())

    @property
    def proves_all(self) -> bool:
        """Tell whether it passed, and each rule and output had something to prove."""
        return self.passed and not self.shortfalls

    @property
    def by_name(self) -> dict[str, Comparison]:
        """The comparisons in the order of the report."""
        inputs = {"input records": self.inputs} if self.inputs else {}
        other_records = {OTHER_RECORDS: self.other_records} if self.other_records else {}
        return {**inputs, **self.alerts, **self.others, **other_records}

    @property
    def others(self) -> dict[str, Comparison]:
        """The comparisons of what is no alert and no input."""
        rows = {
            "incidents": self.incidents,
            "dead letters": self.dead_letters,
            "rack-temperature windows": self.windows,
            CLOSED_WINDOWS: self.closed_windows,
            "signal statistics": self.signal_statistics,
            **self.clickstream,
            "distinct actions": self.distinct,
            "archived records": self.archived,
            "dashboard figures": self.dashboard,
        }
        return {name: compared for name, compared in rows.items() if compared is not None}


def compare_outputs(
    truth: Truth,
    actual: Actual,
    *,
    archived: Comparison | None = None,
    dashboard: Comparison | None = None,
) -> Verdict:
    """Compare all outputs; those of the archive and the dashboard were compared before.

    Whatever was sent, each required output has its row.
    """
    no_rows = dict.fromkeys(KINDS, ()) if truth.clickstream_required else {}
    has_statistics = truth.statistics_required or truth.signal_statistics
    has_distinct = truth.clickstream_required or truth.distinct
    alerts = [*truth.alerts, *initial_silences(truth, actual), *site_outages(truth, actual)]
    verdict = Verdict(
        compare_alerts_by_rule(alerts, actual.alerts, actual.not_alerts),
        compare_incidents((row for row, _ in actual.alert_topic), actual.incidents, actual.read_ms),
        compare_dead_letters(truth.dead_letters, actual.dead_letters),
        compare_windows(truth.windows, actual.windows),
        compare_clickstream({**no_rows, **truth.clickstream}, actual.clickstream),
        alert_delays(alerts, actual.alert_topic, actual.starts),
        inputs=truth.inputs,
        closed_windows=(
            compare_closed_windows(truth.closed_windows, actual.closed_windows)
            if truth.closed_windows is not None
            else None
        ),
        signal_statistics=(
            compare_signal_statistics(truth.signal_statistics, actual.signal_statistics)
            if has_statistics
            else None
        ),
        distinct=compare_distinct(truth.distinct, actual.distinct) if has_distinct else None,
        archived=archived,
        dashboard=dashboard,
        other_records=_compare_other_records(actual.other_records),
    )
    return replace(verdict, shortfalls=shortfalls(truth, alerts, verdict.others))


def initial_silences(truth: Truth, actual: Actual) -> list[Row]:
    """Return the alerts about racks that had not sent anything yet, as indeterminate ones.

    They depend on how long before the producer the jobs started, and have no reading as evidence.
    A rack falls silent in this way once, so only its first such alert is one.
    """
    first_readings_ms = to_ms(truth.summary["start_wall_time"]) + FIRST_READINGS_WITHIN_MS
    sites = {rack.rack_id: rack.site_id for rack in truth.inventory}
    first: dict[str, Row] = {}
    for row in actual.alerts:
        if (
            row["rule"] == SILENT_SENSOR
            and row["state"] == "WARNING"
            and not row["evidence"]
            and sites.get(row["subject"]) == row["site_id"]
            and to_ms(row["event_time"]) < first_readings_ms
        ):
            first.setdefault(row["subject"], {**row, "either": True})
    return list(first.values())


def site_outages(truth: Truth, actual: Actual) -> list[Row]:
    """Return the outages that follow from the topic of alerts.

    Indeterminate alerts may come after the job has ended. So an outage is indeterminate unless it
    follows both with and without them. It is decidable when the alert that decides it is there.
    """
    rule = truth.rules.for_rack(SiteOutage, "")
    known = [*truth.alerts, *initial_silences(truth, actual)]
    indeterminate = {row["alert_id"] for row in known if row.get("either")}
    alerts = processing_order(actual.alert_topic)
    certain = [row for row in alerts if row["alert_id"] not in indeterminate]
    without, with_all = (
        {row["alert_id"]: row for row in site_outage_alerts(rows, truth.inventory, rule)}
        for rows in (certain, alerts)
    )
    in_both = without.keys() & with_all.keys()
    site_of = {rack.rack_id: rack.site_id for rack in truth.inventory}
    appended_ms: dict[tuple[str | None, str], int] = {}
    for row, append_ms in actual.alert_topic:
        appended_ms.setdefault((site_of.get(row["subject"]), row["event_time"]), append_ms)
    return [
        {
            **row,
            **({} if alert_id in in_both else {"either": True}),
            "decidable_time": to_text(appended_ms[row["site_id"], row["event_time"]]),
        }
        for alert_id, row in (without | with_all).items()
    ]


def compare_alerts_by_rule(
    expected: Sequence[Row], actual: Sequence[Row], not_alerts: int
) -> dict[str, Comparison]:
    """Compare the alerts of each rule, and the records that are no alerts, if there are any."""
    by_rule = {
        rule: compare_alerts(
            [row for row in expected if row["rule"] == rule],
            [row for row in actual if row["rule"] == rule],
        )
        for rule in RULES
    }
    wrong = [f"the topic alerts holds {not_alerts} records that are no alerts"]
    return by_rule | ({NOT_ALERTS: Comparison(0, not_alerts, [], wrong)} if not_alerts else {})


def _compare_other_records(counts: Mapping[str, int]) -> Comparison | None:
    """Return what is wrong with topics that hold records of another kind; None without any."""
    wrong = [f"{OTHER_RECORDS} in the topic {topic}: {n}" for topic, n in counts.items()]
    return Comparison(0, sum(counts.values()), [], wrong) if wrong else None


def compare_alerts(expected: Iterable[Row], actual: Sequence[Row]) -> Comparison:
    """Compare by `alert_id`; wrong is what was not expected, differs, or was logged twice.

    Indeterminate alerts are only counted.
    """
    rows = {row["alert_id"]: row for row in expected}
    either = {alert_id for alert_id, row in rows.items() if row.get("either")}
    certain = {alert_id: row for alert_id, row in rows.items() if alert_id not in either}
    actual = [row for row in actual if row["alert_id"] not in either]
    counts = Counter(row["alert_id"] for row in actual)
    wrong = [
        f"{_alert(row)} was logged {counts[row['alert_id']]} times"
        for row in _repeated(actual, counts)
    ]
    for row in actual:
        wanted = certain.get(row["alert_id"])
        if wanted is None:
            wrong.append(f"{_alert(row)} was not expected")
        elif fault := difference(wanted, row, wanted.keys() - ONLY_IN_TRUTH):
            wrong.append(f"{_alert(row)}: {fault}")
    missing = [_alert(row) for alert_id, row in certain.items() if alert_id not in counts]
    return Comparison(len(certain), len(counts), missing, wrong, len(either))


def compare_dead_letters(expected: Iterable[Row], actual: Iterable[Row]) -> Comparison:
    """Compare by source topic, partition and offset: one that is reported twice counts once."""
    return compare(
        {key_of(row, DEAD_LETTER_IDENTITY): row for row in expected},
        {key_of(row, DEAD_LETTER_IDENTITY): row for row in actual},
        ["reason", "value_size"],
        "dead letter",
    )


def compare_windows(expected: Iterable[Row], actual: Iterable[Row]) -> Comparison:
    """Compare the last row of each window and scope; indeterminate ones are only counted."""
    return compare_last(expected, actual, RackTemperature, WINDOW_KEY, "window")


def compare_closed_windows(expected: Sequence[Row], actual: Sequence[Row]) -> Comparison:
    """Compare the first and the last row of each window and scope: none may replace another."""
    last, first = (compare_windows(expected, rows) for rows in (actual, actual[::-1]))
    return replace(last, wrong=list(dict.fromkeys([*last.wrong, *first.wrong])))


def compare_signal_statistics(expected: Iterable[Row], actual: Iterable[Row]) -> Comparison:
    """Compare the last row of each window and group; indeterminate ones are only counted."""
    return compare_last(expected, actual, SignalStatistics, STATISTICS_KEY, "signal statistic")


def compare_distinct(expected: Sequence[Row], actual: Iterable[Row]) -> Comparison:
    """Compare by `event_id`: an event that a crash has let through twice counts once."""
    either = {row["event_id"] for row in expected if row.get("either")}
    rows = {row["event_id"]: row for row in expected if row["event_id"] not in either}
    fields = [name for name in UserAction.__struct_fields__ if name != "scheduled_time"]
    return compare(
        rows,
        {row["event_id"]: row for row in actual if row["event_id"] not in either},
        fields,
        "event",
        len(either),
    )


def shortfalls(truth: Truth, alerts: Sequence[Row], others: Mapping[str, Comparison]) -> list[str]:
    """Return what the scenario lacks to prove something, as parts of a sentence.

    `alerts` has the truth's, and those that follow from the output. Indeterminate ones prove
    nothing. Nor do the comparisons that are `empty_rows`.
    """
    sure = [row for row in alerts if not row.get("either")]
    states = {row["state"] for row in sure}
    states_by_rule = {(row["rule"], row["state"]) for row in sure}
    lacks = []
    if len(truth.alerts) < MINIMUM_ALERTS:
        lacks.append(f"{len(truth.alerts)} of at least {MINIMUM_ALERTS} alerts")
    lacks += [f"no alert of state {state}" for state in get_args(State) if state not in states]
    lacks += [
        f"no {rule} of state {state}"
        for rule in truth.rules_to_prove
        for state in get_args(State)
        if (rule, state) not in states_by_rule
    ]
    if truth.summary["duplicates"] < MINIMUM_DUPLICATES:
        lacks.append(f"{truth.summary['duplicates']} of at least {MINIMUM_DUPLICATES} duplicates")
    return lacks + [f"no {name}" for name in empty_rows(truth, others)]


def empty_rows(truth: Truth, others: Mapping[str, Comparison]) -> list[str]:
    """Return the rows of `Verdict.others` that expect nothing, although of each job one has to.

    The first windows are closed long after the others, so of those some may be waited for instead.
    """
    not_yet = {CLOSED_WINDOWS} if truth.not_due.get(CLOSED_WINDOWS) else set()
    return [name for name, row in others.items() if not row.expected and name not in not_yet]


def _repeated(rows: Iterable[Row], counts: Mapping[str, int]) -> list[Row]:
    return list({row["alert_id"]: row for row in rows if counts[row["alert_id"]] > 1}.values())


def _alert(row: Row) -> str:
    return f"alert {row['alert_id']} ({row['subject']} {row['state']} at {row['event_time']})"
