"""Provide a broker that a test may stop, suspend and start again."""

from collections.abc import Iterator

import psutil
import pytest

from broker import server
from broker.server import RunningBroker, free_port


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Run a broker for one file."""
    first = server.start(free_port(), tmp_path_factory.mktemp("own-kafka"))
    try:
        yield first
    finally:
        if (running := server.find(first.data_dir)) is not None:
            psutil.Process(running.pid).resume()
            running.stop()
        if first.child is not None:
            first.child.wait()
