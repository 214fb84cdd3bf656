"""Limit what a connection may cost: how many there are, how long they may idle or not read.

uvicorn waits without an end for a request's headers, and for a browser that does not read.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 400
MAX_HEADER_BYTES = 16_384
HEADER_TIMEOUT_S = 10.0
"""How long a connection may take to send the headers of a request."""
STALL_TIMEOUT_S = 30.0
"""How long a browser may leave unread what waits for it; then its connection is cut."""
_REFUSAL_BODY = b'{"error":"There are too many connections to the dashboard: close some pages."}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_REFUSAL_BODY), _REFUSAL_BODY)
)


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
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
