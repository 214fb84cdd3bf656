"""Build statuses of drivers and their queries, as the status files hold them."""

from events.driver_status import PROGRAM, DriverStatus, QueryStatus
from events.status_file import BrokerStatus, Process
from events.times import to_text
from tests.builders import START, T0


def driver(*queries: QueryStatus, prefix: str = "", written_ms: int = T0) -> DriverStatus:
    """Return the status of a driver on another host."""
    header = Process(PROGRAM, prefix, START).header()
    return DriverStatus(
        **header | {"host": "elsewhere", "written_time": to_text(written_ms)},
        broker=BrokerStatus(servers="broker:9092", reachable=True, since=START),
        jobs=["overheating"],
        checkpoint_root="checkpoints",
        topics={},
        queries=list(queries),
    )


def query(name: str = "overheating", **changes: object) -> QueryStatus:
    """Return the status of a query that runs."""
    fields: dict[str, object] = {
        "name": name,
        "job": name,
        "trigger": "micro-batch",
        "topics": ["p-rack-readings"],
        "batch_s": 2.0,
        "active": True,
        "started_time": START,
        "finished": False,
        "restarts": 1,
        "records_behind": 7,
        "late_records": 2,
        "records_left_out": 3,
        "state_rows": 40,
        "state_bytes": 5000,
        "last_progress_time": START,
    }
    return QueryStatus(**fields | changes)  # type: ignore[arg-type] # by their names
