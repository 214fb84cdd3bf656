"""Provide fixtures of every test: a broker for the test run, and topics for the test on it."""

import os
import signal
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import PurePath

import pytest
from hypothesis import Phase, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from broker import server
from broker.server import RunningBroker, free_port
from broker.topics import create_topics
from demo.environment import ignore_personal_settings
from events.settings import Settings
from jars.java import QUICK_JAVA
from tests.promises import Promises, measured
from tests.support import FULL_EXAMPLES, Kafka

ignore_personal_settings()
# Programs that tests kill leave status files, which are not to be found beside those of a user.
if "RACKSTREAM_HOME" not in os.environ:
    os.environ["RACKSTREAM_JARS"] = str(Settings().jars_dir.resolve())
    _home = tempfile.TemporaryDirectory(prefix="rackstream-tests-", ignore_cleanup_errors=True)
    os.environ["RACKSTREAM_HOME"] = _home.name
# Simplifying an example that fails can take longer than the whole tier.
AS_DRAWN = (Phase.explicit, Phase.reuse, Phase.generate)
settings.register_profile("quick", max_examples=20, deadline=None, phases=AS_DRAWN)
settings.register_profile("full", max_examples=FULL_EXAMPLES, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
os.environ.setdefault("KAFKA_HEAP_OPTS", f"-Xmx512m {QUICK_JAVA}")

# Started in the background by a shell, the tests and their programs would ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


LONG_FILES = (
    "spark",
    "test_lessons.py",
    "test_driver_faults.py",
    "test_loadtest.py",
    "test_alerting_incident_topic.py",
    "test_dead_letters.py",
    "test_load.py",
    "test_rule_jobs.py",
    "test_driver_status.py",
    "test_page.py",
    "test_click_jobs.py",
    "test_jobs.py",
    "test_producer.py",
    "test_round_trip.py",
)
"""The files and groups that take minutes, the longest first.

Every second one waits more than it computes.
"""


def group_of(nodeid: str) -> str:
    """Return the file of a test, or `tests/spark` for those that share a Spark session.

    Another session would compute for half a minute what the first has.
    """
    file = nodeid.partition("::")[0]
    has_session = file.startswith("tests/spark/") and not file.endswith("/test_lessons.py")
    return "tests/spark" if has_session else file


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc] # its package has no types
    """Runs the tests of a group in one process, and several groups at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """Distribute groups of tests where the command line says `--dist=loadfile`."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that makes a run of the tests a benchmark of the promised times."""
    parser.addoption(
        "--promises",
        action="store_true",
        help="run only the tests that measure promised times, and fail for each missed one",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the long files, so that all processes end at about the same time."""
    if config.getoption("promises"):
        chosen, others = list[pytest.Item](), list[pytest.Item]()
        for item in items:
            measures = "promises" in getattr(item, "fixturenames", ())
            (chosen if measures else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = chosen
    order = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: order.get(PurePath(group_of(item.nodeid)).name, len(order)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name in the last lines each test that was not run, and each measured time."""
    not_run = defaultdict[str, list[str]](list)
    for report in terminalreporter.stats.get("skipped", []):
        not_run[report.longrepr[2].removeprefix("Skipped: ")].append(report.nodeid)
    for because, names in not_run.items():
        terminalreporter.section(f"NOT RUN, as {because}", yellow=True)
        for name in names:
            terminalreporter.line(name)
    stats = terminalreporter.stats
    if lines := measured([*stats.get("passed", []), *stats.get("failed", [])]):
        terminalreporter.section("MEASURED: promised times")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture
def promises(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Promises]:
    """Give what compares this test's times, and fail the test for those that are judged missed."""
    compared = Promises(record_property, benchmark=request.config.getoption("promises"))
    yield compared
    if compared.failed:
        pytest.fail("; ".join(compared.failed))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Run a real broker for the whole session, on a free port, with its own data."""
    running = server.start(free_port(), tmp_path_factory.mktemp("kafka"))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def topics(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """Create all topics under this test's own prefix, and set the environment to them."""
    kafka = Kafka(broker.bootstrap, f"test-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix)
    for name, value in kafka.env.items():
        monkeypatch.setenv(name, value)
    return kafka


@pytest.fixture
def topic_prefix(topics: Kafka) -> str:
    """Return the prefix of this test's own topics, which all exist."""
    return topics.prefix
