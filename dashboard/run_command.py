"""The command `run`, which serves the page."""

import asyncio
import socket
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from dashboard.app import new_app
from dashboard.feed import Feed
from dashboard.hub import Hub
from dashboard.state import State
from events import settings
from events.inventory import read_inventory
from events.times import now_ms

DEFAULT_PORT = 8000

app = typer.Typer()


@app.command()
def run(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port.")] = DEFAULT_PORT,
    inventory: Annotated[
        Path | None, typer.Option(help="The racks with their thresholds.", show_default=False)
    ] = None,
) -> None:
    """Serve the live page until Ctrl-C."""
    shared = settings.load()
    racks = read_inventory(inventory) if inventory else []
    listener = socket.create_server((host, port))
    asyncio.run(_serve(shared, racks, listener))


async def _serve(shared, racks, listener) -> None:
    hub = Hub(State(shared.kafka_bootstrap_servers, racks, now_ms()))
    config = uvicorn.Config(
        new_app(hub),
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with Feed(shared, hub, lambda message: typer.echo(f"dashboard: {message}", err=True)):
        ticker = asyncio.create_task(hub.run())
        typer.echo(
            f"dashboard: http://{listener.getsockname()[0]}:{listener.getsockname()[1]}/", err=True
        )
        await server.serve([listener])
        hub.close()
        await ticker
