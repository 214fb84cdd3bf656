"""The tables of docs/contract.md name every topic, with exactly the fields of its record."""

import re

import msgspec
import pytest

from events.records import Alert, Evidence, InventoryRack
from events.topics import ALL, Topic
from tests.support import ROOT

PAGE = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
TOPIC_ROW = re.compile(r"^\| `([a-z]+-?[a-z]+)` \| [^|]+ \| (.+) \|$", re.MULTILINE)
FIELD = re.compile(r"`(\w+)`(\?)?")


def section(heading: str) -> str:
    """Return the text below a heading of the page."""
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def shown_topics() -> dict[str, str]:
    """Return the third column of the tables of topics, by the topic's name."""
    return dict(TOPIC_ROW.findall(section("Input topics") + section("Output topics")))


def fields(record: type[msgspec.Struct]) -> dict[str, bool]:
    """Return a record's fields, and whether each may be missing."""
    return {field.encode_name: not field.required for field in msgspec.structs.fields(record)}


def test_the_page_names_every_topic_and_no_other() -> None:
    assert sorted(shown_topics()) == sorted(topic.name for topic in ALL)


@pytest.mark.parametrize("topic", ALL, ids=lambda topic: topic.name)
def test_a_topic_is_shown_with_exactly_the_fields_of_its_record(topic: Topic) -> None:
    shown = {name: bool(mark) for name, mark in FIELD.findall(shown_topics()[topic.name])}
    assert shown == (fields(topic.record) if topic.record else {})


def test_the_alert_is_explained_field_by_field() -> None:
    rows = re.findall(r"^\| (`\w+`.*?) \| (.+) \|$", section("An alert"), re.MULTILINE)
    explained = {name for names, _ in rows for name, _ in FIELD.findall(names)}
    assert explained == set(fields(Alert))
    evidence = next(text for names, text in rows if names == "`evidence`")
    named = {name for name, _ in FIELD.findall(evidence)}
    assert named == set(fields(Evidence))


def test_the_inventory_is_shown_with_its_fields() -> None:
    text = section("Input topics").split("The inventory is")[1].split("The threshold")[0]
    assert [name for name, _ in FIELD.findall(text)] == list(fields(InventoryRack))
