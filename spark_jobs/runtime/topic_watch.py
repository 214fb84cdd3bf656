"""Ask the broker every few seconds where the topics end, on a thread of its own."""

from collections.abc import Callable, Collection, Mapping
from threading import Event, Thread
from typing import Self

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # OffsetSpec is not in __all__
    AdminClient,
    OffsetSpec,
)

INTERVAL_S = 2.0
TIMEOUT_S = 5.0
"""A broker that takes longer counts as not reachable."""


class TopicWatch:
    """Hands over the sum of end offsets of each topic, or that the broker has not answered.

    A topic that does not exist is left out. `topics` have their names on the broker.
    """

    def __init__(
        self,
        servers: str,
        topics: Collection[str],
        on_ends: Callable[[Mapping[str, int]], None],
        on_no_answer: Callable[[], None],
    ) -> None:
        self._topics, self._on_ends, self._on_no_answer = topics, on_ends, on_no_answer
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._end = Event()
        self._thread = Thread(target=self._run, name="topics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(1)  # a broker that does not answer must not hold up the end

    def _run(self) -> None:
        while True:
            try:
                ends = end_offsets(self._admin, self._topics)
            except (KafkaException, TimeoutError):
                self._on_no_answer()
            else:
                self._on_ends(ends)
            if self._end.wait(INTERVAL_S):
                return


def end_offsets(admin: AdminClient, topics: Collection[str]) -> dict[str, int]:
    """Return the sum of end offsets of each topic that exists.

    Raises `KafkaException` or `TimeoutError` when the broker does not answer in time.
    """
    known = admin.list_topics(timeout=TIMEOUT_S).topics
    partitions = [
        TopicPartition(topic, number)
        for topic in topics
        if topic in known
        for number in known[topic].partitions
    ]
    if not partitions:
        return {}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    answers = admin.list_offsets(dict.fromkeys(partitions, latest), request_timeout=TIMEOUT_S)
    ends: dict[str, int] = {}
    for partition, answer in answers.items():
        ends[partition.topic] = ends.get(partition.topic, 0) + answer.result(2 * TIMEOUT_S).offset
    return ends
