"""Describe the machine and its versions, without anything that identifies it or its owner."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

from jars.java import java

PACKAGES = ("pyspark", "confluent-kafka", "pyarrow", "numpy", "hdrhistogram")


def describe() -> dict[str, str]:
    """Return the facts that results depend on."""
    memory_gib = psutil.virtual_memory().total / 2**30
    output = subprocess.run(
        [java(), "-version"], capture_output=True, text=True, check=False
    ).stderr
    return {
        "processors": f"{psutil.cpu_count()} ({_processor()})",
        "memory": f"{memory_gib:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": output.partition("\n")[0].partition('"')[2].partition('"')[0],
        "clock": "one machine, one clock for producer, broker and consumer",
        **{package: version(package) for package in PACKAGES},
    }


def busy_percent(seconds: float = 1.0) -> float:
    """Return the current CPU use of all processors in percent."""
    return float(psutil.cpu_percent(seconds))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
