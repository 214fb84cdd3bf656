"""Unit-test a stateful processor with `TwsTester`, without running a query.

The tester passes rows for a key to the processor and returns what it yields. A test can set state
before, inspect it afterwards, and move the watermark so that timers expire. It takes milliseconds.

Notice: The lesson starts no Spark job. The tester does not move the watermark by itself; the test
has to set it.
In production: The unit tests of the processor in `overheating` work this way.
"""

import json
from collections.abc import Iterator
from typing import cast

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from lessons.harness.context import LessonContext
from lessons.state_variables import Visits
from lessons.timers import SILENCE_MS, Silence


def run(context: LessonContext) -> Iterator[str]:
    """Test the processors of two other lessons."""
    expected = json.loads((context.data / "expected.json").read_bytes())
    visits = TwsTester(Visits(), outputMode="Update")
    rows = visits.test(
        "user1", [Row(action="open", page="/home"), Row(action="view", page="/racks")]
    )
    yield f"visits as expected: {[row.asDict() for row in rows] == expected}"
    yield f"value state: {visits.peekValueState('count', 'user1')}"
    visits.updateValueState("count", "user1", (41,))
    (row,) = visits.test("user1", [Row(action="close", page="/racks")])
    yield f"after setting the count to 41: count {row['count']}, pages {row.pages}"
    silence = TwsTester(
        Silence(), timeMode="EventTime", outputMode="Update", eventTimeExtractor=lambda row: row.ms
    )
    silence.test("rack1", [Row(ms=1_000)])
    for watermark in (SILENCE_MS, SILENCE_MS + 1_000):
        expired = [row.asDict() for row in cast(list[Row], silence.setWatermark(watermark))]
        yield f"watermark {watermark}: {expired}"
