"""Feed the dashboard's topics without Spark: readings at a rate, and what the jobs would output.

`python -m tests.browser.replay --racks 1000 --rate 5000` creates the topics and writes until
Ctrl-C. Racks take turns at overheating. With `--no-incidents` a real `alerting run` writes those.
"""

import itertools
import math
import random
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from confluent_kafka import Producer

from broker.topics import create_topics
from events import cli, settings
from events.constants import FLEET_SCOPE, SIGNAL_WINDOW, WINDOW, WINDOW_SLIDE
from events.inventory import write_inventory
from events.records import (
    ActionCount,
    AdAttribution,
    AdClick,
    AdImpression,
    Alert,
    DeadLetter,
    Evidence,
    Incident,
    InventoryRack,
    RackReading,
    RackTemperature,
    SignalStatistics,
    UserSession,
    UserTotal,
    encode,
)
from events.settings import Settings
from events.times import now_ms, to_text
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    AD_CLICKS,
    AD_IMPRESSIONS,
    ALERTS,
    DEAD_LETTERS,
    INCIDENTS,
    RACK_READINGS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_SESSIONS,
    USER_TOTALS,
    Topic,
)

THRESHOLD_C = 90.0
SITES = 8
DEVICE_TYPES = ("gpu-server", "cpu-server", "storage", "switch")
HOT_EVERY_S, HOT_FOR_S = 5, 20
WINDOW_MS, SLIDE_MS, SIGNAL_WINDOW_MS = (
    round(1000 * span.total_seconds()) for span in (WINDOW, WINDOW_SLIDE, SIGNAL_WINDOW)
)
TICK_S = 0.05


def inventory_of(racks: int) -> list[InventoryRack]:
    """Return so many racks, spread over the sites."""
    return [
        InventoryRack(
            rack_id=f"rack-{number:04d}",
            site_id=f"site-{number % SITES + 1}",
            device_type=DEVICE_TYPES[number % len(DEVICE_TYPES)],
            threshold_c=THRESHOLD_C,
            readings_per_second=5.0,
        )
        for number in range(racks)
    ]


