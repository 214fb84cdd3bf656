"""Run `spark_jobs` as it is, but wait only a second for the executor of a standalone cluster.

`python -m tests.impatient_jobs ARGUMENT ...` takes the arguments of `python -m spark_jobs`.
"""

from events import cli
from spark_jobs.__main__ import app
from spark_jobs.runtime import runner

if __name__ == "__main__":
    runner.FIRST_EXECUTOR_S = 1
    cli.run(app, "spark_jobs")
