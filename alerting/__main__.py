"""Provide `python -m alerting`: log alerts once, notify people, and take operators' commands."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


import logging
import sys

from alerting import status_commands
from events import cli

app = cli.new_app(
    "Log each alert exactly once, notify people, and take operators' commands. `run` does the "
    "first two and publishes incidents; `health` checks it; the other commands show incidents and "
    "act on them."
)
is_health = __name__ == "__main__" and sys.argv[1:2] == ["health"]
if not is_health:  # it runs every few seconds, and the others take a second to load
    from alerting import run_command
    from alerting.cli import operator_cli

    app.add_typer(run_command.app)
    app.add_typer(operator_cli.app)
app.add_typer(status_commands.app)


if __name__ == "__main__":
    for name in ("kafka", "apprise"):
        # They log every failed attempt; alerting reports only the changes.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    cli.run(app, "alerting")
