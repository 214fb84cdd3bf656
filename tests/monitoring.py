"""Name the files of the profile `monitoring`, and run the programs that check them."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT

FOLDER = ROOT / "deploy" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana" / "dashboard.json").read_text("utf-8"))


def read_yaml(name: str) -> dict[str, Any]:
    """Return a file of deploy/monitoring."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return found


def rules() -> list[dict[str, Any]]:
    """Return the alerting rules."""
    return [rule for group in read_yaml("rules.yml")["groups"] for rule in group["rules"]]


def dashboard_queries() -> list[str]:
    """Return the queries of the dashboard's panels."""
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def metric_names(text: str) -> Iterator[str]:
    """Yield the metrics of Rackstream that an expression uses, without a histogram's suffix."""
    for name in re.findall(r"rackstream_\w+", text):
        yield re.sub(r"_(bucket|sum|count)$", "", name)


def installed(*names: str, package: str, required_by: str) -> str:
    """Return the path of a program; without it skip the test, or fail if it is required."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is not None:
        return found
    if os.environ.get(required_by) == "1":
        pytest.fail(f"{required_by} is 1, and {names[0]} is not installed", pytrace=False)
    where = "" if names[0] == package else f" (package {package})"
    pytest.skip(f"{names[0]}{where} is not installed")


def promtool() -> str:
    """Return promtool's path."""
    return installed("promtool", package="prometheus", required_by="REQUIRE_PROMTOOL")


def prometheus() -> str:
    """Return Prometheus's path."""
    return installed("prometheus", package="prometheus", required_by="REQUIRE_PROMTOOL")


def alertmanager() -> str:
    """Return Alertmanager's path; the first name is Debian's."""
    names = ("prometheus-alertmanager", "alertmanager")
    return installed(*names, package=names[0], required_by="REQUIRE_ALERTMANAGER")


def amtool() -> str:
    """Return the path of Alertmanager's tool."""
    package = "prometheus-alertmanager"
    return installed("amtool", package=package, required_by="REQUIRE_ALERTMANAGER")


def write(path: Path, content: object) -> Path:
    """Write a YAML file, and return its path."""
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path
