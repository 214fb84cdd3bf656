"""Fetch the jars of the lock files with the Ivy that PySpark ships, and check their SHA-256.

A lock file is text with one line per jar, `group:artifact:version sha256`, and `#` comments. It
names no address: Ivy asks its default repository, Maven Central.

A lock is complete, so Ivy needs no POMs, and the SHA-256 replaces the repository's own checksums.
What remains is one small answer and one download per jar. Their latency dominates, so several Ivy
processes share the work (docs/cold-start.md).
"""

import hashlib
import importlib.util
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from events.cli import UserFacingError
from events.settings import JarsSettings
from jars.java import QUICK_JAVA, java

STAMP = "lock.sha256"
"""In a folder of jars, the file with the SHA-256 of the lock file that they were fetched for."""
LOCKS = {path.stem: path for path in Path(__file__).parent.glob("*.lock")}
"""The lock files: `broker` (a Kafka broker and its tools), `spark` (Spark's Kafka connector)."""
JARS_PER_PROCESS = 32
"""How many jars one Ivy process fetches, one after another: more processes would wait for cores."""
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/>
  </resolvers>
</ivysettings>
"""
"""Ivy's settings: its built-in address of Maven Central, no POMs and no checksums of its own."""


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

    @property
    def coordinates(self) -> str:
        """The jar's name in the lock file."""
        return f"{self.group}:{self.artifact}:{self.version}"


def read_lock(name: str) -> list[Jar]:
    """Return the jars of a lock file, in its order."""
    jars = []
    for line in LOCKS[name].read_text(encoding="utf-8").splitlines():
        entry = line.partition("#")[0].split()
        if entry:
            group, artifact, version = entry[0].split(":")
            jars.append(Jar(group, artifact, version, entry[1] if len(entry) > 1 else ""))
    return jars


def jar_paths(name: str, settings: JarsSettings) -> list[Path]:
    """Return the paths of a lock's jars; raise `UserFacingError` when they were not fetched."""
    folder = settings.jars_dir / name
    if not is_current(name, settings):
        raise UserFacingError(
            f"the jars in {folder} are not those of {LOCKS[name].name}: run make setup."
        )
    return [(folder / jar.file_name).resolve() for jar in read_lock(name)]


def is_current(name: str, settings: JarsSettings) -> bool:
    """Tell whether the jars of this version of the lock file were fetched, and all exist."""
    folder = settings.jars_dir / name
    stamp = folder / STAMP
    return (
        stamp.exists()
        and stamp.read_text(encoding="utf-8") == _sha256(LOCKS[name])
        and all((folder / jar.file_name).exists() for jar in read_lock(name))
    )


def fetch(names: Iterable[str], settings: JarsSettings) -> int:
    """Fetch the jars of these locks that are missing, and return how many that were.

    A lock's folder appears complete or not at all. Raises `UserFacingError` when a jar cannot be
    fetched or has another SHA-256, and `OSError` when the folder cannot be written or has files
    that were not fetched.
    """
    outdated = {name: read_lock(name) for name in names if not is_current(name, settings)}
    if not outdated:
        return 0
    for name in outdated:
        _check_ours(settings.jars_dir / name)
    settings.jars_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.jars_dir, prefix=".fetch-") as scratch:
        _retrieve(outdated, Path(scratch), settings)
        for name, jars in outdated.items():
            retrieved = Path(scratch) / name
            for jar in jars:
                digest = _sha256(retrieved / jar.file_name)
                if digest != jar.sha256:
                    raise UserFacingError(
                        f"{jar.file_name} has SHA-256 {digest}, but {LOCKS[name].name} wants "
                        f"{jar.sha256}: the download is not what was locked; do not use it."
                    )
            (retrieved / STAMP).write_text(_sha256(LOCKS[name]), encoding="utf-8")
        for name in outdated:
            target = settings.jars_dir / name
            if target.exists():  # moved as a whole, since half of it would have no stamp
                target.rename(Path(scratch) / f"{name}-before")
            (Path(scratch) / name).rename(target)
    return sum(map(len, outdated.values()))


def relock(names: Iterable[str], settings: JarsSettings) -> None:
    """Download the jars that these locks name, and write their SHA-256 into the locks."""
    locks = {name: read_lock(name) for name in names}
    settings.jars_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.jars_dir, prefix=".lock-") as scratch:
        _retrieve(locks, Path(scratch), settings)
        for name, jars in locks.items():
            digests = {
                jar.coordinates: _sha256(Path(scratch) / name / jar.file_name) for jar in jars
            }
            lines = []
            for line in LOCKS[name].read_text(encoding="utf-8").splitlines():
                coordinates = line.split()[0] if line.split() else ""
                digest = digests.get(coordinates)
                lines.append(f"{coordinates} {digest}" if digest else line)
            LOCKS[name].write_text("\n".join(lines) + "\n", encoding="utf-8")


def _check_ours(folder: Path) -> None:
    if folder.exists() and not (folder / STAMP).exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} has files that were not fetched")


def _retrieve(locks: dict[str, list[Jar]], scratch: Path, settings: JarsSettings) -> None:
    """Download each lock's jars into a folder of its name in `scratch`."""
    (scratch / "ivysettings.xml").write_text(IVY_SETTINGS, encoding="utf-8")
    # A process never gets two versions of one artifact, of which Ivy would drop the older: groups
    # do not mix locks, and a lock has one version of each.
    groups = [
        (name, jars[start : start + JARS_PER_PROCESS])
        for name, jars in locks.items()
        for start in range(0, len(jars), JARS_PER_PROCESS)
    ]
    with ThreadPoolExecutor(len(groups)) as pool:
        futures = [
            pool.submit(_run_ivy, jars, scratch, number, scratch / name)
            for number, (name, jars) in enumerate(groups)
        ]
        output = "".join(future.result() for future in futures)
    wanted = [scratch / name / jar.file_name for name, jars in locks.items() for jar in jars]
    missing = [path.name for path in wanted if not path.exists()]
    if missing:
        log = settings.jars_dir / "ivy.log"
        log.write_text(output, encoding="utf-8")
        raise UserFacingError(
            f"{len(missing)} of {len(wanted)} jars could not be fetched, the first {missing[0]}: "
            f"check the network and try again; Ivy's output is in {log}."
        )


def _run_ivy(jars: list[Jar], scratch: Path, number: int, target: Path) -> str:
    """Let one Ivy process fetch these jars, and return its output."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} "
        f'rev={quoteattr(jar.version)} conf="default"/>'
        for jar in jars
    )
    module = scratch / f"ivy-{number}.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="rackstream" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    command = [
        *(java(), *QUICK_JAVA.split(), "-jar", str(_ivy_jar())),
        *("-settings", str(scratch / "ivysettings.xml"), "-ivy", str(module)),
        *("-cache", str(scratch / f"cache-{number}"), "-types", "jar"),
        *("-retrieve", str(target / "[artifact]-[revision].[ext]")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise UserFacingError("PySpark is not installed: run make setup.")
    return next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
