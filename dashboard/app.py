"""Answer HTTP requests: the page, the stream of updates, one rack, dead letters, commands."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.commands import CommandError, CommandPublisher, read_command
from dashboard.guard import Guard, foreign_origin, refuse
from dashboard.hub import Hub
from events.times import now_ms

STATIC = Path(__file__).parent / "static"
MAX_STREAMS = 200
MAX_BODY_BYTES = 4096
BODY_TIMEOUT_S = 5.0
IDLE_S = 2.0
"""How long a stream may be silent before it gets an empty update, a sign of life."""
CHUNK_BYTES = 16_384
"""A browser that does not read leaves at most a little more than this in memory."""
EVENT_STREAM = "text/event-stream"
NOT_CACHED = {"cache-control": "no-store"}


def new_app(hub: Hub, publisher: CommandPublisher, allowed_hosts: Sequence[str] = ()) -> ASGIApp:
    """Return the application that shows a hub's state and publishes commands."""
    streams = Streams(hub)

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    async def rack(request: Request) -> Response:
        rack_id = request.query_params.get("rack_id")
        if rack_id is None:
            return refuse(400, "Name a rack: /api/rack?rack_id=NAME.")
        with hub.state() as state:
            details = state.rack(rack_id)
            return (
                refuse(404, "There is no rack of this name.")
                if details is None
                else _json(hub.encode(details))
            )

    async def dead_letters(_: Request) -> Response:
        with hub.state() as state:
            return _json(hub.encode(state.dead_letters()))

    async def health(_: Request) -> Response:
        if problem := hub.problem():
            return refuse(503, problem)
        return _json(hub.encode({"status": "the dashboard runs and its broker answers"}))

    async def command(request: Request) -> Response:
        if sentence := foreign_origin(request):
            return refuse(403, sentence)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            return refuse(415, "A command must be application/json.")
        try:
            body = await _read_body(request)
            with hub.state() as state:
                alert_command = read_command(body, state, now_ms())
            await run_in_threadpool(publisher.publish, alert_command)
        except CommandError as error:
            return refuse(error.status, str(error))
        return _json(hub.encode({"command_id": alert_command.command_id}), 202)

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/stream", streams, methods=["GET"]),
            Route("/health", health),
            Route("/api/rack", rack),
            Route("/api/dead-letters", dead_letters),
            Route("/api/commands", command, methods=["POST"]),
            Mount("/static", _Static(directory=STATIC, check_dir=False)),
        ],
        exception_handlers={HTTPException: _on_http_error, Exception: _on_error},
    )
    return Guard(app, allowed_hosts)


class Streams:
    """Sends every browser a snapshot, and then what changed since the version that it has.

    It is an ASGI application: sending waits for the browser, so a slow one skips versions.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream until the browser leaves or the hub is closed."""
        if scope["method"] == "HEAD":
            await Response(headers=NOT_CACHED, media_type=EVENT_STREAM)(scope, receive, send)
            return
        if self._hub.watching >= MAX_STREAMS:
            refusal = refuse(
                503,
                f"The dashboard already has {MAX_STREAMS} pages open: close one and try again.",
                {"retry-after": "10"},
            )
            await refusal(scope, receive, send)
            return
        self._hub.watching += 1
        try:
            await self._serve(receive, send)
        finally:
            self._hub.watching -= 1

    async def _serve(self, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_disconnected(receive))
        update_task = asyncio.create_task(self._send_updates(send))
        try:
            await asyncio.wait({gone, update_task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            update_task.cancel()
            await asyncio.gather(gone, update_task, return_exceptions=True)
        if not update_task.cancelled():
            update_task.result()  # a bug ends the stream, with its cause in the messages

    async def _send_updates(self, send: Send) -> None:
        headers = [(b"content-type", EVENT_STREAM.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        version, event = self._hub.update_since(0)
        await _send(send, b"retry: 1000\n" + event)
        while not self._hub.is_closed:
            if not await self._hub.wait_for_change(version, IDLE_S):
                await _send(send, self._hub.heartbeat(version))
            elif not self._hub.is_closed:
                version, event = self._hub.update_since(version)
                await _send(send, event)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, data: bytes) -> None:
    for begin in range(0, len(data), CHUNK_BYTES):
        part = data[begin : begin + CHUNK_BYTES]
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise CommandError(413, f"A command has at most {MAX_BODY_BYTES} bytes.")
    except TimeoutError:
        raise CommandError(
            408, f"The command did not arrive within {BODY_TIMEOUT_S:g} s."
        ) from None
    except ClientDisconnect:
        raise CommandError(400, "The command was cut off.") from None
    return bytes(body)


class _Static(StaticFiles):
    """The page's files; a browser asks each time whether they have changed."""

    def file_response(self, *args: object, **options: object) -> Response:
        response = super().file_response(*args, **options)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        return response


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette calls this for no other
    sentences = {404: "There is no such page.", 405: "This address takes another method."}
    sentence = sentences.get(error.status_code, error.detail)
    return refuse(error.status_code, sentence, dict(error.headers or {}))


async def _on_error(_: Request, __: Exception) -> Response:
    return refuse(500, "The dashboard has an error: its messages say which.")


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, NOT_CACHED, "application/json")
