"""Fetch the jars of a lock file with the Ivy that PySpark ships, and check every one against its SHA-256.

A lock file is text: one line a jar, `group:artifact:version sha256`, `#` comments. No address is in it: Ivy
asks the repository it is set up for, by default Maven Central.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from events.cli import PersonError
from events.settings import Settings
from jars.java import java

LOCKS = {path.stem: path for path in Path(__file__).parent.glob("*.lock")}
"""The lock files by name: `broker` (a Kafka broker and its tools), `spark` (Spark's Kafka connector)."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One published jar and the SHA-256 that it must have."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The jar's name in its folder."""
        return f"{self.artifact}-{self.version}.jar"


def read_lock(name: str) -> list[Jar]:
    """Return the jars of a lock file, in its order."""
    jars = []
    for line in LOCKS[name].read_text(encoding="utf-8").splitlines():
        entry = line.partition("#")[0].split()
        if entry:
            group, artifact, version = entry[0].split(":")
            jars.append(Jar(group, artifact, version, entry[1] if len(entry) > 1 else ""))
    return jars


def jar_paths(name: str, settings: Settings) -> list[Path]:
    """Return where the jars of a lock lie; raise `PersonError` when they were not fetched."""
    folder = settings.jars_dir / name
    if not is_current(name, settings):
        raise PersonError(f"the jars in {folder} are not those of {LOCKS[name].name}: run make setup.")
    return [(folder / jar.file_name).resolve() for jar in read_lock(name)]


def is_current(name: str, settings: Settings) -> bool:
    """Tell whether the jars of this very lock file have been fetched and checked."""
    stamp = settings.jars_dir / name / "lock.sha256"
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _sha256(LOCKS[name])


def fetch(name: str, settings: Settings) -> None:
    """Bring the jars of a lock into their folder, all or none; raise `PersonError` when one is missing or wrong."""
    if is_current(name, settings):
        return
    wanted = read_lock(name)
    settings.jars_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.jars_dir, prefix=f".{name}-") as scratch:
        retrieved = _retrieve(wanted, Path(scratch), settings)
        for jar in wanted:
            digest = _sha256(retrieved / jar.file_name)
            if digest != jar.sha256:
                raise PersonError(
                    f"{jar.file_name} has SHA-256 {digest}, but {LOCKS[name].name} wants {jar.sha256}: "
                    "what was downloaded is not what was locked; do not use it."
                )
        (retrieved / "lock.sha256").write_text(_sha256(LOCKS[name]), encoding="utf-8")
        target = settings.jars_dir / name
        shutil.rmtree(target, ignore_errors=True)
        retrieved.rename(target)


def relock(name: str, settings: Settings) -> None:
    """Download the jars that a lock names and write their hashes into it (after its versions were edited)."""
    wanted = read_lock(name)
    settings.jars_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.jars_dir, prefix=f".{name}-") as scratch:
        retrieved = _retrieve(wanted, Path(scratch), settings)
        hashes = {f"{j.group}:{j.artifact}:{j.version}": _sha256(retrieved / j.file_name) for j in wanted}
    lines = []
    for line in LOCKS[name].read_text(encoding="utf-8").splitlines():
        coordinate = line.split()[0] if line.split() else ""
        lines.append(f"{coordinate} {hashes[coordinate]}" if coordinate in hashes else line)
    LOCKS[name].write_text("\n".join(lines) + "\n", encoding="utf-8")


def _retrieve(wanted: list[Jar], scratch: Path, settings: Settings) -> Path:
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' transitive="false" conf="default->master"/>'
        for jar in wanted
    )
    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="rackstream" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    target = scratch / "jars"
    command = [
        java(), "-jar", str(_ivy_jar()), "-ivy", str(module), "-cache", str(settings.jars_dir / ".ivy"),
        "-types", "jar", "bundle", "-retrieve", str(target / "[artifact]-[revision].[ext]"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    missing = [jar.file_name for jar in wanted if not (target / jar.file_name).exists()]
    if missing:
        log = settings.jars_dir / "ivy.log"
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        raise PersonError(
            f"{len(missing)} of {len(wanted)} jars could not be fetched, the first {missing[0]}: "
            f"check the network and try again; Ivy's own words are in {log}."
        )
    return target


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise PersonError("PySpark is not installed: run make setup.")
    return next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
