"""Keep the newest dead letters, each once, with as much of their values as a page shows."""

from collections import deque
from collections.abc import Iterable

import msgspec

from dashboard.bounded import RecentIds
from dashboard.page_records import ShownDeadLetter
from dashboard.received import Received, RecordReader
from events.records import MAX_ID_BYTES, DeadLetter

DEAD_LETTERS_KEPT = 100
DEAD_LETTER_CHARACTERS = 4096
DEAD_LETTER_BASE64 = 1024
"""Characters of base64 that are kept of a value that is no text: those of 768 bytes."""
IDS_REMEMBERED = 20_000


class DeadLetters:
    """Dead letters by source topic, partition and offset: the topic may hold one twice."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._newest = deque[ShownDeadLetter](maxlen=DEAD_LETTERS_KEPT)
        self._ids = RecentIds(IDS_REMEMBERED)

    def apply(self, records: Iterable[Received]) -> list[str]:
        """Take records of the topic; return the reason of each new one."""
        reasons = list[str]()
        for dead_letter in self._reader.decoded(records, _DEAD_LETTER):
            identity = (dead_letter.source_topic, dead_letter.partition, dead_letter.offset)
            if self._ids.add(*identity):
                self._newest.appendleft(_shown(dead_letter))
                reasons.append(dead_letter.reason)
        return reasons

    def newest(self) -> list[ShownDeadLetter]:
        """Return those that are kept, the newest first."""
        return list(self._newest)


def _shown(dead_letter: DeadLetter) -> ShownDeadLetter:
    text = dead_letter.value
    base64 = dead_letter.value_base64 if text is None else None
    return ShownDeadLetter(
        source_topic=dead_letter.source_topic[:MAX_ID_BYTES],
        partition=dead_letter.partition,
        offset=dead_letter.offset,
        reason=dead_letter.reason,
        error=dead_letter.error[:DEAD_LETTER_CHARACTERS],
        value=None if text is None else text[:DEAD_LETTER_CHARACTERS],
        value_base64=None if base64 is None else base64[:DEAD_LETTER_BASE64],
        value_size=dead_letter.value_size,
        value_cut=len(text or "") > DEAD_LETTER_CHARACTERS
        or len(base64 or "") > DEAD_LETTER_BASE64,
        seen_time=dead_letter.seen_time,
    )


_DEAD_LETTER = msgspec.json.Decoder(DeadLetter)
