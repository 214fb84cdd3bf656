"""promtool accepts what each program serves, and what docs/metrics.md tells people to copy."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import monitoring
from tests.support import ROOT
from tests.unit.metrics import all_programs


@pytest.fixture
def promtool() -> str:
    """Return promtool's path, or skip the test."""
    return monitoring.promtool()


def check(promtool: str, *what: str | Path, text: str = "") -> str:
    """Return what promtool says; nothing if it accepts metrics in `text`, or a file."""
    done = subprocess.run(
        [promtool, "check", *what],
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_promtool_accepts_the_metrics_of_every_program(promtool: str, tmp_path: Path) -> None:
    answers = all_programs(tmp_path)
    said = {name: check(promtool, "metrics", text=answer.text) for name, answer in answers.items()}
    assert said == dict.fromkeys(answers, "")
    wrong = "# TYPE restarts counter\nrestarts 1\n"
    assert check(promtool, "metrics", text=wrong), "it refuses what is wrong"


def test_promtool_accepts_the_queries_and_the_configuration_of_the_page(
    promtool: str, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    queries = re.findall(r"^\| .+\? \| `(.+)` \|$", page, re.MULTILINE)
    assert len(queries) > 3
    rules = [{"record": f"query{number}", "expr": one} for number, one in enumerate(queries)]
    rules_file, configuration = tmp_path / "rules.yml", tmp_path / "prometheus.yml"
    rules_file.write_text(yaml.safe_dump({"groups": [{"name": "page", "rules": rules}]}))
    assert check(promtool, "rules", rules_file) == ""
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    configuration.write_text(example)
    assert check(promtool, "config", configuration) == ""
