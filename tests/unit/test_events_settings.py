"""Settings: environment over `.env` over default; a wrong one is named with its value."""

import inspect
from pathlib import Path

import pytest

from events import settings
from events.cli import PersonError
from events.topics import RACK_READINGS

NAMES = [name.upper() for name in settings.Settings.model_fields]


@pytest.fixture(autouse=True)
def _no_settings_but_the_tests_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_any_setting_the_defaults_hold() -> None:
    found = settings.load()
    assert found.kafka_bootstrap_servers == "localhost:9092"
    assert found.topic_prefix == ""
    assert found.rackstream_home == Path(".rackstream")
    assert found.jars_dir == Path(".rackstream/jars")


def test_the_environment_goes_over_the_env_file_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text("TOPIC_PREFIX=from-file-\nKAFKA_BOOTSTRAP_SERVERS=file:9092\n", encoding="utf-8")
    monkeypatch.setenv("TOPIC_PREFIX", "from-environment-")
    found = settings.load()
    assert (found.topic_prefix, found.kafka_bootstrap_servers) == ("from-environment-", "file:9092")
    assert found.rackstream_home == Path(".rackstream")


def test_the_jars_may_lie_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKSTREAM_HOME", "/srv/rackstream")
    assert settings.load().jars_dir == Path("/srv/rackstream/jars")
    monkeypatch.setenv("RACKSTREAM_JARS", "/opt/jars")
    assert settings.load().jars_dir == Path("/opt/jars")


def test_the_prefix_is_put_literally_before_a_topics_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC_PREFIX", "load.7_x-")
    assert settings.load().topic(RACK_READINGS) == "load.7_x-rack-readings"
    monkeypatch.setenv("TOPIC_PREFIX", "")
    assert settings.load().topic(RACK_READINGS) == "rack-readings"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost"),
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092,"),
        ("KAFKA_BOOTSTRAP_SERVERS", ""),
        ("TOPIC_PREFIX", "with blank-"),
        ("TOPIC_PREFIX", "a/b"),
        ("TOPIC_PREFIX", "p" * 201),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(PersonError) as error:
        settings.load()
    assert str(error.value).startswith(f"a setting is wrong: {name}={value!r}: ")
    assert str(error.value).endswith("Correct it in the environment or in .env.")


def test_every_wrong_setting_is_named_not_the_first_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "nowhere")
    monkeypatch.setenv("TOPIC_PREFIX", "a b")
    with pytest.raises(PersonError, match=r"KAFKA_BOOTSTRAP_SERVERS='nowhere': .*; TOPIC_PREFIX='a b': "):
        settings.load()


def test_a_list_of_brokers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "one:9092,two:19092")
    assert settings.load().kafka_bootstrap_servers == "one:9092,two:19092"


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in settings.Settings.model_fields.values())
    assert inspect.getdoc(settings.Settings)
