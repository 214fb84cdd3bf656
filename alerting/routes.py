"""The ways out: how a notice looks to a webhook, to PagerDuty and to what Apprise reaches, and how it is sent."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Protocol

import requests

from alerting.notices import OPEN_KINDS, Item, Notice, body, title
from events.cli import PersonError
from events.times import to_ms, to_text

TIMEOUT_S = 10
"""How long a route may take to answer."""

OPEN_DAYS = 365
"""How far ahead the end of an open alert is put for Alertmanager. Its own guess is five minutes, after which it
would tell people that all is well."""

CLOCKS_MS = 60_000
"""How much earlier an alert is said to have ended: Alertmanager takes an end that its clock has not reached yet
for none, and its clock is not ours."""

REFUSED = (400, 413, 422)
"""Answers that mean this notice: the same again brings the same answer. All others may be better next time."""


class RouteError(Exception):
    """A route did not take a notice. `final` means that trying again is useless."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Route(Protocol):
    """A way out: its name in the outbox, and how it takes a notice or raises `RouteError`."""

    @property
    def name(self) -> str: ...  # noqa: D102
    def send(self, notice: Notice) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Webhook:
    """Posts to whatever takes Alertmanager's API version 2, at the full address of its `alerts`."""

    url: str
    name: str = "webhook"

    def send(self, notice: Notice) -> None:
        """Post the alerts that the notice tells of."""
        _post(self.url, alertmanager_alerts(notice))


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """Sends events, version 2. A site is one incident there: its racks' alerts are one cause until shown otherwise."""

    routing_key: str
    url: str
    name: str = "pagerduty"

    def send(self, notice: Notice) -> None:
        """Trigger, remind of or resolve the site's incident; a notice that changes nothing there is not sent."""
        event = pagerduty_event(notice, self.routing_key)
        if event is not None:
            _post(self.url, event)


class AppriseUrl:
    """Sends the notice as text to one address of Apprise's kind. Its name tells the service, not the secrets."""

    def __init__(self, url: str) -> None:
        import apprise  # here: it brings hundreds of services, and most runs need none

        self._target: Any = apprise.Apprise()
        scheme = re.match(r"[A-Za-z0-9]*", url)
        if not self._target.add(url):
            raise PersonError(
                f"ALERTING_APPRISE_URLS has an address that Apprise does not understand (it begins with "
                f"{scheme.group() if scheme else ''!r}): see the list at https://github.com/caronc/apprise."
            )
        digest = hashlib.sha256(url.encode()).hexdigest()[:8]
        self.name = f"apprise-{scheme.group() if scheme else ''}-{digest}"
        self._types = {
            "critical": apprise.NotifyType.FAILURE,
            "error": apprise.NotifyType.FAILURE,
            "warning": apprise.NotifyType.WARNING,
            "info": apprise.NotifyType.INFO,
        }

    def send(self, notice: Notice) -> None:
        """Send title and body."""
        sent = self._target.notify(
            title=title(notice), body=body(notice), notify_type=self._types[notice.severity]
        )
        if not sent:
            raise RouteError("Apprise could not send it")


def alertmanager_alerts(notice: Notice) -> list[dict[str, Any]]:
    """Return the notice for Alertmanager's `POST /api/v2/alerts`.

    Its labels are an alert's identity there, so one whose severity changed is two: the old one ends.
    """
    alerts = []
    for item in notice.items:
        if item.was is not None:
            alerts.append(_alertmanager_alert(notice, item, item.was, is_open=False))
        alerts.append(_alertmanager_alert(notice, item, item.severity, is_open=item.kind in OPEN_KINDS))
    return alerts


def _alertmanager_alert(notice: Notice, item: Item, severity: str, *, is_open: bool) -> dict[str, Any]:
    made_ms = to_ms(notice.made_time)
    latest_ms = made_ms if is_open else made_ms - CLOCKS_MS
    start_ms = min(to_ms(item.start_time), latest_ms)
    ended_ms = to_ms(item.end_time) if item.end_time and not is_open else latest_ms
    end_ms = made_ms + OPEN_DAYS * 86_400_000 if is_open else max(start_ms, min(ended_ms, latest_ms))
    return {
        "labels": {
            "alertname": item.rule,
            "subject": item.subject,
            "site_id": notice.site_id,
            "severity": severity,
        },
        "annotations": {"summary": item.summary, "alert_id": item.alert_id, "notice_id": notice.notice_id},
        "startsAt": to_text(start_ms),
        "endsAt": to_text(end_ms),
    }


def pagerduty_event(notice: Notice, routing_key: str) -> dict[str, Any] | None:
    """Return the notice as an event, None when nobody has to be called and nothing has to be closed."""
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
            "timestamp": notice.made_time,
            "group": notice.site_id,
            "custom_details": {"notice_id": notice.notice_id, "alerts": body(notice)},
        },
    }


def _post(url: str, content: object) -> None:
    """Post JSON; raise `RouteError` unless the answer says that it was taken. No address gets into the words."""
    try:
        answer = requests.post(url, json=content, timeout=TIMEOUT_S, allow_redirects=False)
    except requests.RequestException as error:
        raise RouteError(_without_address(error)) from None
    if not 200 <= answer.status_code < 300:
        said = " ".join(answer.text.split())[:200]
        raise RouteError(
            f"it answered {answer.status_code} {answer.reason}: {said}".rstrip(": "),
            final=answer.status_code in REFUSED,
        )


def _without_address(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_S} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__
