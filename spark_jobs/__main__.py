"""`python -m spark_jobs list|run|compact|status|health`: the jobs on the command line."""

import sys

from events import cli
from spark_jobs import status_commands

app = cli.new_app(
    "Structured Streaming jobs: each answers one question, from Kafka topics to a Kafka topic."
)
is_quick = __name__ == "__main__" and sys.argv[1:2] in (["status"], ["health"])
if not is_quick:  # those two run every few seconds, and Spark takes seconds to load
    from spark_jobs import job_commands

    app.add_typer(job_commands.app)
app.add_typer(status_commands.app)

if __name__ == "__main__":
    cli.run(app, "spark_jobs")
