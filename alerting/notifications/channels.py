"""Send notices over channels: Alertmanager's webhook, PagerDuty, and Apprise's services."""

import hashlib
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import requests

from alerting.notifications.notice import OPEN_KINDS, Notice, NoticeItem, body, title
from events.cli import UserFacingError
from events.times import to_ms, to_text

TIMEOUT_S = 5
"""How long a receiver may take to accept a connection, and then how long to answer."""

MAX_ANSWER_BYTES = 4_096
"""How much of an answer is read; its beginning is in the error."""

OPEN_ALERT_DAYS = 365
"""How far in the future an open alert ends for Alertmanager.

Without an end, Alertmanager would resolve the alert after five minutes.
"""

CLOCK_SKEW_MS = 60_000
"""How long before now a resolved alert ends at the latest.

Alertmanager takes an alert whose end lies in the future of its own clock for open.
"""

PERMANENT_STATUS_CODES = (400, 413, 422)
"""HTTP statuses that reject the notice itself, so that retrying is useless."""


class DeliveryError(Exception):
    """A channel did not accept a notice; `permanent` means that retrying is useless."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class Channel(Protocol):
    """A destination of notices: `name` identifies it, `send` may raise `DeliveryError`."""

    @property
    def name(self) -> str: ...  # noqa: D102
    def send(self, notice: Notice) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class WebhookChannel:
    """Posts alerts to Alertmanager's API version 2, or to any receiver of the same format."""

    url: str
    name: str = "webhook"

    def send(self, notice: Notice) -> None:
        """Post the alerts of the notice."""
        _post(self.url, alertmanager_alerts(notice))


@dataclass(frozen=True, slots=True)
class PagerDutyChannel:
    """Sends events to PagerDuty's Events API version 2, with one PagerDuty incident per site."""

    routing_key: str
    url: str
    name: str = "pagerduty"

    def send(self, notice: Notice) -> None:
        """Send the event of the notice, if it has one."""
        event = pagerduty_event(notice, self.routing_key)
        if event is not None:
            _post(self.url, event)


class AppriseChannel:
    """Sends the notice as text to one Apprise URL; its name holds the service but no secret."""

    def __init__(self, url: str) -> None:
        import apprise  # imported here: it loads hundreds of services, and most runs use none

        self._target: Any = apprise.Apprise()
        scheme = re.match(r"[A-Za-z0-9]*", url)
        if not self._target.add(url):
            raise UserFacingError(
                "ALERTING_APPRISE_URLS has a URL that Apprise does not understand (it begins with "
                f"{scheme.group() if scheme else ''!r}): "
                "see the list at https://github.com/caronc/apprise."
            )
        digest = hashlib.sha256(url.encode()).hexdigest()[:8]
        self.name = f"apprise-{scheme.group() if scheme else ''}-{digest}"
        self._text_format = apprise.NotifyFormat.TEXT
        self._types = {
            "critical": apprise.NotifyType.FAILURE,
            "error": apprise.NotifyType.FAILURE,
            "warning": apprise.NotifyType.WARNING,
            "info": apprise.NotifyType.INFO,
        }

    def send(self, notice: Notice) -> None:
        """Send title and body."""
        sent = self._target.notify(
            title=title(notice),
            body=body(notice),
            notify_type=self._types[notice.severity],
            # Otherwise mail is sent as HTML: its lines run together, and an id may hold markup.
            body_format=self._text_format,
        )
        if not sent:
            raise DeliveryError("Apprise could not send it")


def alertmanager_alerts(notice: Notice) -> list[dict[str, Any]]:
    """Return the body of Alertmanager's `POST /api/v2/alerts`.

    Alertmanager identifies an alert by its labels. An incident whose severity changed is therefore
    two alerts, and the one with the previous severity ends.
    """
    alerts = []
    for item in notice.items:
        if item.previous_severity is not None:
            alerts.append(_alertmanager_alert(notice, item, item.previous_severity, is_open=False))
        is_open = item.kind in OPEN_KINDS
        alerts.append(_alertmanager_alert(notice, item, item.severity, is_open=is_open))
    return alerts


