"""Define Spark settings for little data; this module loads nothing of Spark."""

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Interpret expressions instead of compiling code for them.

Spark writes the code of an expression in each task, even where it has compiled the same code
before. With a few hundred rows per batch this costs more than it saves (docs/tuning.md).
"""
INTERPRETED_OPTIONS = tuple(f"--conf={name}={value}" for name, value in INTERPRETED.items())
"""The same for the command line of the jobs."""
