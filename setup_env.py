"""Make everything that the other commands need, from nothing: `.venv` and the jars. At once when nothing changed.

Runs on the system's Python, before any package is there: the standard library only, in words that Python 3.6
can parse, so that an old one is told what is needed instead of falling over a line.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = HERE / "requirements-dev.lock"
STAMP = VENV / "lock.sha256"
OLDEST_PYTHON = (3, 11)
JAVA_VERSIONS = (17, 21)


def main() -> None:
    """Check the prerequisites, then make what is missing; the exit status is 1 with one sentence if it cannot."""
    check_python()
    check_java()
    wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    if not (PYTHON.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted):
        make_venv(wanted)
    for step in (["jars", "fetch"], ["spark_jobs.class_archive"]):
        if subprocess.call([str(PYTHON), "-m", *step], cwd=str(HERE)):
            sys.exit(1)


def check_python() -> None:
    """Refuse a Python that is too old, or one that cannot make virtual environments."""
    if sys.version_info[:2] < OLDEST_PYTHON:
        stop(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: run make PYTHON=python3.11.")
    if not (find_spec("venv") and find_spec("ensurepip")):
        stop(
            "this Python cannot make virtual environments: install it (on Debian: apt-get install python3-venv)."
        )


def check_java() -> None:
    """Refuse a machine without Java 17 or 21, the two that Spark 4 and Kafka 4 both run on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not java:
        where = f"JAVA_HOME is {home}, where none is" if home else "none is on the PATH"
        stop(f"Java 17 or 21 is needed and {where}: install one (on Debian: openjdk-17-jre-headless).")
    version = java_version(str(java))
    if version not in JAVA_VERSIONS:
        stop(
            f"Java 17 or 21 is needed, {java} is Java {version or 'of an unknown version'}: set JAVA_HOME to one."
        )


def java_version(java: str) -> int:
    """Return the version that a java program names, 0 if it names none."""
    try:
        said = subprocess.run([java, "-version"], stderr=subprocess.PIPE, check=False).stderr.decode()
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)  # Java 8 calls itself 1.8
    return int(found.group(1)) if found else 0


def make_venv(wanted: str) -> None:
    """Make `.venv` anew with exactly the locked packages."""
    sys.stderr.write(
        "Making .venv with the locked packages (PySpark is 450 MB: minutes the first time) ...\n"
    )
    shutil.rmtree(str(VENV), ignore_errors=True)
    pip = [str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    for command in ([sys.executable, "-m", "venv", str(VENV)], [*pip, "--require-hashes", "-r", str(LOCK)]):
        if subprocess.call(command):
            stop("making .venv failed, see above: correct what it names and run make setup again.")
    STAMP.write_text(wanted, encoding="utf-8")


def stop(sentence: str) -> None:
    """End with one sentence that says what to do."""
    sys.exit("setup: " + sentence)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
