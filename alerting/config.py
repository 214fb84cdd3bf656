"""Define the settings of alerting: its database, and channels with their secrets."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, HttpUrl, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from alerting.notifications.channels import (
    AppriseChannel,
    Channel,
    PagerDutyChannel,
    WebhookChannel,
)
from events import settings


class AlertingSettings(BaseSettings):
    """The settings of alerting; each field is an environment variable in capitals.

    A channel whose setting is not set is off.
    """

    model_config = SettingsConfigDict(
        env_file_encoding="utf-8", extra="ignore", env_ignore_empty=True
    )

    alerting_database: Path | None = Field(
        None, description="The database file; default: alerting.sqlite3 in RACKSTREAM_HOME."
    )
    alerting_webhook_url: HttpUrl | None = Field(
        None,
        description="The URL of an Alertmanager's API: http://alertmanager:9093/api/v2/alerts.",
    )
    alerting_pagerduty_key: SecretStr | None = Field(
        None, description="The integration key of a PagerDuty service (Events API v2)."
    )
    alerting_pagerduty_url: HttpUrl = Field(
        HttpUrl("https://events.pagerduty.com/v2/enqueue"),
        description="The URL of PagerDuty's Events API.",
    )
    alerting_apprise_urls: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (),
        description="Apprise URLs separated by blanks: mailto://…, slack://…, ntfy://….",
    )
    alerting_dead_letters: Path | None = Field(
        None,
        description="The file for notices that no attempt delivered; default: beside the database.",
    )

    @field_validator("alerting_apprise_urls", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(value.split()) if isinstance(value, str) else value

    def channels(self) -> list[Channel]:
        """Return the channels that are set; raise `UserFacingError` for an invalid one."""
        found: list[Channel] = []
        if self.alerting_webhook_url is not None:
            found.append(WebhookChannel(str(self.alerting_webhook_url)))
        if self.alerting_pagerduty_key is not None:
            key = self.alerting_pagerduty_key.get_secret_value()
            found.append(PagerDutyChannel(key, str(self.alerting_pagerduty_url)))
        urls = dict.fromkeys(url.get_secret_value() for url in self.alerting_apprise_urls)
        found.extend(map(AppriseChannel, urls))
        return found


def load() -> AlertingSettings:
    """Read the settings; raise `UserFacingError` that names each wrong one, without its value.

    The value may be a secret.
    """
    return settings.read(AlertingSettings, are_secret=True)
