"""The profile `monitoring`: its rules, its dashboard, and its containers."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.monitoring import (
    DASHBOARD,
    FOLDER,
    amtool,
    dashboard_queries,
    metric_names,
    promtool,
    read_yaml,
    rules,
    write,
)
from tests.support import ROOT
from tests.unit.test_compose import COMPOSE, DEFAULT, SERVICES

MONITORING = {
    name: service for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"]
}
RULES = {rule["alert"]: rule for rule in rules()}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def check(*command: str | Path) -> str:
    """Return what a tool says; nothing if it accepts the file."""
    done = subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def mounts(name: str) -> dict[str, Path]:
    """Return the files that a container sees, by their paths there."""
    files = COMPOSE["configs"]
    return {
        config["target"]: ROOT / re.sub(r"\$\{\w+:-(.*)\}", r"\1", files[config["source"]]["file"])
        for config in MONITORING[name]["configs"]
    }


def test_prometheus_accepts_the_configuration_and_the_rules() -> None:
    assert check(promtool(), "check", "config", "prometheus.yml") == ""
    assert check(promtool(), "check", "rules", "rules.yml") == ""


def test_each_rule_fires_when_it_should_and_only_then() -> None:
    assert check(promtool(), "test", "rules", "rules_test.yml") == ""


def test_each_rule_has_a_test_in_which_it_is_silent_at_first_and_then_fires() -> None:
    tests = read_yaml("rules_test.yml")["tests"]
    assert [test["name"] for test in tests] == list(RULES)
    for test in tests:
        name, looks = test["name"], test["promql_expr_test"]
        assert {look["expr"] for look in looks} == {'ALERTS{alertstate="firing"}'}, "all alerts"
        assert looks[0]["exp_samples"] == [], name
        for sample in (sample for look in looks for sample in look["exp_samples"]):
            assert f'alertname="{name}"' in sample["labels"]
        assert any(look["exp_samples"] for look in looks), name


def test_each_rule_says_what_is_wrong_and_what_to_do() -> None:
    for name, rule in RULES.items():
        assert re.fullmatch(r"Rackstream[A-Z]\w+", name)
        assert set(rule["labels"]) == {"severity"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert all(text.endswith((".", ").")) for text in rule["annotations"].values()), name


def test_rules_and_dashboard_use_only_metrics_that_are_documented() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(rackstream_\w+)` \|", page, re.MULTILINE))
    used = {name for rule in RULES.values() for name in metric_names(rule["expr"])}
    used |= {name for query in dashboard_queries() for name in metric_names(query)}
    used |= set(metric_names((FOLDER / "rules_test.yml").read_text(encoding="utf-8")))
    assert len(used) > 20
    assert used <= documented


def program_of(command: list[str]) -> str:
    """Return the program of this project that a command runs, behind `python -m` or directly."""
    return next(word for word in command if word != "python" and not word.startswith("-"))


def test_prometheus_scrapes_each_container_that_serves_metrics() -> None:
    targets = {
        target: job["job_name"]
        for job in read_yaml("prometheus.yml")["scrape_configs"]
        for one in job["static_configs"]
        for target in one["targets"]
    }
    serving = {
        f"{name}:{service['environment']['METRICS_PORT']}": program_of(service["command"])
        for name, service in DEFAULT.items()
        if "run" in service.get("command", []) and service["environment"]["METRICS_PORT"]
    }
    assert targets == serving
    (watched,) = re.findall(r'job=~"(.+)"', RULES["RackstreamProgramDown"]["expr"])
    assert set(watched.split("|")) == set(targets.values())
    published = [port for service in DEFAULT.values() for port in service.get("ports", [])]
    assert not [port for port in published if "9101" in port]


def test_prometheus_finds_alertmanager_and_grafana_finds_prometheus() -> None:
    (where,) = read_yaml("prometheus.yml")["alerting"]["alertmanagers"]
    (source,) = read_yaml("grafana/datasource.yml")["datasources"]
    addresses = {
        "alertmanager": where["static_configs"][0]["targets"][0],
        "prometheus": source["url"].removeprefix("http://"),
    }
    for name, address in addresses.items():
        (published,) = MONITORING[name]["ports"]
        assert address == f"{name}:{published.rpartition(':')[2]}"


def test_alertmanager_notifies_nobody_by_default() -> None:
    assert check(amtool(), "check-config", "alertmanager.yml") == ""
    config = read_yaml("alertmanager.yml")
    assert config["receivers"] == [{"name": config["route"]["receiver"]}]


def test_a_broken_broker_silences_rules_that_exist() -> None:
    (inhibition,) = read_yaml("alertmanager.yml")["inhibit_rules"]
    named = re.findall(r"Rackstream\w+", json.dumps(inhibition))
    assert len(named) > 2
    assert set(named) <= set(RULES)


def differences(given: Any, kept: Any, where: str = "") -> list[str]:
    """Return where a value was lost or changed; additions are defaults."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [
            difference
            for key in given
            for difference in (
                differences(given[key], kept[key], f"{where}/{key}")
                if key in kept
                else [f"{where}/{key} is unknown"]
            )
        ]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        pairs = enumerate(zip(given, kept, strict=True))
        return [one for n, pair in pairs for one in differences(*pair, f"{where}/{n}")]
    return [] if given == kept else [f"{where}: {given!r} became {kept!r}"]


