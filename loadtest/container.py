"""Run a point's jobs in the image, with the limits and options of a service of the Compose file.

The container shares the machine's network, because the load tool's broker listens on the loopback,
and sees the point's folder under the same path.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml

from events.cli import UserFacingError

COMPOSE_FILE = Path(__file__).parents[1] / "docker-compose.yml"
Service = Literal["real-time", "micro-batch"]
START_S = 30.0
POLL_S = 0.2
_PASSED_ON = ("KAFKA_BOOTSTRAP_SERVERS", "TOPIC_PREFIX")


def launcher(service: Service, name: str, folder: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return what runs `python -m` in a container; the container ends with it.

    Raises `UserFacingError` when Docker or the image is missing.
    """
    described = _service(service)
    image, java = str(described["image"]), str(described["environment"]["JAVA_TOOL_OPTIONS"])
    if shutil.which("docker") is None:
        raise UserFacingError("this plan runs jobs in containers: install Docker.")
    if _docker("image", "inspect", image).returncode:
        raise UserFacingError(f"there is no image {image}: docker compose build makes it.")
    given = {variable: env[variable] for variable in _PASSED_ON} | {"JAVA_TOOL_OPTIONS": java}
    return (
        *("docker", "run", "--rm", "--init", "--read-only", f"--name={name}", "--network=host"),
        f"--memory={described['mem_limit']}",
        *(f"--tmpfs={path}" for path in described["tmpfs"]),
        *(f"--cap-drop={capability}" for capability in described["cap_drop"]),
        *(f"--security-opt={option}" for option in described["security_opt"]),
        # The folder is this user's, and Hadoop's login needs the user's name.
        *(f"--user={os.getuid()}:{os.getgid()}", "--volume=/etc/passwd:/etc/passwd:ro"),
        f"--volume={folder}:{folder}",
        *(f"--env={variable}={value}" for variable, value in given.items()),
        image,
    )


def options(service: Service, uses: Callable[[str], bool]) -> list[str]:
    """Return the options of the service's command that apply to jobs, by what these jobs use.

    `uses` is asked for each option's name, as `batch_seconds`. Spark settings always apply.
    """
    words = [word for word in _service(service)["command"] if word.startswith("--")]
    names = [word.partition("=")[0][2:].replace("-", "_") for word in words]
    return [word for name, word in zip(names, words, strict=True) if name == "conf" or uses(name)]


def pid(name: str) -> int:
    """Return the process id of a container on this machine, once it runs."""
    deadline = time.monotonic() + START_S
    while True:
        found = _docker("inspect", "--format={{.State.Pid}}", name).stdout.strip()
        if found and int(found):
            return int(found)
        if time.monotonic() > deadline:
            raise UserFacingError(f"the container {name} did not start within {START_S:.0f} s.")
        time.sleep(POLL_S)


def remove(name: str) -> None:
    """Remove a container, running or not; one that has gone is no error."""
    _docker("rm", "--force", name)


def _service(name: Service) -> dict[str, Any]:
    text = COMPOSE_FILE.read_text(encoding="utf-8")
    return dict(yaml.safe_load(text)["services"][name])


def _docker(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
