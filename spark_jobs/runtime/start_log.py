"""Record when the driver started, and when its rules' jobs were ready (`events.driver_starts`)."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from events.driver_starts import DriverStart, write_start
from events.times import now_ms, to_ms, to_text
from events.triggers import Trigger


class StartLog:
    """The record of this driver's start; `on_progress` is a handler of `BatchListener`.

    In: the trigger of each job. Its folder is that of the status file, whose writer warns when it
    cannot write there.
    """

    def __init__(self, home: Path, topic_prefix: str, triggers: Mapping[str, Trigger]) -> None:
        self._home, self._triggers = home, triggers
        self._start = DriverStart(
            topic_prefix=topic_prefix,
            started_time=to_text(now_ms()),
            ready_times=dict.fromkeys(triggers),
        )
        self._write()

    def on_progress(self, progress: Mapping[str, Any]) -> None:
        """Take note of a batch, from Spark's progress."""
        name, ready_times = progress["name"], self._start.ready_times
        if (
            progress["numInputRows"]
            and self._triggers.get(name, Trigger.REAL_TIME) is not Trigger.REAL_TIME
            and ready_times[name] is None
        ):
            took_ms = int(progress["durationMs"]["triggerExecution"])
            ready_times[name] = to_text(to_ms(progress["timestamp"]) + took_ms)
            self._write()

    def _write(self) -> None:
        with suppress(OSError):
            write_start(self._home, self._start)
