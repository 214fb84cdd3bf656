"""What every test can ask for: a broker of this run's own, and topics of the test's own on it."""

import os
import signal
import uuid
from collections import defaultdict
from collections.abc import Iterator

import pytest

from broker import server
from broker.server import RunningBroker
from broker.topics import create_topics
from jars.java import QUICK_JAVA
from tests.support import Kafka, free_port

os.environ.setdefault("KAFKA_HEAP_OPTS", f"-Xmx512m {QUICK_JAVA}")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name in the last lines each test that was not run, and why."""
    not_run = defaultdict[str, list[str]](list)
    for report in terminalreporter.stats.get("skipped", []):
        not_run[report.longrepr[2].removeprefix("Skipped: ")].append(report.nodeid)
    for because, names in not_run.items():
        terminalreporter.section(f"NOT RUN, as {because}", yellow=True)
        for name in names:
            terminalreporter.line(name)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Run a real broker for the whole session, on a free port, with data of its own."""
    running = server.start(free_port(), tmp_path_factory.mktemp("kafka"))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def topics(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """Create all topics under a prefix of this test's own, and point the settings of this process at them."""
    kafka = Kafka(broker.bootstrap, f"test-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix)
    for name, value in kafka.env.items():
        monkeypatch.setenv(name, value)
    return kafka


@pytest.fixture
def topic_prefix(topics: Kafka) -> str:
    """Return the prefix of this test's own topics, all of which exist."""
    return topics.prefix
