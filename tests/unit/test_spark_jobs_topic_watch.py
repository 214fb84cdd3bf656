"""What a driver learns of its topics while the broker answers late, or not at all."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, repeat
from queue import Queue

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_jobs.runtime import topic_watch
from spark_jobs.runtime.topic_watch import TopicWatch

NO_ANSWER = "no answer"


@pytest.mark.parametrize(
    "failure",
    [TimeoutError(), KafkaException(KafkaError(KafkaError._TRANSPORT))],
    ids=["late answer", "no connection"],
)
def test_a_broker_that_has_not_answered_once_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    answers: Iterator[Exception | dict[str, int]] = chain([failure], repeat({"rack-readings": 7}))

    def ask(*_: object) -> Mapping[str, int]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    heard: Queue[Mapping[str, int] | str] = Queue()
    topics: Collection[str] = ["rack-readings"]
    monkeypatch.setattr(topic_watch, "end_offsets", ask)
    monkeypatch.setattr(topic_watch, "INTERVAL_S", 0.001)
    with TopicWatch("localhost:1", topics, heard.put, lambda: heard.put(NO_ANSWER)):
        assert [heard.get(timeout=10), heard.get(timeout=10)] == [NO_ANSWER, {"rack-readings": 7}]
