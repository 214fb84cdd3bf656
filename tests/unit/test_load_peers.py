"""The peers: the two in Java share their rule to the letter, and one that is not installed is a sentence."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from events.cli import PersonError
from loadtest import peers
from loadtest.__main__ import capacity_command, run_command
from loadtest.peers import FOLDER, PEERS, JavaPeer, PythonPeer
from loadtest.plan import PLANS, Engine

SHARED = {
    "Alert", "AlertWriter", "Evidence", "Instants", "Inventory", "Reading", "ReadingReader", "Rule", "RuleTest",
    "StateBytes",
}  # fmt: skip


def test_peers_share_their_rule_to_the_letter() -> None:
    streams, flink = (
        {path.stem: path.read_text(encoding="utf-8") for path in (FOLDER / engine / "src").rglob("*.java")}
        for engine in ("kafka_streams", "flink")
    )
    assert {name for name in streams if flink.get(name) == streams[name]} == SHARED


def test_every_engine_of_a_plan_but_spark_is_a_peer() -> None:
    assert {"spark", *PEERS} == set(Engine.__args__)  # type: ignore[attr-defined] # a literal has them


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Peers' sources in an empty folder, and their environments beside them."""
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    monkeypatch.setenv("RACKSTREAM_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.usefixtures("elsewhere")
def test_peers_that_are_not_installed_are_missing_and_spark_never_is() -> None:
    assert peers.missing(["spark", "quix", "flink", "flink"]) == ["flink", "quix"]
    assert peers.missing(["spark", *PEERS]) == sorted(PEERS)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("command", "plan"), [(run_command, "flink-latency"), (capacity_command, "flink-capacity")]
)
def test_nothing_begins_without_its_engine(command: Callable[[str], None], plan: str) -> None:
    with pytest.raises(
        PersonError, match=rf"lacks flink: python -m loadtest peers {plan} --install fetches and runs"
    ):
        command(plan)


def test_a_plan_for_a_capacity_is_not_run_at_a_rate_that_it_does_not_name(tmp_path: Path) -> None:
    with pytest.raises(PersonError, match=r"run python -m loadtest capacity overheating-capacity\.$"):
        run_command("overheating-capacity")
    own = tmp_path / "own.yaml"
    shutil.copy(PLANS / "overheating-capacity.yaml", own)
    with pytest.raises(PersonError, match=rf"run python -m loadtest capacity {re.escape(str(own))}\.$"):
        run_command(str(own))


def test_without_maven_a_java_peer_says_what_to_install(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(elsewhere))
    with pytest.raises(PersonError, match="install the package maven"):
        JavaPeer("flink", "it.jar").install()


def test_a_jar_older_than_its_sources_is_not_there(elsewhere: Path) -> None:
    peer = JavaPeer("flink", "it.jar")
    (elsewhere / "flink" / "target").mkdir(parents=True)
    pom, jar = elsewhere / "flink" / "pom.xml", elsewhere / "flink" / "target" / "it.jar"
    pom.write_text("<project/>")
    jar.touch()
    assert peer.is_there
    assert peer.command()[-1] == str(jar)
    os.utime(pom, ns=(0, jar.stat().st_mtime_ns + 10**9))
    assert not peer.is_there


def test_an_environment_of_another_lock_is_not_there(elsewhere: Path) -> None:
    peer = PythonPeer("quix")
    lock, copy = (
        elsewhere / "quix" / "requirements.lock",
        elsewhere / "home" / "peers" / "quix" / "requirements.lock",
    )
    for file in (lock, copy):
        file.parent.mkdir(parents=True)
        file.write_text("a==1\n")
    assert peer.is_there
    lock.write_text("a==2\n")
    assert not peer.is_there
