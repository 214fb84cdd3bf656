"""The image: its size, its user, its build after a change of code, and a valid Compose file."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from loadtest import container
from spark_jobs.registry import JOBS
from tests.support import ROOT

pytestmark = pytest.mark.full

LARGEST_BYTES = 1_300_000_000
JVM_OPTIONS = (
    "from events.settings import jars_settings; from spark_jobs.runtime import cds_archive; "
    "print(cds_archive.java_options(jars_settings()[0]))"
)
COMPILED = (
    "import pathlib, pyspark; from importlib.util import cache_from_source; "
    "print(pathlib.Path(cache_from_source(pyspark.__file__)).exists())"
)
KEPT_STAGES = {"base", "packages", "connector", "classes"}
"""The stages of the build that no change of a job makes again."""
CONTEXT = (
    "requirements.lock",
    "submit.py",
    "alerting",
    "broker",
    "dashboard",
    "demo",
    "events",
    "jars",
    "producer",
    "spark_jobs",
)


def docker(*arguments: str) -> str:
    """Run `docker ARGUMENTS` and return what it prints."""
    done = subprocess.run(
        ["docker", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_image_is_small_enough_and_nobody_in_it_is_root(image: None) -> None:  # noqa: ARG001
    (described,) = json.loads(docker("image", "inspect", "rackstream:local"))
    assert described["Size"] <= LARGEST_BYTES
    assert described["Config"]["User"] == "rackstream"
    listed = docker(
        "run", "--rm", "--read-only", "--network=none", "rackstream:local", "spark_jobs", "list"
    )
    assert {line.split()[0] for line in listed.splitlines()} == set(JOBS)
    options = docker(
        "run",
        "--rm",
        "--network=none",
        "--entrypoint=python",
        "rackstream:local",
        "-c",
        JVM_OPTIONS,
    )
    assert "-XX:SharedArchiveFile=" in options, "the jobs start without the CDS archive"
    compiled = docker(
        "run", "--rm", "--network=none", "--entrypoint=python", "rackstream:local", "-c", COMPILED
    )
    assert compiled.strip() == "True", "each program compiles PySpark"


def test_a_change_of_code_builds_neither_packages_nor_connector_again(
    image: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    for name in (*CONTEXT, "deploy/spark", "Dockerfile", ".dockerignore"):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    changed = tmp_path / "spark_jobs/rules/overheating/job.py"
    changed.write_text(f"{changed.read_text(encoding='utf-8')}# {time.time()}\n", encoding="utf-8")
    done = subprocess.run(
        ["docker", "build", "--progress=plain", "--tag=rackstream:test-change", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    docker("image", "rm", "rackstream:test-change")
    # A line names each step, `#9 [packages 3/3] RUN ...`; another says `#9 CACHED`.
    stages = dict(re.findall(r"^#(\d+) \[([\w-]+) +\d+/\d+\] RUN ", done.stderr, re.MULTILINE))
    cached = set(re.findall(r"^#(\d+) CACHED$", done.stderr, re.MULTILINE))
    assert set(stages.values()) >= KEPT_STAGES, done.stderr
    built = {stage for number, stage in stages.items() if number not in cached}
    assert built, f"the change did not reach the image: {done.stderr}"
    assert not built & KEPT_STAGES, done.stderr


def test_compose_understands_the_file_with_every_profile() -> None:
    config = json.loads(docker("compose", "--profile", "*", "config", "--format", "json"))
    assert config["services"]["kafka-ui"]["image"].startswith("ghcr.io/kafbat/kafka-ui:v")
    assert config["services"]["topic-init"]["command"][-1] == "--replication-factor=1"
    assert len(config["services"]) > len(
        json.loads(docker("compose", "config", "--format", "json"))["services"]
    )


def test_a_load_plan_runs_programs_as_a_service_runs_them(image: None, tmp_path: Path) -> None:  # noqa: ARG001
    (tmp_path / "given.json").write_text('{"a": 1}', encoding="utf-8")
    env = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:1", "TOPIC_PREFIX": "a-"}
    name = f"rackstream-test-{os.getpid()}"
    launcher = container.launcher("real-time", name, tmp_path, env)
    command = ["json.tool", str(tmp_path / "given.json"), str(tmp_path / "written.json")]
    done = subprocess.run([*launcher, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # It writes to the point's folder as the user who runs the plan, and cannot write elsewhere.
    assert (tmp_path / "written.json").stat().st_uid == os.getuid()
    elsewhere = [*command[:2], "/opt/written.json"]
    done = subprocess.run([*launcher, *elsewhere], capture_output=True, text=True, check=False)
    assert "Read-only file system" in done.stderr
    assert container.options("real-time", lambda _: False) == ["--conf=spark.driver.memory=768m"]
    assert "--memory=1440m" in launcher
