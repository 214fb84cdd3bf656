"""Define options of several commands; the health check loads this module, so it imports little."""

from pathlib import Path
from typing import Annotated

import typer

Database = Annotated[
    Path | None,
    typer.Option(
        help="The database file; default: ALERTING_DATABASE or RACKSTREAM_HOME/alerting.sqlite3.",
        show_default=False,
    ),
]
