"""Where notices go: settings, as they hold secrets that do not belong into command lines and their listings."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, HttpUrl, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from alerting.routes import AppriseUrl, PagerDuty, Route, Webhook
from events.cli import PersonError


class RouteSettings(BaseSettings):
    """The routes beside the log, each off unless set. Every field is an environment variable in capitals."""

    model_config = SettingsConfigDict(
        env_file=".env", env_file_encoding="utf-8", extra="ignore", env_ignore_empty=True
    )

    alerting_webhook_url: HttpUrl | None = Field(
        None, description="Full address of an Alertmanager's API: http://alertmanager:9093/api/v2/alerts."
    )
    alerting_pagerduty_key: SecretStr | None = Field(
        None, description="Integration key of a PagerDuty service, Events API v2."
    )
    alerting_pagerduty_url: HttpUrl = Field(
        HttpUrl("https://events.pagerduty.com/v2/enqueue"), description="Where PagerDuty takes events."
    )
    alerting_apprise_urls: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="Addresses of Apprise's kind with blanks between: mailto://…, slack://…, ntfy://…."
    )
    alerting_dead_letters: Path | None = Field(
        None, description="Where notices go that no try delivered; by default beside the database."
    )

    @field_validator("alerting_apprise_urls", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(value.split()) if isinstance(value, str) else value

    def routes(self) -> list[Route]:
        """Return the routes that are set; raise `PersonError` for one that cannot be."""
        found: list[Route] = []
        if self.alerting_webhook_url is not None:
            found.append(Webhook(str(self.alerting_webhook_url)))
        if self.alerting_pagerduty_key is not None:
            key = self.alerting_pagerduty_key.get_secret_value()
            found.append(PagerDuty(key, str(self.alerting_pagerduty_url)))
        urls = dict.fromkeys(url.get_secret_value() for url in self.alerting_apprise_urls)
        found.extend(map(AppriseUrl, urls))
        return found


def load() -> RouteSettings:
    """Read the settings; raise `PersonError` that names every wrong one, without its value: it may be a secret."""
    try:
        return RouteSettings()
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in e['loc']).upper()}: {e['msg']}" for e in error.errors()
        )
        raise PersonError(f"a setting is wrong: {wrong}. Correct it in the environment or in .env.") from None
