"""How soon is a silence noticed: from the moment at which it is one to that at which a consumer has the alert.

Half of the racks fall silent one by one while the others send; then the producer ends, and the other half falls silent
all at once, when no record moves a watermark any more.
"""

import time

import msgspec

from events.cli import PersonError
from events.times import to_ms
from events.topics import ALERTS
from loadtest.processes import produce, running
from loadtest.promises.speed import Bench, consumer

RACKS = 100
AFTER_S = 30
"""How long a rack must be silent, the job's default."""
SENDING_S = 160
"""Two minutes of it warm-up: so long the JVM compiles, and batches take thrice their time."""


def silence_delays(bench: Bench) -> list[float]:
    """Return for each of 100 silences after how many ms it was noticed; raise `PersonError` when one was not."""
    prefix = "speed-silence."
    env = bench.topics(prefix)
    job = ["spark_jobs", "run", "silent_sensor", "--checkpoint-root", str(bench.folder / prefix),
           "--progress", str(bench.folder / "silence.jsonl")]  # fmt: skip
    one_by_one = f"silence={RACKS // 2},start_s=115,stagger_s=0.2,length_s={SENDING_S},every_s=null"
    load = ["--racks", str(RACKS), "--rate", "500", "--fault", one_by_one]
    log = bench.folder / f"{prefix}jobs.log"
    with running(log, env, *job) as jobs:
        produce(env, *load, "--duration", str(SENDING_S))
        ended = time.monotonic()
        reader = consumer(bench, prefix + ALERTS.name)
        delays: list[float] = []
        try:
            while len(delays) < RACKS:
                if jobs.poll() is not None or time.monotonic() > ended + 2 * AFTER_S:
                    raise PersonError(f"{len(delays)} of {RACKS} silences were noticed: see {log}.")
                message = reader.poll(0.05)
                if message is None or message.error():
                    continue
                alert = msgspec.json.decode(message.value() or b"")
                # Appended is when a consumer can have it: those of the first half have waited for this reader.
                delays.append(message.timestamp()[1] - to_ms(alert["event_time"]))
        finally:
            reader.close()
    bench.say(
        f"silent_sensor: {RACKS} silences, half of them at once; noticed after {AFTER_S} s and "
        f"p50 {sorted(delays)[RACKS // 2]:.0f} ms, at most {max(delays):.0f} ms"
    )
    return delays
