"""The example in docs/alerting.md shows an alert that the rule can produce."""

import re

from events.constants import DEFAULT_THRESHOLD_C
from producer.expected.oracles.rows import alert_id
from tests.support import ROOT

SHOWN = (ROOT / "docs" / "alerting.md").read_text(encoding="utf-8").split("alerting show ")[1]
EVIDENCE = re.compile(r"^  (\S+)  sequence (\d+)  ([\d.]+) °C  event (\S+)$", re.MULTILINE)


def shown(field: str) -> str:
    """Return the value of a field of the incident that the example shows."""
    found = re.search(rf"^{field} +(\S+)", SHOWN, re.MULTILINE)
    assert found, field
    return found[1]


def test_the_shown_alert_follows_from_its_evidence() -> None:
    evidence = EVIDENCE.findall(SHOWN)
    times, sequences, temperatures, event_ids = zip(*evidence, strict=True)
    identity = (shown("rule"), shown("subject"), "WARNING", shown("severity"), event_ids[-1])
    assert shown("ID") == alert_id(*identity)
    assert shown("start") == times[-1]
    assert [int(each) for each in sequences] == list(
        range(int(sequences[0]), int(sequences[0]) + 3)
    )
    assert all(float(each) >= DEFAULT_THRESHOLD_C for each in temperatures)
    assert f"the latest is {float(temperatures[-1]):.1f} °C." in SHOWN