class Replay:
    """Writes all topics that the dashboard reads, second by second."""

    def __init__(
        self,
        config: Settings,
        racks: int,
        rate: float,
        *,
        incidents: bool = True,
        every_window: bool = False,
        seed: int = 7,
    ) -> None:
        self._config, self._rate, self._incidents = config, rate, incidents
        self._every_window = every_window
        self.inventory = inventory_of(racks)
        self._random = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": config.kafka_bootstrap_servers,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "log_level": 0,
            }
        )
        self._sequences = [now_ms()] * racks
        self._hot: dict[int, float] = {}
        self._numbers = itertools.count()
        self._totals: dict[str, tuple[Decimal, int]] = {}
        self._actions: dict[tuple[int, str], int] = {}
        self._window_counts: dict[tuple[str, int], int] = {}
        self._seconds = itertools.count()

    def run(self, goes_on: Callable[[], bool]) -> int:
        """Write until `goes_on` returns false; return how many readings were sent."""
        begin, sent, next_second = time.monotonic(), 0, 0.0
        racks = len(self.inventory)
        while goes_on():
            elapsed = time.monotonic() - begin
            due = int(elapsed * self._rate)
            at_ms = now_ms()
            while sent < due:
                self._send_reading(sent % racks, at_ms)
                if self._every_window:
                    self._send_windows_of(self.inventory[sent % racks].rack_id, at_ms)
                    self._send_windows_of(FLEET_SCOPE, at_ms)
                sent += 1
            if elapsed >= next_second:
                next_second += 1
                self._send_outputs(at_ms)
            self._producer.poll(0)
            time.sleep(TICK_S)
        self._producer.flush(10)
        return sent

    def send(self, topic: Topic, key: str, record: msgspec.Struct) -> None:
        """Send one record."""
        self._produce(topic.name, key, encode(record))

    def flush(self) -> None:
        """Wait until the broker has everything."""
        self._producer.flush(10)

    def _produce(self, topic: str, key: str, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._config.topic_prefix + topic, key=key, value=value)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _temperature(self, number: int, at_ms: int) -> float:
        base = 55 + 25 * (number * 7919 % 100) / 100 + 4 * math.sin(at_ms / 20_000 + number)
        return base if number not in self._hot else THRESHOLD_C + 6 + number % 5

    def _send_reading(self, number: int, at_ms: int) -> None:
        rack = self.inventory[number]
        self._sequences[number] += 1
        self.send(
            RACK_READINGS,
            rack.rack_id,
            RackReading(
                event_id=f"{rack.rack_id}/{self._sequences[number]}",
                event_time=to_text(at_ms),
                rack_id=rack.rack_id,
                sequence=self._sequences[number],
                site_id=rack.site_id,
                device_type=rack.device_type,
                temperature_c=round(self._temperature(number, at_ms) + self._random.random(), 2),
                signal_strength=round(0.6 + 0.4 * self._random.random(), 3),
            ),
        )

    def _send_outputs(self, at_ms: int) -> None:
        second = next(self._seconds)
        if second % HOT_EVERY_S == HOT_EVERY_S - 1:
            number = self._random.randrange(len(self.inventory))
            if number not in self._hot:
                self._hot[number] = at_ms
                self._send_alert(number, at_ms, "WARNING")
        for number, since_ms in list(self._hot.items()):
            if at_ms - since_ms > 1000 * HOT_FOR_S:
                del self._hot[number]
                self._send_alert(number, at_ms, "NORMAL", since_ms)
        self._send_windows(at_ms)
        self._send_clickstream(at_ms)
        if second % 10 == 5:
            self._send_dead_letter(at_ms, second)
        if second % 5 == 0:
            self._send_signals(at_ms)

    def _send_alert(self, number: int, at_ms: int, state: Any, since_ms: float = 0) -> None:
        rack = self.inventory[number]
        is_hot = state == "WARNING"
        summary = (
            f"{rack.rack_id} at {rack.site_id}: the last three readings are all at or above "
            f"{THRESHOLD_C:g} °C."
            if is_hot
            else f"{rack.rack_id} at {rack.site_id} is below {THRESHOLD_C:g} °C again."
        )
        alert_id = f"{self._random.getrandbits(128):032x}"
        sequence = self._sequences[number]
        self.send(
            ALERTS,
            rack.rack_id,
            Alert(
                alert_id=alert_id,
                rule="rack-overheating",
                subject=rack.rack_id,
                site_id=rack.site_id,
                state=state,
                severity="error" if is_hot else "info",
                event_time=to_text(at_ms),
                detected_time=to_text(at_ms + 5),
                summary=summary,
                evidence=[
                    Evidence(
                        event_id=f"{rack.rack_id}/{sequence - back}",
                        sequence=sequence - back,
                        event_time=to_text(at_ms - 200 * back),
                        temperature_c=96.5 - back if is_hot else 70.0,
                    )
                    for back in (2, 1, 0)
                ],
            ),
        )
        if self._incidents:
            self.send(
                INCIDENTS,
                f"rack-overheating|{rack.rack_id}",
                Incident(
                    alert_id=alert_id,
                    status="firing" if is_hot else "resolved",
                    severity="error",
                    rule="rack-overheating",
                    subject=rack.rack_id,
                    site_id=rack.site_id,
                    start_time=to_text(at_ms if is_hot else int(since_ms)),
                    end_time=None if is_hot else to_text(at_ms),
                    repeats=0,
                    acknowledged_by=None,
                    silenced_until=None,
                    inhibited=False,
                    flapping=False,
                    summary=summary,
                    last_alert_id=alert_id,
                ),
            )

    def _send_windows(self, at_ms: int) -> None:
        racks = self._random.sample(range(len(self.inventory)), min(50, len(self.inventory)))
        racks += list(self._hot)
        for scope in (FLEET_SCOPE, *(self.inventory[number].rack_id for number in racks)):
            self._send_windows_of(scope, at_ms)

    def _send_windows_of(self, scope: str, at_ms: int) -> None:
        for start in (at_ms - at_ms % SLIDE_MS, at_ms - at_ms % SLIDE_MS - SLIDE_MS):
            count = self._window_counts.get((scope, start), 0) + 1
            self._window_counts[scope, start] = count
            row = RackTemperature(
                scope=scope,
                window_start=to_text(start),
                window_end=to_text(start + WINDOW_MS),
                reading_count=count,
                temperature_c_avg=69 + math.sin(at_ms / 30_000) * 3,
                temperature_c_min=56.5,
                temperature_c_max=96.25,
            )
            self.send(RACK_TEMPERATURE, f"{scope}|{row.window_start}|{row.window_end}", row)

    def _send_clickstream(self, at_ms: int) -> None:
        now = to_text(at_ms)
        for _ in range(self._random.randrange(10, 30)):
            number = next(self._numbers)
            impression, user = f"imp-{number}", f"user-{number % 97:03d}"
            self.send(
                AD_IMPRESSIONS,
                impression,
                AdImpression(
                    event_id=f"shown-{number}",
                    event_time=now,
                    impression_id=impression,
                    ad_id="ad-1",
                    user_id=user,
                    page="/",
                ),
            )
            is_clicked = number % 3 == 0
            if is_clicked:
                self.send(
                    AD_CLICKS,
                    impression,
                    AdClick(
                        event_id=f"clicked-{number}",
                        event_time=now,
                        click_id=f"click-{number}",
                        impression_id=impression,
                        ad_id="ad-1",
                        user_id=user,
                    ),
                )
            self.send(
                AD_ATTRIBUTION,
                impression,
                AdAttribution(
                    impression_id=impression,
                    ad_id="ad-1",
                    user_id=user,
                    impression_time=now,
                    click_id=f"click-{number}" if is_clicked else None,
                    click_time=now if is_clicked else None,
                    seconds_to_click=min(3600.0, round(self._random.expovariate(1 / 240), 3))
                    if is_clicked
                    else None,
                ),
            )
        self._send_users(at_ms)

    def _send_users(self, at_ms: int) -> None:
        start = at_ms - at_ms % WINDOW_MS
        for action, share in (("open", 9), ("view", 17), ("close", 8), ("purchase", 3)):
            count = self._actions.get((start, action), 0) + share
            self._actions[start, action] = count
            row = ActionCount(
                window_start=to_text(start),
                window_end=to_text(start + WINDOW_MS),
                action=action,
                user_id=None,
                action_count=count,
            )
            self.send(ACTION_COUNTS, f"{row.window_start}|{action}", row)
        user = f"user-{self._random.randrange(97):03d}"
        amount, purchases = self._totals.get(user, (Decimal(0), 0))
        amount += Decimal(self._random.randrange(100, 20_000)) / 100
        self._totals[user] = (amount, purchases + 1)
        self.send(
            USER_TOTALS,
            user,
            UserTotal(
                user_id=user,
                event_time=to_text(at_ms),
                amount_total=amount,
                purchase_count=purchases + 1,
            ),
        )
        self.send(
            USER_SESSIONS,
            user,
            UserSession(
                user_id=user,
                session_start=to_text(at_ms - 600_000),
                session_end=to_text(at_ms),
                action_count=self._random.randrange(1, 30),
                amount_total=amount,
            ),
        )

    def _send_dead_letter(self, at_ms: int, second: int) -> None:
        is_future = second % 20 == 5
        value = '{"event_id":"x","temperature_c":"hot"' + ("}" if is_future else "")
        self.send(
            DEAD_LETTERS,
            "rack-0001",
            DeadLetter(
                source_topic="rack-readings",
                partition=0,
                offset=at_ms,
                reason="future" if is_future else "unreadable",
                value=value,
                value_base64=None,
                value_size=len(value),
                error="event_time is 7 minutes ahead" if is_future else "not JSON",
                seen_time=to_text(at_ms),
            ),
        )

    def _send_signals(self, at_ms: int) -> None:
        start = at_ms - at_ms % SIGNAL_WINDOW_MS
        for number, device_type in enumerate(DEVICE_TYPES):
            row = SignalStatistics(
                window_start=to_text(start),
                window_end=to_text(start + SIGNAL_WINDOW_MS),
                device_type=device_type,
                rack_id=None,
                reading_count=at_ms // 1000 % 100_000,
                signal_strength_min=0.6,
                signal_strength_max=1.0,
                signal_strength_avg=0.8 + number / 100,
            )
            key = f"{row.window_start}|{row.window_end}|device_type|{device_type}"
            self.send(SIGNAL_STATISTICS, key, row)


app = cli.new_app("Feed the dashboard's topics without Spark.")


@app.command()
def main(
    racks: Annotated[int, typer.Option(help="How many racks.")] = 40,
    rate: Annotated[float, typer.Option(help="Readings per second, over all racks.")] = 200.0,
    duration: Annotated[float | None, typer.Option(help="Seconds; default: until Ctrl-C.")] = None,
    incidents: Annotated[bool, typer.Option(help="Write incidents too.")] = True,
    every_window: Annotated[
        bool, typer.Option(help="Write four windows per reading, as Real-time Mode does.")
    ] = False,
    inventory: Annotated[Path | None, typer.Option(help="Write the racks to this file.")] = None,
) -> None:
    """Create the topics, and write to them until Ctrl-C."""
    config = settings.load()
    create_topics(config.kafka_bootstrap_servers, config.topic_prefix)
    replay = Replay(config, racks, rate, incidents=incidents, every_window=every_window)
    if inventory:
        write_inventory(inventory, replay.inventory)
    end = math.inf if duration is None else time.monotonic() + duration
    sent = replay.run(lambda: time.monotonic() < end)
    typer.echo(f"Sent {sent} readings.")


if __name__ == "__main__":
    cli.run(app, "tests.browser.replay")
