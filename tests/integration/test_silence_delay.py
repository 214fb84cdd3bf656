"""A silence is alerted within two seconds of the moment at which it is one.

The job runs alone, with its own interval. In the demo eleven queries share the processors, and a
batch of rules starts every two seconds.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from events.records import encode
from events.topics import ALERTS, RACK_READINGS
from tests.builders import reading
from tests.integration.test_jobs import Pipeline
from tests.promises import Promises
from tests.support import Kafka, Sender

pytestmark = [pytest.mark.full, pytest.mark.alone]

AFTER_S, PROMISED_S = 2, 2.0
RULES = f"rules:\n  - {{rule: silent-sensor, after_s: {AFTER_S}}}\n"
RACKS = [f"rack-{number:04d}" for number in range(12)]
FIRST = RACKS[:2]
"""Racks that fall silent first, one after the other: Spark compiles what an alert needs."""
TICK_S, STAGGER_TICKS = 0.1, 4
"""The other racks fall silent at different moments within the job's interval of 0.5 s."""


class Racks:
    """Sends a reading from each rack at each tick until the rack's last one."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka, self._tick, self._over = kafka, 0, Event()
        self._last_tick = dict.fromkeys(RACKS, math.inf)

    def silence(self, racks: Sequence[str]) -> None:
        """End the readings of some racks, one after the other."""
        for place, rack in enumerate(racks):
            self._last_tick[rack] = self._tick + place * STAGGER_TICKS

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send in the background."""
        thread = Thread(target=self._send)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _send(self) -> None:
        with closing(Sender(self._kafka)) as sender:
            while not self._over.wait(TICK_S):
                self._tick += 1
                live = [rack for rack, last in self._last_tick.items() if self._tick <= last]
                records = [(rack, encode(reading(self._tick, rack=rack))) for rack in live]
                sender.send(RACK_READINGS, records)


def alerted_ms(kafka: Kafka) -> dict[str, int]:
    """Return when each rack's alert was appended."""
    return {
        json.loads(record.value or b"")["subject"]: record.timestamp_ms
        for record in kafka.read_all(ALERTS)
    }


def have_alerts(kafka: Kafka, racks: int) -> bool:
    """Tell whether so many racks have an alert."""
    return len(alerted_ms(kafka)) == racks


def test_a_silence_is_alerted_within_two_seconds(
    topics: Kafka, tmp_path: Path, promises: Promises
) -> None:
    pipeline = Pipeline(topics, tmp_path)
    pipeline.know(RACKS, threshold_c=90.0, rules=RULES)
    racks = Racks(topics)
    with (
        racks.sending(),
        pipeline.running("--no-dead-letters", jobs=("silent_sensor",)) as process,
    ):
        pipeline.until(process, lambda: pipeline.batches("silent_sensor", "micro-batch", "commits"))
        for number, rack in enumerate(FIRST, start=1):
            racks.silence([rack])
            pipeline.until(process, partial(have_alerts, topics, number))
        racks.silence(RACKS[len(FIRST) :])
        pipeline.until(process, partial(have_alerts, topics, len(RACKS)))
    last_ms = {
        (record.key or b"").decode(): record.timestamp_ms
        for record in topics.read_all(RACK_READINGS)
    }
    delays_s = {
        rack: (at_ms - last_ms[rack]) / 1000 - AFTER_S
        for rack, at_ms in alerted_ms(topics).items()
        if rack not in FIRST
    }
    assert min(delays_s.values()) > 0, delays_s
    promises.compare("longest delay of a silence", max(delays_s.values()), PROMISED_S)
