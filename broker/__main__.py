"""Provide `python -m broker up|down|status|topics`: a real Kafka on this machine and its topics."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from broker import server, topics
from events import cli, settings
from events.topics import ALL

app = cli.new_app("A real Apache Kafka broker on this machine, without Docker.")


def _port_option(help_text: str) -> Any:
    """Return an option for a port, without a default value."""
    return typer.Option(min=1, max=65535, help=help_text, show_default=False)


Port = Annotated[
    int | None, _port_option("The broker's port; by default that in KAFKA_BOOTSTRAP_SERVERS.")
]
PortOfFolder = Annotated[
    int | None,
    _port_option("Stop the broker only if it has this port; by default whatever its port is."),
]
PortToAsk = Annotated[
    int | None,
    _port_option(
        "The port to ask on this machine; by default that of the broker of --data-dir, or else "
        "that in KAFKA_BOOTSTRAP_SERVERS."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The broker's data folder; by default kafka in RACKSTREAM_HOME.", show_default=False
    ),
]


@app.command()
def up(
    port: Port = None,
    data_dir: DataDir = None,
    *,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the data first.")] = False,
) -> None:
    """Start the broker, create the topics, and leave it running."""
    cli.unwind_at_end()
    config = settings.load()
    broker = server.start(
        port or _default_port(config), data_dir or _default_data_dir(config), fresh=fresh
    )
    try:
        topics.create_topics(broker.bootstrap, config.topic_prefix)
    except BaseException:
        broker.stop()
        raise
    typer.echo(
        f"The broker runs on {broker.bootstrap} (process {broker.pid}), "
        f"its data is in {broker.data_dir}."
    )


@app.command()
def down(port: PortOfFolder = None, data_dir: DataDir = None) -> None:
    """Stop the broker and keep its data."""
    folder = (data_dir or _default_data_dir(settings.load())).resolve()
    broker = server.find(folder)
    if broker is not None and port not in (None, broker.port):
        raise cli.UserFacingError(
            f"the broker of {folder} runs on port {broker.port}, not {port}, "
            "so it was not stopped: correct --port or --data-dir."
        )
    if server.stop(folder):
        typer.echo(f"The broker of {folder} has stopped.")
    else:
        typer.echo(f"No broker runs in {folder}.")


@app.command()
def status(port: PortToAsk = None, data_dir: DataDir = None) -> None:
    """Print whether the broker answers; exit 0 if it does, otherwise 1."""
    config = settings.load()
    folder = (data_dir or _default_data_dir(config)).resolve()
    broker = server.find(folder)
    checked_port = port or (broker.port if broker else _default_port(config))
    try:
        missing = topics.missing_topics(
            f"localhost:{checked_port}", config.topic_prefix, timeout_s=3
        )
    except cli.UserFacingError as error:
        sentence = str(error)
        typer.echo(
            f"Process {broker.pid}: {sentence}" if broker else sentence[0].upper() + sentence[1:]
        )
        raise typer.Exit(1) from None
    owner = (
        f"process {broker.pid}, data in {folder}"
        if broker and broker.port == checked_port
        else f"not that of {folder}"
    )
    prefix = f" with prefix {config.topic_prefix}" if config.topic_prefix else ""
    typer.echo(
        f"A broker answers on localhost:{checked_port} ({owner}), "
        f"{len(ALL) - len(missing)} of {len(ALL)} topics{prefix} exist."
    )


@app.command("topics")
def topics_command(
    replication_factor: Annotated[int, typer.Option(min=1, help="Copies of each new topic.")] = 1,
) -> None:
    """Create the missing topics on KAFKA_BOOTSTRAP_SERVERS; existing ones stay as they are.

    Exit status 1 when an existing topic does not have the append time of its records.
    """
    config = settings.load()
    made = topics.create_topics(
        config.kafka_bootstrap_servers, config.topic_prefix, replication_factor
    )
    typer.echo(f"{len(made)} topics created, {len(ALL) - len(made)} existed.")
    unsuited = topics.topics_with_senders_time(config.kafka_bootstrap_servers, config.topic_prefix)
    if unsuited:
        raise cli.UserFacingError(
            f"records have the sender's time in {', '.join(unsuited)}, so rules would go by it: "
            "set message.timestamp.type=LogAppendTime there."
        )


def _default_port(config: settings.Settings) -> int:
    return int(config.kafka_bootstrap_servers.split(",")[0].rpartition(":")[2])


def _default_data_dir(config: settings.Settings) -> Path:
    return config.rackstream_home / "kafka"


if __name__ == "__main__":
    # Our own errors say what a user can act on.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    cli.run(app, "broker")
