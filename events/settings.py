"""Read the settings of every program: environment over `.env` over default, checked at start."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from events.cli import UserFacingError
from events.topics import Topic

HostPorts = Annotated[str, StringConstraints(pattern=r"^[^\s,:]+:\d{1,5}(,[^\s,:]+:\d{1,5})*$")]
TopicPrefix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]*$", max_length=200)]

ENV_FILE_VARIABLE = "RACKSTREAM_ENV_FILE"
"""Environment variable with the path of the settings file; empty: none. Without it `.env`."""


_Kind = TypeVar("_Kind", bound=BaseSettings)


class JarsSettings(BaseSettings):
    """Where the jars lie; a mistake in another setting does not matter here."""

    model_config = SettingsConfigDict(env_file_encoding="utf-8", extra="ignore")

    rackstream_home: Path = Field(Path(".rackstream"), description="Folder of the state of runs.")
    rackstream_jars: Path | None = Field(
        None, description="Where the jars lie; by default the folder jars in RACKSTREAM_HOME."
    )

    @field_validator("rackstream_home", "rackstream_jars", mode="before")
    @classmethod
    def _empty_is_default(cls, value: object, info: ValidationInfo) -> object:
        # An empty path would be the working directory.
        return cls.model_fields[str(info.field_name)].default if value == "" else value

    @property
    def jars_dir(self) -> Path:
        """The folder that holds one folder of jars per lock file."""
        return self.rackstream_jars or self.rackstream_home / "jars"


class Settings(JarsSettings):
    """What the programs share; each field is an environment variable of its name in capitals."""

    kafka_bootstrap_servers: HostPorts = Field(
        "localhost:9092", description="The broker, as host:port[,host:port]."
    )
    topic_prefix: TopicPrefix = Field("", description="Put literally before every topic's name.")
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Serve Prometheus metrics on this port; empty: none.",
    )

    @field_validator("topic_prefix")
    @classmethod
    def _names_a_folder(cls, prefix: str) -> str:
        # Checkpoints of each prefix lie in a folder of its name, and without a prefix in `-`.
        if prefix in {"-", ".", ".."}:
            raise ValueError("a prefix is neither -, . nor ..")
        return prefix

    @field_validator("kafka_bootstrap_servers")
    @classmethod
    def _ports_exist(cls, servers: str) -> str:
        if not all(0 < int(server.rpartition(":")[2]) < 65_536 for server in servers.split(",")):
            raise ValueError("a port is a number from 1 to 65535")
        return servers

    @field_validator("metrics_port", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value  # Compose sets a variable that is not set to nothing

    def with_metrics_port(self, port: int | None) -> Self:
        """Return the settings with the port of the command line, where that has one."""
        return self if port is None else self.model_copy(update={"metrics_port": port})

    def topic(self, topic: Topic) -> str:
        """Return the topic's name on the broker: the prefix, then the contract's name."""
        return self.topic_prefix + topic.name


def find_env_file() -> str:
    """Return the path of the file that settings are read from, empty for none."""
    return os.environ.get(ENV_FILE_VARIABLE, ".env")


def load(env_file: str | None = None) -> Settings:
    """Read the settings; raise `UserFacingError` that names every wrong one with its value."""
    return read(Settings, env_file)


def read(kind: type[_Kind], env_file: str | None = None, *, are_secret: bool = False) -> _Kind:
    """Read settings of a kind, by default from the file of `find_env_file`.

    Raises `UserFacingError` that names every wrong one, with its value unless they are secret, or
    the file if it cannot be read.
    """
    file = find_env_file() if env_file is None else env_file
    try:
        return kind(_env_file=file or None)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserFacingError(
            f"the settings file {file} cannot be read ({reason}): make it UTF-8 text that you may "
            f"read, or set {ENV_FILE_VARIABLE} to another file."
        ) from None
    except ValidationError as error:
        wrong = "; ".join(
            ".".join(str(part) for part in one["loc"]).upper()
            + ("" if are_secret else f"={one['input']!r}")
            + f": {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors()
        )
        raise UserFacingError(
            f"a setting is wrong: {wrong}. Correct it in the environment or in .env."
        ) from None


def jars_settings() -> list[JarsSettings]:
    """Return where programs look for the jars: the demo and the tests first, then all others.

    The demo and the tests ignore `.env`. It counts for the others only if it can be read.
    """
    found = [JarsSettings(_env_file=None)]
    with suppress(OSError, UnicodeDecodeError, ValidationError):
        found.append(JarsSettings(_env_file=find_env_file() or None))
    return list({each.jars_dir: each for each in found}.values())
