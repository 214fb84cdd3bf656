"""Make the CDS archive of Spark's classes, with which a session starts in half the time.

`jars/cds_archive.py` says what such an archive is.
"""

import sys
from importlib.metadata import version
from pathlib import Path

import pyspark

from events import settings
from jars.cds_archive import CdsArchive, modified
from jars.fetch import LOCKS


def archive(config: settings.JarsSettings) -> CdsArchive:
    """Return the archive for these packages, and this lock of the connector."""
    installed = modified(
        [
            *Path(pyspark.__path__[0], "jars").glob("*.jar"),
            *(config.jars_dir / "spark").glob("*.jar"),
        ]
    )
    connector = LOCKS["spark"].read_text(encoding="utf-8")
    return CdsArchive(config.jars_dir, "spark", (version("pyspark"), installed, connector))


def java_options(config: settings.JarsSettings) -> str:
    """Return the JVM options that use the archive, or nothing if it does not exist."""
    return " ".join(f'"{option}"' for option in archive(config).java_options())


def main() -> None:
    """Make the archive if it is missing.

    It lies where the demo and the tests look: a mistake in `.env` must not stop `make setup`.
    """
    config = settings.jars_settings()[0]

    def train(scratch: Path, option: str) -> None:
        from spark_jobs.runtime import cds_training  # which loads PySpark

        cds_training.train(config, scratch, option)

    archive(config).make(
        train, "Spark's classes, with which a session starts in half the time (half a minute, once)"
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
