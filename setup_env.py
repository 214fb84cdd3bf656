"""Make everything that the other commands need, from nothing: `.venv` and the jars. At once when nothing changed.

Runs on the system's Python, before any package is there: the standard library only, in words that old Pythons parse.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
VENV = os.path.join(HERE, ".venv")  # noqa: PTH118
PYTHON = os.path.join(VENV, "bin", "python")  # noqa: PTH118
LOCK = os.path.join(HERE, "requirements-dev.lock")  # noqa: PTH118
STAMP = os.path.join(VENV, "lock.sha256")  # noqa: PTH118
JAVA_VERSIONS = (17, 21)


def main():  # type: ignore[no-untyped-def]
    """Check the prerequisites, then make what is missing; the exit status is 1 with one sentence if it cannot."""
    check_python()
    check_java()
    with open(LOCK, "rb") as file:  # noqa: PTH123
        wanted = hashlib.sha256(file.read() + sys.version.encode()).hexdigest()
    if read(STAMP) != wanted:
        make_venv(wanted)
    if subprocess.call([PYTHON, "-m", "jars", "fetch"], cwd=HERE):
        sys.exit(1)


def check_python():  # type: ignore[no-untyped-def]
    """Refuse a Python that is too old, or one that cannot make virtual environments."""
    if sys.version_info < (3, 11):
        stop("Python 3.11 or newer is needed, this is {}: run make PYTHON=python3.11.".format(sys.version.split()[0]))
    try:
        import ensurepip  # noqa: F401, PLC0415
        import venv  # noqa: F401, PLC0415
    except ImportError:
        stop("this Python cannot make virtual environments: install it (on Debian: apt-get install python3-venv).")


def check_java():  # type: ignore[no-untyped-def]
    """Refuse a machine without Java 17 or 21, the two that Spark 4 and Kafka 4 both run on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")  # noqa: PTH118
    if not java:
        where = "JAVA_HOME is {}, where none is".format(home) if home else "none is on the PATH"
        stop("Java 17 or 21 is needed and {}: install one (on Debian: openjdk-17-jre-headless).".format(where))
    said = subprocess.run([java, "-version"], stderr=subprocess.PIPE, check=False).stderr.decode()
    found = re.search(r'version "(\d+)', said)
    if not found or int(found.group(1)) not in JAVA_VERSIONS:
        version = found.group(1) if found else "of an unknown version"
        stop("Java 17 or 21 is needed, {} is Java {}: set JAVA_HOME to one of those.".format(java, version))


def make_venv(wanted):  # type: ignore[no-untyped-def]
    """Make `.venv` anew with exactly the locked packages."""
    print("Making .venv with the locked packages (PySpark is 450 MB: some minutes the first time) ...", flush=True)  # noqa: T201
    shutil.rmtree(VENV, ignore_errors=True)
    install = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", LOCK]
    for command in ([sys.executable, "-m", "venv", VENV], install):
        if subprocess.call(command):
            stop("making .venv failed, see above: correct what it names and run make setup again.")
    with open(STAMP, "w") as file:  # noqa: PTH123
        file.write(wanted)


def read(path):  # type: ignore[no-untyped-def]
    """Return the file's text, or nothing when there is no such file."""
    try:
        with open(path) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def stop(sentence):  # type: ignore[no-untyped-def]
    """End with one sentence that says what to do."""
    sys.exit("setup: " + sentence)


if __name__ == "__main__":
    main()  # type: ignore[no-untyped-call]
