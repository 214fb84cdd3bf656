"""Serve HTTP within limits: how many connections, how long they may idle or not read.

uvicorn waits without an end for a request's headers, and for a browser that does not read.
"""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dashboard.hub import Hub

MAX_CONNECTIONS = 400
MAX_HEADER_BYTES = 16_384
KEEP_ALIVE_S = 5
END_S = 1
"""How long connections may take to end after Ctrl-C."""
HEADER_TIMEOUT_S = 10.0
"""How long a connection may take to send a request's headers, and the rest of an answered one."""
STALL_TIMEOUT_S = 30.0
"""How long a browser may leave unread what waits for it; then its connection is cut."""
_REFUSAL_BODY = b'{"error":"There are too many connections to the dashboard: close some pages."}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_REFUSAL_BODY), _REFUSAL_BODY)
)


def new_server(app: ASGIApp, hub: Hub) -> uvicorn.Server:
    """Return a server for the application that shows a hub's state."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_S,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    return _Server(config, hub)


class _Server(uvicorn.Server):
    """Ends the streams first, as the server waits for them."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections."""
        self._hub.close()
        await super().shutdown(sockets)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with limits for connections that are slow or too many."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._request_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse a connection too many with a sentence; wait for the headers of the others."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_REFUSAL)
            transport.close()
            return
        self._expect_request()

    def on_response_complete(self) -> None:
        """Wait for the headers of the next request."""
        super().on_response_complete()
        self._expect_request()

    def pause_writing(self) -> None:
        """Begin to wait for a browser that does not read."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALL_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the browser reads again."""
        super().resume_writing()
        _cancel(self._stall_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers of the connection."""
        _cancel(self._request_timer)
        _cancel(self._stall_timer)
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        _cancel(self._request_timer)
        self._request_timer = self.loop.call_later(HEADER_TIMEOUT_S, self._end_if_no_request)

    def _end_if_no_request(self) -> None:
        # Not by the state of `conn`: a body that never ends would keep an answered request open.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
