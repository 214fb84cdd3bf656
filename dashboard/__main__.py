"""Provide `python -m dashboard`: serve the live page."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


from dashboard import run_command
from events import cli

app = cli.new_app(
    "Show racks, incidents, clickstream and the pipeline itself on one live page in the browser."
)
app.add_typer(run_command.app)


if __name__ == "__main__":
    cli.run(app, "dashboard")
