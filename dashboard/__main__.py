"""`python -m dashboard`: serve the live page."""

from dashboard import run_command
from events import cli

app = cli.new_app("Show the racks, incidents, clickstream and pipeline on one live page.")
app.add_typer(run_command.app)


@app.callback()
def main() -> None:
    """Show the racks, incidents, clickstream and pipeline on one live page."""


if __name__ == "__main__":
    cli.run(app, "dashboard")
