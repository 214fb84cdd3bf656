"""Make what all other commands need: `.venv` and the jars. Instant when nothing changed.

Runs on the system's Python before any package is installed: the standard library only, and syntax
that Python 3.6 parses, so that on an old Python it can print what is needed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = HERE / "requirements-dev.lock"
STAMP = VENV / "lock.sha256"
OLDEST_PYTHON = (3, 11)
JAVA_VERSIONS = (17, 21)
WITHOUT_CDS = "--without-cds"
BUILD_OPTIONS = "[bdist_wheel]\ncompression = stored\n"
"""PySpark is published as source; compressing 450 MB only to unpack them takes half the install."""


def main() -> None:
    """Check the prerequisites and make what is missing, or exit 1 with one sentence."""
    check_python()
    check_java()
    wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    if not (PYTHON.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted):
        make_venv(wanted)
    steps = [["jars", "fetch"], ["broker.cds_archive"], ["spark_jobs.runtime.cds_archive"]]
    # The demo makes the CDS archives when it has ended, so that its first alert comes sooner.
    for step in steps[:1] if WITHOUT_CDS in sys.argv[1:] else steps:
        status = run([str(PYTHON), "-m", *step])
        if status:
            sys.exit(status)


def run(command: list[str]) -> int:
    """Run a program, and return its exit status; Ctrl-C lets it stop what it has started."""
    process = subprocess.Popen(command, cwd=str(HERE))
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def check_python() -> None:
    """Refuse a Python that is too old, or that cannot make virtual environments."""
    if sys.version_info[:2] < OLDEST_PYTHON:
        stop(
            f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: "
            "run make PYTHON=python3.11."
        )
    if not (find_spec("venv") and find_spec("ensurepip")):
        stop(
            "this Python cannot make virtual environments: install what it lacks "
            "(on Debian: apt-get install python3-venv)."
        )


def check_java() -> None:
    """Refuse a machine without Java 17 or 21, the versions that Spark 4 and Kafka 4 run on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not java:
        where = f"JAVA_HOME is {home}, where none is" if home else "none is on the PATH"
        stop(
            f"Java 17 or 21 is needed and {where}: "
            "install one (on Debian: openjdk-17-jre-headless)."
        )
    version = java_version(str(java))
    if version not in JAVA_VERSIONS:
        stop(
            f"Java 17 or 21 is needed, {java} is Java {version or 'of an unknown version'}: "
            "set JAVA_HOME to one."
        )


def java_version(java: str) -> int:
    """Return the major version that a java program reports, 0 if it reports none."""
    try:
        output = subprocess.run(
            [java, "-version"], stderr=subprocess.PIPE, check=False
        ).stderr.decode()
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', output)  # Java 8 calls itself 1.8
    return int(found.group(1)) if found else 0


def make_venv(wanted: str) -> None:
    """Make `.venv` anew with exactly the locked packages, by uv, or by pip where uv fails."""
    begin = time.monotonic()
    say("making .venv with the locked packages (0.7 GB, PySpark is most of it) ...")
    shutil.rmtree(str(VENV), ignore_errors=True)
    if subprocess.call([sys.executable, "-m", "venv", str(VENV)]):
        stop("making .venv failed, see above: correct what it names and run make setup again.")
    build_options = VENV / "build.cfg"
    build_options.write_text(BUILD_OPTIONS, encoding="utf-8")
    env = dict(os.environ, DIST_EXTRA_CONFIG=str(build_options))
    locked = ["--no-deps", "--require-hashes", "-r", str(LOCK)]  # the lock is complete
    pip = [str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    uv = [str(PYTHON), "-m", "uv", "--quiet", "pip", "install", "--python", str(PYTHON)]
    uv_lock = VENV / "uv.lock"
    uv_lock.write_text(lock_entry("uv"), encoding="utf-8")
    installed_by = ""
    if subprocess.call([*pip, "--no-deps", "--require-hashes", "-r", str(uv_lock)]) == 0:
        installed_by = "uv" if subprocess.call([*uv, *locked], env=env) == 0 else ""
    if not installed_by:  # uv reads no settings of pip's, which may name the only index in reach
        say("uv could not install them, see above; pip will, which takes longer ...")
        if subprocess.call([*pip, *locked], env=env):
            stop("making .venv failed, see above: correct what it names and run make setup again.")
        installed_by = "pip"
    STAMP.write_text(wanted, encoding="utf-8")
    say(
        f"made .venv with {installed_by} in {time.monotonic() - begin:.0f} s; fetching the jars ..."
    )


def lock_entry(package: str) -> str:
    """Return a package's lines of the lock: its version and hashes."""
    found = re.search(
        rf"^{package}==.*\n(?: +--hash=.*\n?)+", LOCK.read_text(encoding="utf-8"), re.MULTILINE
    )
    return found.group() if found else ""


def say(message: str) -> None:
    """Tell the person who waits what happens."""
    sys.stderr.write(f"setup: {message}\n")
    sys.stderr.flush()


def stop(sentence: str) -> None:
    """End with one sentence that says what to do."""
    sys.exit("setup: " + sentence)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
