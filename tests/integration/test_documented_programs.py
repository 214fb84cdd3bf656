"""The programs in docs/operations.md for your own records do what the page says."""

import re
import subprocess
import sys

import msgspec
import pytest

from events.records import RackReading
from events.topics import DEAD_LETTERS, RACK_READINGS
from tests.support import ROOT, Kafka

pytestmark = pytest.mark.full

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def printed_by(heading: str, topics: Kafka, *changes: tuple[str, str]) -> str:
    """Return what the Python program below a heading prints.

    It runs with the test's broker and topics, and with changes: what is replaced by what.
    """
    below = PAGE.partition(f"\n### {heading}\n")[2]
    block = re.search(r"^```\n\.venv/bin/python -c '(.+?)'\n```$", below, re.DOTALL | re.MULTILINE)
    assert block, f"no program below {heading}"
    code = block[1]
    for topic in (RACK_READINGS, DEAD_LETTERS):
        code = code.replace(f'"{topic.name}"', f'"{topics.name(topic)}"')
    broker = f'bootstrap_servers="{topics.bootstrap}"'
    # The name of a topic is the first argument.
    code = re.sub(r'(kafka\.Kafka\w+\()("[^"]+", )?', rf"\1\2{broker}, ", code)
    for before, after in changes:
        assert before in code, before
        code = code.replace(before, after)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_reading_is_sent_and_a_malformed_one_is_sent_again(topics: Kafka) -> None:
    printed_by("Your own readings", topics)
    (sent,) = topics.read_all(RACK_READINGS)
    reading = msgspec.json.decode(sent.value or b"", type=RackReading)
    assert sent.key == reading.rack_id.encode()
    value = (sent.value or b"").replace(b"71.5", b"71,5")
    assert value != sent.value
    topics.send(RACK_READINGS, [("rack-1", value)])

    malformed = topics.read_all(RACK_READINGS)[-1]
    assert malformed.value == value
    position = ("2), 1234", f"{malformed.partition}), {malformed.offset}")
    printed_by("Send a corrected record", topics, position)
    *_, corrected = topics.read_all(RACK_READINGS)
    assert (corrected.key, corrected.value) == (sent.key, sent.value)
    assert corrected.partition == malformed.partition
    assert corrected.offset > malformed.offset


def test_the_records_of_a_topic_are_printed(topics: Kafka) -> None:
    topics.send(DEAD_LETTERS, [("key", b'{"reason": "future"}'), ("key", b'{"reason": "other"}')])
    assert printed_by("Print a topic", topics).splitlines() == [
        '{"reason": "future"}',
        '{"reason": "other"}',
    ]
