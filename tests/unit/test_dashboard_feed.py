"""The dashboard's feed without a broker: what happens when one of its threads cannot go on."""

import asyncio
from pathlib import Path

import pytest

from dashboard.feed import Feed
from dashboard.hub import Hub
from dashboard.run_command import listen, serve
from dashboard.state import State
from events.cli import UserFacingError
from events.settings import Settings
from events.times import now_ms


@pytest.mark.parametrize("thread", ["_consume", "_watch"])
def test_the_dashboard_ends_when_a_thread_that_feeds_it_fails(
    thread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Feed) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(Feed, thread, fail)
    settings = Settings(
        _env_file=None, kafka_bootstrap_servers="127.0.0.1:1", rackstream_home=tmp_path
    )
    hub = Hub(State("127.0.0.1:1", [], now_ms()))
    with listen("127.0.0.1", 0) as listener:
        running = asyncio.wait_for(serve(settings, hub, listener, ()), 20)
        with pytest.raises(UserFacingError, match=r"no memory.+start it again"):
            asyncio.run(running)