def _alertmanager_alert(
    notice: Notice, item: NoticeItem, severity: str, *, is_open: bool
) -> dict[str, Any]:
    created_ms = to_ms(notice.created_time)
    latest_ms = created_ms if is_open else created_ms - CLOCK_SKEW_MS
    start_ms = min(to_ms(item.start_time), latest_ms)
    if is_open:
        end_ms = created_ms + OPEN_ALERT_DAYS * 86_400_000
    else:
        resolved_ms = to_ms(item.end_time) if item.end_time else latest_ms
        end_ms = max(start_ms, min(resolved_ms, latest_ms))
    return {
        "labels": {
            "alertname": item.rule,
            "subject": item.subject,
            "site_id": notice.site_id,
            "severity": severity,
        },
        "annotations": {
            "summary": item.summary,
            "alert_id": item.alert_id,
            "notice_id": notice.notice_id,
        },
        "startsAt": to_text(start_ms),
        "endsAt": to_text(end_ms),
    }


def pagerduty_event(notice: Notice, routing_key: str) -> dict[str, Any] | None:
    """Return the PagerDuty event of a notice, or None if nothing has to be paged or resolved."""
    kinds = {item.kind for item in notice.items}
    event = {
        "routing_key": routing_key,
        "dedup_key": f"rackstream-{hashlib.sha256(notice.site_id.encode()).hexdigest()[:32]}",
    }
    if notice.open_count == 0:
        return {**event, "event_action": "resolve"} if "resolved" in kinds else None
    if not kinds & OPEN_KINDS:
        return None
    return {
        **event,
        "event_action": "trigger",
        "client": "Rackstream",
        "payload": {
            "summary": title(notice)[:1024],
            "source": notice.site_id,
            "severity": notice.severity,
            "timestamp": notice.created_time,
            "group": notice.site_id,
            "custom_details": {"notice_id": notice.notice_id, "alerts": body(notice)},
        },
    }


def _post(url: str, content: object) -> None:
    """Post JSON; raise `DeliveryError`, whose text holds no URL, unless the answer is a success."""
    deadline_s = time.monotonic() + 2 * TIMEOUT_S
    try:
        with requests.post(
            url, json=content, timeout=TIMEOUT_S, allow_redirects=False, stream=True
        ) as answer:
            text = " ".join(_beginning(answer, deadline_s).split())[:200]
    except requests.RequestException as error:
        raise DeliveryError(_error_without_url(error)) from None
    if not 200 <= answer.status_code < 300:
        raise DeliveryError(
            f"it answered {answer.status_code} {answer.reason}: {text}".rstrip(": "),
            permanent=answer.status_code in PERMANENT_STATUS_CODES,
        )


def _beginning(answer: requests.Response, deadline_s: float) -> str:
    """Return the beginning of an answer; raise `DeliveryError` if it lasts beyond the deadline.

    The timeout of `requests` starts again with each byte, so a timer ends the connection.
    """
    content = b""
    timer = threading.Timer(max(0.0, deadline_s - time.monotonic()), _end_connection, (answer,))
    timer.start()
    try:
        for part in answer.iter_content(MAX_ANSWER_BYTES):
            content += part
            if len(content) >= MAX_ANSWER_BYTES:
                break
    except requests.RequestException:
        if time.monotonic() < deadline_s:
            raise
    finally:
        timer.cancel()
    if time.monotonic() >= deadline_s:
        raise DeliveryError(f"its answer did not end within {2 * TIMEOUT_S} s")
    return content[:MAX_ANSWER_BYTES].decode(errors="replace")


def _end_connection(answer: requests.Response) -> None:
    with suppress(OSError, RuntimeError, ValueError):  # the answer may have ended meanwhile
        answer.raw.shutdown()


def _error_without_url(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_S} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__
