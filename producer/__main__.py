"""Provide the command line `python -m producer run|faults|world|health`."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


import sys

from events import cli
from producer import health_command

app = cli.new_app(
    "Publish simulated rack readings, ad impressions, clicks and user actions, "
    "with faults on request, and write the expected output."
)
is_quick = __name__ == "__main__" and sys.argv[1:2] == ["health"]
if not is_quick:  # it runs every few seconds, and the streams take a second to load
    from producer import run_commands

    app.add_typer(run_commands.app)
app.add_typer(health_command.app)

if __name__ == "__main__":
    cli.run(app, "producer")
