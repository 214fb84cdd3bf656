"""Both Java peers have the very same rule; what differs between them is only what belongs to their engine."""

from pathlib import Path

PEERS = Path(__file__).parents[2] / "loadtest" / "peers"
SHARED = {
    "Alert", "AlertWriter", "Evidence", "Instants", "Inventory", "Reading", "ReadingReader", "Rule", "RuleTest",
    "StateBytes",
}  # fmt: skip


def test_peers_share_their_rule_to_the_letter() -> None:
    streams, flink = (
        {path.stem: path.read_text(encoding="utf-8") for path in (PEERS / engine / "src").rglob("*.java")}
        for engine in ("kafka_streams", "flink")
    )
    assert {name for name in streams if flink.get(name) == streams[name]} == SHARED
