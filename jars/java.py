"""Find the Java that runs the project's programs, and give the options of short-lived ones."""

import os
import shutil
from pathlib import Path

from events.cli import UserFacingError

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=160m"
"""Options of a short-lived JVM: it never earns back optimised code or a parallel collector.

The code cache holds the code of all jobs and lessons. With the default of such a JVM, 48 MB, it
fills up, and the JVM throws compiled code away.
"""


def java() -> str:
    """Return the java program of JAVA_HOME, or else of the PATH.

    Raises `UserFacingError` when there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not found:
        raise UserFacingError(
            "Java was not found: install Java 17 or 21 and set JAVA_HOME or the PATH to it."
        )
    return found
