"""Alert rules and dashboards speak of metrics, labels and pages that exist, and their own tools accept them."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from llmgw.telemetry.metrics import TABLE, Kind

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "llmgw.rules.yml"
SCRAPE = ROOT / "deploy" / "prometheus" / "prometheus.yml"
RULES_TEST = ROOT / "tests" / "fixtures" / "prometheus" / "alerts.test.yml"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: apt-get install prometheus")
by_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
by_dashboard = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)

_SUFFIXES = {Kind.COUNTER: ("_total",), Kind.GAUGE: ("",), Kind.HISTOGRAM: ("_bucket", "_count", "_sum")}
LABELS = {
    metric.name + suffix: {*metric.labels, *(("le",) if suffix == "_bucket" else ()), "job", "instance"}
    for metric in TABLE
    for suffix in _SUFFIXES[metric.kind]
}
"""What Prometheus knows of each series."""
VARIABLES = {"$job": "a", "$node": "n1", "$model": "chat", "$__rate_interval": "1m"}


def unknown(expression):
    """Name the metrics and labels of an expression that are not exported."""
    found = []
    for name, matchers in re.findall(r"\b(llmgw_\w+)(?:\{([^}]*)\})?", expression):
        if name not in LABELS:
            found.append(name)
            continue
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", matchers))
        found += [f"{name}: {label}" for label in sorted(labels - LABELS[name])]
    everywhere = set().union(*(LABELS.get(name, set()) for name in re.findall(r"\bllmgw_\w+", expression)))
    for words in re.findall(r"\b(?:by|without|on)\s*\(([^)]*)\)", expression):
        found += [word for word in re.findall(r"\w+", words) if word not in everywhere]
    return found


def panels(path):
    return [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]


def expressions(path):
    return [target["expr"] for panel in panels(path) for target in panel["targets"]]


def promtool(*argv):
    done = subprocess.run(["promtool", *map(str, argv)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_not_exported_is_found():
    assert unknown('max(llmgw_nodes{state="lost"})') == []
    assert unknown('max(llmgw_nodes{colour="red"})') == ["llmgw_nodes: colour"]
    assert unknown("rate(llmgw_store_errors[5m])") == ["llmgw_store_errors"]
    assert unknown("sum by (rack) (llmgw_node_cpus)") == ["rack"]


@by_alert
def test_an_alert_asks_only_for_what_is_exported(alert):
    assert unknown(alert["expr"]) == []


@by_alert
def test_an_alert_says_what_happened_what_to_do_and_where_to_read_on(alert):
    assert alert["labels"]["severity"] in {"warning", "critical"}
    texts = alert["annotations"]
    assert set(texts) == {"summary", "description", "runbook"}
    assert len(texts["summary"]) < 110
    page = ROOT / texts["runbook"]
    assert page.parent == ROOT / "docs" / "runbooks"
    assert alert["alert"] in page.read_text(), f"{page} does not speak of it"


@by_alert
def test_a_text_of_an_alert_speaks_only_of_labels_it_has(alert):
    names = re.findall(r"\bllmgw_\w+", alert["expr"])
    known = set().union(*(LABELS[name] for name in names)) | {"instance"}
    for text in alert["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known


def test_alerts_have_names_of_their_own_and_are_all_tried():
    names = [alert["alert"] for alert in ALERTS]
    assert len(set(names)) == len(names)
    tried = RULES_TEST.read_text()
    assert [name for name in names if f'alertname="{name}"' not in tried] == []


@needs_promtool
def test_promtool_accepts_the_rules():
    promtool("check", "rules", RULES)


@needs_promtool
def test_each_alert_fires_when_it_should_and_none_over_a_sound_fleet():
    promtool("test", "rules", RULES_TEST)


@needs_promtool
def test_promtool_accepts_the_example_of_a_scrape():
    promtool("check", "config", "--syntax-only", SCRAPE)


@by_dashboard
def test_a_dashboard_asks_only_for_what_is_exported(path):
    assert [bad for expression in expressions(path) for bad in unknown(expression)] == []


@by_dashboard
def test_a_dashboard_can_be_imported_anywhere(path):
    board = json.loads(path.read_text())
    assert board["id"] is None
    assert board["uid"] == path.stem
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    used = set(re.findall(r"\$(\w+)", " ".join(expressions(path)))) - {"__rate_interval"}
    assert used <= set(variables)
    for panel in panels(path):
        assert panel["description"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


@by_dashboard
def test_panels_lie_within_the_grid_and_on_no_other(path):
    taken = set()
    for panel in json.loads(path.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert all(x < 24 for x, _ in cells)
        assert not cells & taken
        taken |= cells


@needs_promtool
@by_dashboard
def test_every_query_of_a_dashboard_is_one(path, tmp_path):
    rules = []
    for number, expression in enumerate(expressions(path)):
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)  # noqa: PLW2901 - one after the other
        rules.append({"record": f"panel:{number}", "expr": expression})
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)
