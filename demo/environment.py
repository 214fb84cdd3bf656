"""Keep a user's settings and notification channels away from the demo and the tests."""

import os

from alerting.config import AlertingSettings
from events import settings


def ignore_personal_settings() -> None:
    """Ignore `.env`, and forget notification channels, in this process and all that it starts.

    Otherwise a developer's pager key would page people about simulated racks.
    """
    os.environ[settings.ENV_FILE_VARIABLE] = ""
    os.environ["COMPOSE_DISABLE_ENV_FILE"] = "1"  # docker compose reads the same file
    for name in list(os.environ):
        if name.lower() in AlertingSettings.model_fields:
            del os.environ[name]
