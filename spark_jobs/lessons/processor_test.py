"""The unit test of a processor: `TwsTester` calls it without Spark, state and timers included.

The tester gives a processor rows for a key and returns what it yields. State can be put in before and looked at
after, and the watermark is moved by hand, whereupon timers expire. It takes milliseconds.

Notice: Nothing here started a job. The tester does not move the watermark by itself; a test has to say when.
In production: `tests/unit/test_spark_jobs_overheating_state.py` tests the overheating processor this way.
"""

import json
from collections.abc import Iterator
from typing import cast

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_jobs.lessons.frame.lab import Lab
from spark_jobs.lessons.state_variables import Visits
from spark_jobs.lessons.timers import SILENCE_MS, Silence


def run(lab: Lab) -> Iterator[str]:
    """Test the processors of two other lessons."""
    expected = json.loads((lab.data / "expected.json").read_bytes())
    visits = TwsTester(Visits(), outputMode="Update")
    found = visits.test("user1", [Row(action="open", page="/home"), Row(action="view", page="/racks")])
    yield f"visits as expected: {[row.asDict() for row in found] == expected}"
    yield f"value state: {visits.peekValueState('count', 'user1')}"
    visits.updateValueState("count", "user1", (41,))
    (row,) = visits.test("user1", [Row(action="close", page="/racks")])
    yield f"after putting in 41: count {row['count']}, pages {row.pages}"
    silence = TwsTester(
        Silence(), timeMode="EventTime", outputMode="Update", eventTimeExtractor=lambda row: row.ms
    )
    silence.test("rack1", [Row(ms=1_000)])
    for watermark in (SILENCE_MS, SILENCE_MS + 1_000):
        expired = [row.asDict() for row in cast(list[Row], silence.setWatermark(watermark))]
        yield f"watermark {watermark}: {expired}"
