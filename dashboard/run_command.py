"""Provide `run`, which serves the page, and `health`, which asks it whether it works."""

import asyncio
import ctypes
import errno
import http.client
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from dashboard import DEFAULT_PORT
from dashboard.app import new_app
from dashboard.commands import CommandPublisher
from dashboard.feed import Feed
from dashboard.hub import Hub
from dashboard.server import new_server
from dashboard.state import State
from events import settings
from events.cli import UserFacingError
from events.inventory import read_inventory
from events.settings import Settings
from events.times import now_ms

LOOPBACK = "127.0.0.1"
SEND_BUFFER_BYTES = 65_536
"""Per connection in the kernel, which by default keeps megabytes for a browser that never reads."""

M_ARENA_MAX = -8
"""The number of this option in glibc's `malloc.h`."""

app = typer.Typer()


@app.command()
def run(
    host: Annotated[
        str,
        typer.Option(help="The address to listen on; the default serves this machine only."),
    ] = LOOPBACK,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help=f"The port; by default {DEFAULT_PORT}, or a free one if that is in use.",
            show_default=False,
        ),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option(
            help="The file with all racks and their thresholds; without it, racks show from their "
            "first reading.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name, beside localhost, under which browsers reach it. Repeat it for more.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the live page until Ctrl-C.

    It has no login: whoever reaches it can read everything, and acknowledge and silence alerts.
    See docs/dashboard.md.
    """
    _share_freed_memory()
    shared = settings.load()
    racks = read_inventory(inventory) if inventory else []
    with listen(host, port) as listener:
        hub = Hub(State(shared.kafka_bootstrap_servers, racks, now_ms()))
        asyncio.run(serve(shared, hub, listener, allow_host or ()))


def _share_freed_memory() -> None:
    """Let all threads use the memory that one has freed.

    glibc otherwise gives each thread an arena of its own: with full state 230 MB instead of 139.
    Other C libraries have no `mallopt`.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


async def serve(
    shared: Settings, hub: Hub, listener: socket.socket, allowed_hosts: Sequence[str]
) -> None:
    """Serve a hub until Ctrl-C; raise `UserFacingError` when nothing feeds it any more."""
    server = new_server(new_app(hub, CommandPublisher(shared), allowed_hosts), hub)

    def end() -> None:
        server.should_exit = True

    with Feed(shared, hub, end) as feed:
        ticker = asyncio.create_task(hub.run())
        _report(f"Open {address(listener)} (Ctrl-C ends it).")
        await server.serve([listener])
        hub.close()
        await ticker
    if feed.failure is not None:
        raise UserFacingError(
            f"reading the topics has failed, so the dashboard has ended ({feed.failure}): start it "
            "again."
        )


def listen(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; raise `UserFacingError` for a wrong host or a port that is taken.

    Without a port it takes the default, or a free one with a message.
    """
    if not host:  # to the kernel it is every interface
        raise UserFacingError(
            "--host is empty: give an address, or leave --host out to serve this machine only."
        )
    try:
        host.encode("idna")
    except UnicodeError:
        raise UserFacingError(f"{host!r} is no host's name or address: correct --host.") from None
    try:
        return _bind(host, DEFAULT_PORT if port is None else port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise UserFacingError(
                f"the dashboard cannot listen on {host} ({error.strerror}): check --host and "
                "--port."
            ) from None
        if port is not None:
            raise UserFacingError(
                f"port {port} of {host} is in use: end what uses it, or choose another --port."
            ) from None
    listener = _bind(host, 0)
    _report(f"Port {DEFAULT_PORT} is in use, so the dashboard uses {listener.getsockname()[1]}.")
    return listener


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=128)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return listener


def address(listener: socket.socket) -> str:
    """Return the URL of the page for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    name = "localhost" if host in (LOOPBACK, "0.0.0.0", "::", "::1") else host  # noqa: S104
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


@app.command()
def health(
    host: Annotated[str, typer.Option(help="The address that it listens on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = DEFAULT_PORT,
) -> None:
    """Ask the dashboard on this machine whether it works; exit with 1 and a sentence if not."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/health", headers={"Host": "localhost"})
        body = connection.getresponse().read()
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        raise UserFacingError(
            f"no dashboard answers on port {port} of {host} ({error}): start one with `python -m "
            "dashboard run`."
        ) from None
    finally:
        connection.close()
    try:
        answer = msgspec.json.decode(body, type=dict[str, str])
    except msgspec.DecodeError:
        answer = {}
    if "error" in answer:
        raise UserFacingError(answer["error"])
    if "status" not in answer:
        raise UserFacingError(
            f"something else than a dashboard answers on port {port} of {host}: give the "
            "dashboard's --port."
        )
    typer.echo(f"healthy: {answer['status']}")


def _report(message: str) -> None:
    typer.echo(f"dashboard: {message}", err=True)
