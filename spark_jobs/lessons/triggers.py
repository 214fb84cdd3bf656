"""When a batch begins: at once, at intervals, once, or for all there is now.

Without a trigger a batch begins when the one before has ended and there is new data. With an interval it waits for
the next multiple of it. `once` makes one batch of all there is, whatever the limits say; `availableNow` reads the
same, in batches within the limits, and ends. Two more triggers have lessons of their own: continuous and real_time.

Notice: Three files at one a batch are three batches, but a single one for `once`: with a year of data that batch does
not fit anywhere, which is why available-now replaced it. After a restart each goes on where it was.
In production: `--trigger` of `python -m spark_jobs run`: real-time, micro-batch or available-now.
"""

from collections.abc import Iterator
from typing import Any

from spark_jobs.lessons.frame.lab import Batches, Lab, started, wait_until

TRIGGERS: dict[str, dict[str, Any]] = {
    "default": {},
    "every 2 s": {"processingTime": "2 seconds"},
    "every 5 s": {"processingTime": "5 seconds"},
    "once": {"once": True},
    "available now": {"availableNow": True},
}


def run(lab: Lab) -> Iterator[str]:
    """Read three files with each trigger, stop, and go on with a fourth."""
    for name, trigger in TRIGGERS.items():
        files = lab.stream("file int", "1.json", "2.json", into=name)
        for start in ("first start", "restart"):
            if start == "restart":
                lab.arrive("3.json", into=name)
            shown = Batches()
            writer = files.writeStream.foreachBatch(shown).option(
                "checkpointLocation", lab.path(f"of {name}")
            )
            with started(writer.trigger(**trigger) if trigger else writer) as query:
                query.processAllAvailable()
                if name in ("once", "available now"):
                    wait_until(lambda running: not running.isActive, query)
                ended = not query.isActive
                moments = [progress.timestamp for progress in query.recentProgress if progress.numInputRows]
            batches = [" ".join(text.split()) for text in shown.texts]
            yield f"{name}, {start}: {batches}, ended by itself: {ended}"
            if len(moments) == 2 and "every" in name:
                seconds = int(name.split()[1])
                first, second = (int(moment[17:19]) // seconds for moment in moments)
                yield f"  the second batch waited for the next multiple of {seconds} s: {second != first}"
