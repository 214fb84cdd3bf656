"""Which Java runs the project's programs? With what options, where it ends soon."""

import os
import shutil
from pathlib import Path

from events.cli import PersonError

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What pays to compile well, and to collect in parallel, is what runs for long."""


def java() -> str:
    """Return the java program: JAVA_HOME's, or the one on the PATH; raise `PersonError` when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not found:
        raise PersonError("Java was not found: install Java 17 or 21 and set JAVA_HOME or the PATH to it.")
    return found
