"""Provide the jobs on the command line: `python -m spark_jobs list|run|compact|status|health`."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


import sys

from events import cli
from spark_jobs import status_commands

app = cli.new_app(
    "Structured Streaming jobs: each reads Kafka topics, answers one question, and writes a topic "
    "or files."
)
command = sys.argv[1:2] if __name__ == "__main__" else []
if command not in (["compact"], ["status"], ["health"]):  # Spark takes seconds and 100 MB to load
    from spark_jobs import job_commands

    app.add_typer(job_commands.app)
if command not in (["status"], ["health"]):  # these run every few seconds
    from spark_jobs import compact_command

    app.add_typer(compact_command.app)
app.add_typer(status_commands.app)

if __name__ == "__main__":
    cli.run(app, "spark_jobs")
