"""The dashboard over HTTP: the page, the stream of updates, one rack, dead letters, commands."""

from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dashboard.hub import Hub

STATIC = Path(__file__).parent / "static"
IDLE_S = 5.0
CHUNK_BYTES = 16_384


def new_app(hub: Hub) -> Starlette:
    """Return the application that shows a hub's state."""

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def stream(_: Request) -> Response:
        return StreamingResponse(
            events(hub), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def rack(request: Request) -> Response:
        rack_id = request.query_params.get("rack_id", "")
        with hub.state() as state:
            details = state.rack(rack_id)
            if details is None:
                return json(hub, {"error": "There is no rack of this name."}, 404)
            return json(hub, details)

    async def dead_letters(_: Request) -> Response:
        with hub.state() as state:
            return json(hub, state.dead_letters())

    return Starlette(
        routes=[
            Route("/", page),
            Route("/stream", stream),
            Route("/api/rack", rack),
            Route("/api/dead-letters", dead_letters),
            Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
        ]
    )


async def events(hub: Hub) -> AsyncIterator[bytes]:
    """Yield a snapshot, then updates of what changed since the version sent last."""
    version, data = hub.update_since(0)
    for chunk in in_chunks(b"retry: 1000\nevent: snapshot\ndata: " + data + b"\n\n"):
        yield chunk
    while not hub.is_closed:
        if await hub.wait_for_change(version, IDLE_S):
            version, data = hub.update_since(version)
            for chunk in in_chunks(b"event: update\ndata: " + data + b"\n\n"):
                yield chunk
        else:
            yield b": nothing new\n\n"


def in_chunks(data: bytes) -> list[bytes]:
    """Split data, so that little of it waits for a browser that does not read."""
    return [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]


def json(hub: Hub, value: object, status: int = 200) -> Response:
    """Return a response with a value as JSON."""
    return Response(hub.encode(value), status, {"cache-control": "no-store"}, "application/json")
