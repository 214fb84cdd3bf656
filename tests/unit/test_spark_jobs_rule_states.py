"""The state that rules keep in checkpoints: its fields belong to a state version."""

import msgspec
import pytest
from msgspec import Struct

from spark_jobs.registry import JOBS
from spark_jobs.rules.framework.stateful_rule import Reading, StatefulRule
from spark_jobs.rules.lost_signal import LostSignalState
from spark_jobs.rules.overheating.buckets import HISTORY
from spark_jobs.rules.overheating.rack_history import Memory, RuleState
from spark_jobs.rules.silent_sensor import SilentSensorState
from spark_jobs.rules.site_outage import RackAlert, SiteOutageState
from spark_jobs.rules.weak_signal import WeakSignalState

STATES: list[tuple[str, str, type[StatefulRule], str]] = [
    (
        "weak_signal",
        "v3",
        WeakSignalState,
        "latest weak below clear_at severity",
    ),
    (
        "lost_signal",
        "v3",
        LostSignalState,
        "open_windows latest_event_ms is_first_window_over warning site_id device_type "
        "expected_readings window_ms watermark_delay_ms severity",
    ),
    (
        "silent_sensor",
        "v4",
        SilentSensorState,
        "last last_append_ms silent began_by ended_by site_id silent_after_ms grace_ms severity",
    ),
    (
        "site_outage",
        "v2",
        SiteOutageState,
        "pending recent_ids older_ids rules_in_warning warning_since out rack_count share "
        "within_us severity by_wall_clock",
    ),
]
"""Job, state version, state, and the state's fields: change fields and version together."""


@pytest.mark.parametrize(("job", "version", "state", "fields"), STATES)
def test_other_fields_of_a_state_need_another_state_version(
    job: str, version: str, state: type[StatefulRule], fields: str
) -> None:
    assert (JOBS[job].state_version, state.__struct_fields__) == (version, tuple(fields.split()))


def test_every_state_is_in_the_table_from_its_second_version_on() -> None:
    # The first version has no older one that it could misread.
    ours = {
        state
        for state in StatefulRule.__subclasses__()
        if state.__module__.startswith("spark_jobs.") and version_of(state) != "v1"
    }
    assert {state for _, _, state, _ in STATES} == ours


def version_of(state: type[StatefulRule]) -> str:
    """Return the state version of the job in whose module or folder a state is."""
    job = state.__module__.removeprefix("spark_jobs.rules.").partition(".")[0]
    return JOBS[job].state_version


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        (Reading, "sequence event_id event_time temperature_c signal_strength"),
        (RackAlert, "append_ms partition offset alert_id rule rack_id warning event_time"),
    ],
)
def test_tuples_in_a_state_keep_their_order(part: type[Reading | RackAlert], fields: str) -> None:
    assert part._fields == tuple(fields.split())


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        (Memory, "before after"),
        (RuleState, "severity opened rises last_c hot"),
    ],
)
def test_structs_in_a_state_keep_their_fields(part: type[Struct], fields: str) -> None:
    assert part.__struct_fields__ == tuple(fields.split())


def test_other_columns_of_a_buckets_history_need_another_state_version() -> None:
    fields = "rack_id sequence event_id event_time temperature_c hot"
    assert (JOBS["overheating"].state_version, HISTORY.names) == ("v3", fields.split())


@pytest.mark.parametrize("state", [*[state for _, _, state, _ in STATES], RuleState])
def test_state_with_an_unknown_field_is_an_error(state: type[Struct]) -> None:
    stored = msgspec.msgpack.encode(msgspec.to_builtins(state()) | {"old_name": 1})
    with pytest.raises(msgspec.ValidationError, match="unknown field `old_name`"):
        msgspec.msgpack.decode(stored, type=state)