def through_the_model(dashboard: dict[str, Any]) -> list[str]:
    """Return what Grafana's model of a dashboard, its panels and queries does not know."""
    register_default_plugins()
    encoded = JSONEncoder(sort_keys=True).encode(Dashboard.from_json(dashboard))
    return differences(dashboard, json.loads(encoded))


def test_grafanas_model_knows_every_field_of_the_dashboard() -> None:
    assert {panel["type"] for panel in DASHBOARD["panels"]} == {"row", "stat", "timeseries"}
    assert through_the_model(DASHBOARD) == []


def test_grafanas_model_loses_a_field_that_is_misspelt() -> None:
    wrong = json.loads(json.dumps(DASHBOARD))
    wrong["panels"][1]["options"]["graphMood"] = "none"
    wrong["panels"][1]["targets"][0]["query"] = "up"
    assert through_the_model(wrong) == [
        "/panels/1/targets/0/query is unknown",
        "/panels/1/options/graphMood is unknown",
    ]


def test_the_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)
        assert one["x"] + one["w"] <= 24, "Grafana's grid has 24 columns"


def test_each_panel_asks_the_provisioned_source() -> None:
    (source,) = read_yaml("grafana/datasource.yml")["datasources"]
    expected = {"type": source["type"], "uid": source["uid"]}
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == expected
        assert [target["datasource"] for target in panel["targets"]] == [expected] * len(
            panel["targets"]
        )


def test_prometheus_understands_each_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = dashboard_queries()
    records = [{"record": f"query{number}", "expr": one} for number, one in enumerate(queries)]
    file = write(tmp_path / "rules.yml", {"groups": [{"name": "dashboard", "rules": records}]})
    assert check(promtool(), "check", "rules", file) == ""


def test_grafana_finds_the_dashboard() -> None:
    (provider,) = read_yaml("grafana/provider.yml")["providers"]
    found = [
        path
        for path, file in mounts("grafana").items()
        if file == FOLDER / "grafana" / "dashboard.json"
    ]
    assert found == [f"{provider['options']['path']}/rackstream.json"]
    home = MONITORING["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert [home] == found


def test_each_container_reads_files_that_exist() -> None:
    used = {config["source"] for one in MONITORING.values() for config in one["configs"]}
    assert used == set(COMPOSE["configs"])
    for name in MONITORING:
        assert [path for path in mounts(name).values() if not path.is_file()] == []
    for name in ("prometheus", "alertmanager"):
        (file,) = (
            word.removeprefix("--config.file=")
            for word in MONITORING[name]["command"]
            if word.startswith("--config.file=")
        )
        assert file in mounts(name)
    # Prometheus reads the rules from the folder of its configuration.
    (rule_file,) = read_yaml("prometheus.yml")["rule_files"]
    assert mounts("prometheus")[f"/etc/prometheus/{rule_file}"] == FOLDER / "rules.yml"


@pytest.mark.parametrize("name", MONITORING)
def test_each_container_has_few_rights_and_is_reached_from_this_machine_only(name: str) -> None:
    service = MONITORING[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service, "the image's user is not root"
    (published,) = service["ports"]
    assert re.fullmatch(rf"127\.0\.0\.1:\$\{{{name.upper()}_HOST_PORT:-(\d+)\}}:\1", published)
    assert f"http://localhost:{published.rpartition(':')[2]}/" in service["healthcheck"]["test"][-1]


def test_the_page_lists_each_rule_as_it_is() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(Rackstream\w+)` \| (\w+) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert [(name, severity, after) for name, severity, _, after in rows] == [
        (name, rule["labels"]["severity"], rule.get("for", "at once"))
        for name, rule in RULES.items()
    ]


def test_each_section_that_a_rule_names_is_in_the_docs() -> None:
    descriptions = " ".join(rule["annotations"]["description"] for rule in RULES.values())
    named = re.findall(r"\(docs/(\w+\.md), ([^)]+)\)", descriptions)
    assert len(named) > 2
    for page, section in named:
        headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text("utf-8"), re.MULTILINE)
        assert section in headings, (page, section)
