"""Strict parsing of the clickstream: money, listed words, huge ids and time offsets."""

import msgspec
from pyspark.sql import SparkSession

from events.records import AdClick, UserAction
from tests.spark.kafka_tables import Reader, both_readers, kafka_table

FINE = (
    b'{"event_id":"e","event_time":"2026-11-18T10:00:00.123Z","user_id":"u","action":"purchase","page":"/",'
    b'"device":"phone","amount":12.50}'
)


def action(amount: bytes | None = b"12.50", *, name: bytes = b"purchase") -> bytes:
    value = FINE.replace(b"purchase", name)
    return value.replace(b',"amount":12.50', b"" if amount is None else b',"amount":' + amount)


NOT_MONEY, NOT_A_NUMBER = "amount is not money", "amount is not a number"
NOT_AN_OBJECT = "the value is not one JSON object"
# What comes, and the sentence; None: it is readable.
ACTIONS: dict[str, tuple[bytes, str | None]] = {
    "a purchase": (FINE, None),
    "nothing": (action(b"0"), None),
    "minus nothing": (action(b"-0.00"), None),
    "the most": (action(b"9999999999999999.99"), None),
    "a cent more": (action(b"10000000000000000.00"), NOT_MONEY),
    "an exponent": (action(b"1.250e1"), None),
    "more zeros than cents": (action(b"12.5000"), None),
    "a tenth of a cent": (action(b"0.001"), NOT_MONEY),
    "far less than a cent": (action(b"1e-15"), NOT_MONEY),
    "negative": (action(b"-0.01"), "amount is negative"),
    "negative beyond money": (action(b"-1e40"), NOT_MONEY),
    "beyond money": (action(b"1e40"), NOT_MONEY),
    "a number as text": (action(b'"12.50"'), NOT_A_NUMBER),
    "a number as text behind space": (action(b' \t"12.50"'), NOT_A_NUMBER),
    "words": (action(b'"much"'), NOT_MONEY),
    "empty text": (action(b'""'), NOT_MONEY),
    "a boolean": (action(b"true"), NOT_MONEY),
    "a list": (action(b"[1]"), NOT_MONEY),
    "an object": (action(b'{"EUR":1}'), NOT_MONEY),
    "NaN": (action(b"NaN"), NOT_AN_OBJECT),
    "a purchase of null": (action(b"null"), "amount is missing"),
    "a purchase without": (action(None), "amount is missing"),
    "a view without": (action(None, name=b"view"), None),
    "a view with": (action(name=b"view"), None),
    "a view with a bad one": (action(b"-1", name=b"view"), "amount is negative"),
    "another action": (action(name=b"steal"), "action is none of close, open, purchase, view"),
    "an action in capitals": (
        action(name=b"View"),
        "action is none of close, open, purchase, view",
    ),
    "a user of 10 kB": (
        FINE.replace(b'"u"', b'"' + b"u" * 10_000 + b'"'),
        "user_id is over 256 bytes",
    ),
    "a number for a user": (FINE.replace(b'"u"', b"7"), "user_id is not text"),
    "another offset": (
        FINE.replace(b"123Z", b"123+01:00"),
        "event_time is not a time in UTC ending in Z",
    ),
    "offset zero": (
        FINE.replace(b"123Z", b"123+00:00"),
        "event_time is not a time in UTC ending in Z",
    ),
    "a page that says amount": (FINE.replace(b'"/"', rb'"\"amount\":\"1\""'), None),
}


@both_readers
def test_each_action_is_read_or_has_the_sentence_that_says_why_not(
    spark: SparkSession, reader: Reader
) -> None:
    rows = reader(
        kafka_table(spark, [value for value, _ in ACTIONS.values()]), UserAction
    ).collect()
    found = {name: rows[place]["error"] for place, name in enumerate(ACTIONS)}
    assert found == {name: sentence for name, (_, sentence) in ACTIONS.items()}
    read = {
        name: str(rows[place]["amount"])
        for place, name in enumerate(ACTIONS)
        if found[name] is None
    }
    assert read["the most"] == "9999999999999999.99"
    assert (read["an exponent"], read["more zeros than cents"], read["a view without"]) == (
        "12.50",
        "12.50",
        "None",
    )


QUOTED_NUMBERS = {"a number as text", "a number as text behind space"}


def test_the_records_own_decoder_refuses_the_same_actions_except_quoted_numbers() -> None:
    refused = {name for name, (value, _) in ACTIONS.items() if not is_decoded(value)}
    faulty = {name for name, (_, sentence) in ACTIONS.items() if sentence is not None}
    assert refused == faulty - QUOTED_NUMBERS


def is_decoded(value: bytes) -> bool:
    """Tell whether the record's own decoder takes a value."""
    try:
        msgspec.json.decode(value, type=UserAction)
    except msgspec.DecodeError:  # a ValidationError is one too
        return False
    return True


@both_readers
def test_a_click_is_read_and_one_without_its_impression_is_not(
    spark: SparkSession, reader: Reader
) -> None:
    click = (
        b'{"event_id":"e","event_time":"2026-11-18T10:00:00Z","click_id":"c","impression_id":"i","ad_id":"a",'
        b'"user_id":"u"}'
    )
    values = [
        click,
        click.replace(b'"impression_id":"i",', b""),
        click.replace(b'"c"', b'"' + b"c" * 257 + b'"'),
    ]
    rows = reader(kafka_table(spark, values), AdClick).collect()
    assert [row["error"] for row in rows] == [
        None,
        "impression_id is missing",
        "click_id is over 256 bytes",
    ]
