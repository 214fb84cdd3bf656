"""Refuse requests that a page of another origin could have caused, and protect our own page.

A name that an attacker controls may resolve to this machine, so the Host must be a known name; an
address is nobody's name. Commands come only from our own page: their Origin is the Host, and they
carry a header that other pages may not send.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL_NAMES = frozenset({"localhost"})
PAGE_HEADER, PAGE_HEADER_VALUE = "x-requested-with", "rackstream-dashboard"
SECURITY_HEADERS = {
    "content-security-policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Checks the Host of every request, and sets the security headers of every answer.

    It lies around the whole application, so that the answer to an unexpected error has them too.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._names = LOCAL_NAMES | {name.lower() for name in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if self._is_allowed(host):
            await self._app(scope, receive, send_protected)
            return
        shown = host[:100]
        refusal = refuse(
            421,
            f"The dashboard does not answer to the host {shown!r}: open it as localhost, or start "
            "it with --allow-host.",
        )
        await refusal(scope, receive, send_protected)

    def _is_allowed(self, host: str) -> bool:
        name = hostname(host)
        return name is not None and (name in self._names or _is_address(name))


def refuse(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a response that says in one sentence what is wrong."""
    return JSONResponse(
        {"error": sentence}, status, {"cache-control": "no-store", **(headers or {})}
    )


def foreign_origin(request: Request) -> str | None:
    """Return a sentence if a request may come from a page of another origin."""
    host = request.headers.get("host", "")
    try:
        origin = urlsplit(request.headers.get("origin", "")).netloc
    except ValueError:  # such as of http://[
        origin = ""
    if not origin or origin.lower() != host.lower():
        return "Commands are accepted from the dashboard's own page only."
    if request.headers.get(PAGE_HEADER) != PAGE_HEADER_VALUE:
        return f"Commands need the header {PAGE_HEADER}: {PAGE_HEADER_VALUE}."
    return None


def hostname(host: str) -> str | None:
    """Return the name or address of a Host header, or None for an invalid one."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for one that is no number
    except ValueError:
        return None
    is_plain = not (parts.path or parts.query or parts.fragment or parts.username)
    return parts.hostname if is_plain else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
