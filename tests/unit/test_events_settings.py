"""Settings: environment over `.env` over default; a wrong one is named with its value."""

import inspect
from pathlib import Path

import pytest

from events import settings
from events.cli import UserFacingError
from events.topics import RACK_READINGS

NAMES = [name.upper() for name in settings.Settings.model_fields]


@pytest.fixture(autouse=True)
def _no_settings_but_the_tests_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*NAMES, settings.ENV_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_settings_the_defaults_apply() -> None:
    found = settings.load()
    assert found.kafka_bootstrap_servers == "localhost:9092"
    assert found.topic_prefix == ""
    assert found.rackstream_home == Path(".rackstream")
    assert found.jars_dir == Path(".rackstream/jars")


def test_the_environment_overrides_the_env_file_which_overrides_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text(
        "TOPIC_PREFIX=from-file-\nKAFKA_BOOTSTRAP_SERVERS=file:9092\n", encoding="utf-8"
    )
    monkeypatch.setenv("TOPIC_PREFIX", "from-environment-")
    found = settings.load()
    assert (found.topic_prefix, found.kafka_bootstrap_servers) == ("from-environment-", "file:9092")
    assert found.rackstream_home == Path(".rackstream")


def test_the_folder_of_the_jars_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKSTREAM_HOME", "/srv/rackstream")
    assert settings.load().jars_dir == Path("/srv/rackstream/jars")
    monkeypatch.setenv("RACKSTREAM_JARS", "/opt/jars")
    assert settings.load().jars_dir == Path("/opt/jars")


def test_an_empty_folder_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("RACKSTREAM_JARS=\n", encoding="utf-8")
    monkeypatch.setenv("RACKSTREAM_HOME", "")
    found = settings.load()
    assert found.rackstream_home == Path(".rackstream")
    assert found.jars_dir == Path(".rackstream/jars")
    assert {each.jars_dir for each in settings.jars_settings()} == {Path(".rackstream/jars")}


def test_the_prefix_precedes_a_topics_name_literally(monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092,localhost:65536"),
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost:0"),
        ("TOPIC_PREFIX", "with blank-"),
        ("TOPIC_PREFIX", "a/b"),
        ("TOPIC_PREFIX", "-"),
        ("TOPIC_PREFIX", ".."),
        ("TOPIC_PREFIX", "p" * 201),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UserFacingError) as error:
        settings.load()
    assert str(error.value).startswith(f"a setting is wrong: {name}={value!r}: ")
    assert str(error.value).endswith("Correct it in the environment or in .env.")
    assert "Value error" not in str(error.value), "what Pydantic puts before our sentences"


def test_every_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "nowhere")
    monkeypatch.setenv("TOPIC_PREFIX", "a b")
    with pytest.raises(
        UserFacingError, match=r"KAFKA_BOOTSTRAP_SERVERS='nowhere': .*; TOPIC_PREFIX='a b': "
    ):
        settings.load()


@pytest.mark.parametrize(
    ("file", "reason"), [(".env", "it is not UTF-8"), ("x" * 300, "File name too long")]
)
def test_a_settings_file_that_cannot_be_read_ends_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, file: str, reason: str
) -> None:
    Path(".env").write_bytes("TOPIC_PREFIX=café-\n".encode("latin-1"))
    monkeypatch.setenv(settings.ENV_FILE_VARIABLE, file)
    with pytest.raises(UserFacingError) as error:
        settings.load()
    assert str(error.value) == (
        f"the settings file {file} cannot be read ({reason}): make it UTF-8 text that you may "
        "read, or set RACKSTREAM_ENV_FILE to another file."
    )


def test_several_brokers_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "one:9092,two:19092")
    assert settings.load().kafka_bootstrap_servers == "one:9092,two:19092"


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in settings.Settings.model_fields.values())
    assert inspect.getdoc(settings.Settings)
