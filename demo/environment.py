"""Keep a user's settings away from the demo and the tests."""

import os

from alerting.config import AlertingSettings
from events import settings


def ignore_personal_settings() -> None:
    """Ignore `.env`, and forget what belongs to one program, in this process and all it starts.

    Otherwise a developer's pager key would page people about simulated racks, and all programs
    would serve their metrics at one port.
    """
    os.environ[settings.ENV_FILE_VARIABLE] = ""
    os.environ["COMPOSE_DISABLE_ENV_FILE"] = "1"  # docker compose reads the same file
    for name in list(os.environ):
        if name.lower() in AlertingSettings.model_fields or name.upper() == "METRICS_PORT":
            del os.environ[name]
