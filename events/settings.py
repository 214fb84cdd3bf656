"""Settings of every program: environment over `.env` over default, checked when the program starts."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from events.cli import PersonError
from events.topics import Topic

HostPorts = Annotated[str, StringConstraints(pattern=r"^[^\s,:]+:\d{1,5}(,[^\s,:]+:\d{1,5})*$")]
TopicPrefix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]*$", max_length=200)]


class Settings(BaseSettings):
    """What the programs share. Every field is an environment variable of the same name in capitals."""

    model_config = SettingsConfigDict(env_file=".env", env_file_encoding="utf-8", extra="ignore")

    kafka_bootstrap_servers: HostPorts = Field(
        "localhost:9092", description="The broker, as host:port[,host:port]."
    )
    topic_prefix: TopicPrefix = Field("", description="Put literally before every topic's name.")
    rackstream_home: Path = Field(Path(".rackstream"), description="Where the state of runs lives.")
    rackstream_jars: Path | None = Field(
        None, description="Where the jars lie; by default the folder jars in RACKSTREAM_HOME."
    )

    @property
    def jars_dir(self) -> Path:
        """The folder that holds one folder of jars per lock file."""
        return self.rackstream_jars or self.rackstream_home / "jars"

    def topic(self, topic: Topic) -> str:
        """Return the topic's name on the broker: the prefix, then the contract's name."""
        return self.topic_prefix + topic.name


def load() -> Settings:
    """Read the settings; raise `PersonError` that names every wrong one with its value."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in e['loc']).upper()}={e['input']!r}: {e['msg']}"
            for e in error.errors()
        )
        raise PersonError(f"a setting is wrong: {wrong}. Correct it in the environment or in .env.") from None
