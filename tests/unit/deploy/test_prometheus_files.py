"""Alert rules and Grafana dashboards ask for what `lowwater metrics` tells, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import exported, promql

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "lowwater.rules.yaml"
JMX_NAMES = RULES.with_name("kip-370.rules.yaml")
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
# What Prometheus itself puts on every series.
_SCRAPED = {"job", "instance"}
# Kinds, states and so on are few and known; names of topics, groups and brokers are anybody's.
_FIXED = {"kind", "state", "bound", "readers_declared", "part", "verdict"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, exported.Labels]:
    families = exported.families(tmp_path_factory.mktemp("exported"))
    return exported.labels_by_name(families)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Where it stands, and the expression."""
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    for path in DASHBOARDS:
        for panel in panels(path):
            yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def wrong(expression: str, known: dict[str, exported.Labels]) -> list[str]:
    """What of an expression the exporter never tells."""
    asked = promql.read(expression)
    found = [each.metric for each in asked.selectors if each.metric not in known]
    if found:
        return found
    for each in asked.selectors:
        labels = known[each.metric]
        found += [
            f"{each.metric}.{name}" for name in each.labels if name not in {*labels, *_SCRAPED}
        ]
        found += [
            f"{each.metric}.{name}={value}"
            for name, value in each.labels.items()
            if name in _FIXED and value not in labels.get(name, ())
        ]
    there = _SCRAPED.union(*(known[each.metric] for each in asked.selectors))
    return found + sorted(asked.grouped - there)


def test_every_expression_asks_for_metrics_and_labels_that_are_told(
    known: dict[str, exported.Labels],
) -> None:
    found = list(expressions())
    assert len(found) > 40
    assert [(where, w) for where, expression in found if (w := wrong(expression, known))] == []


@pytest.mark.parametrize(
    "expression",
    [
        "lowwater_nothing > 0",
        'lowwater_held_bytes{topic="x"}',
        'lowwater_disk_bytes{kind="reclaimables"}',
        "sum by (topic) (lowwater_held_bytes)",
    ],
)
def test_what_is_never_told_is_found(expression: str, known: dict[str, exported.Labels]) -> None:
    assert wrong(expression, known)


@pytest.mark.parametrize(
    "text", ["sum(lowwater_held_bytes", "rate(lowwater_held_bytes)", "1 > 0", "a ~ b"]
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"whole|function|read"):
        promql.read(text)


def test_the_map_of_kip_370_records_its_gauges_as_a_jmx_exporter_would_name_them(
    known: dict[str, exported.Labels],
) -> None:
    (group,) = yaml.safe_load(JMX_NAMES.read_text("utf-8"))["groups"]
    asked = {rule["record"]: promql.read(rule["expr"]).selectors for rule in group["rules"]}
    metrics = [name for name in known if "OrphanLogPartition" in name]
    assert {name: [s.metric for s in found] for name, found in asked.items()} == {
        name.lower(): [name] for name in metrics
    }
    assert {tuple(known[name]) for name in metrics} == {("broker_id",)}
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    for name in metrics:
        bean = f"`kafka.log:type=LogManager,name={name.rpartition('_')[2]}`, attribute `Value`"
        assert f'| {bean} | `{name}{{broker_id="N"}}` |' in page


def test_every_metric_is_on_a_dashboard(known: dict[str, exported.Labels]) -> None:
    shown = {
        each.metric
        for path in DASHBOARDS
        for panel in panels(path)
        for target in panel["targets"]
        for each in promql.read(target["expr"]).selectors
    }
    assert len(known) > 25
    assert known.keys() - shown == set()


def test_an_alert_says_what_to_do_with_labels_that_it_has(
    known: dict[str, exported.Labels],
) -> None:
    named = []
    for rule in rules():
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        asked = promql.read(rule["expr"])
        there = {"cluster", *known[asked.selectors[0].metric]}
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert used <= there, rule["alert"]
        named.append(rule["alert"])
    assert len(named) == len({*named}) > 10
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert [name for name in named if f"`{name}`" not in page] == []


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported_into_any_grafana(path: Path) -> None:
    """It names no data source of ours, and its panels neither overlap nor share a number."""
    dashboard = json.loads(path.read_text("utf-8"))
    names = {each["name"] for each in dashboard["templating"]["list"]}
    places: set[tuple[int, int]] = set()
    assert names == {"datasource", "instance"}
    assert dashboard["uid"] == path.stem
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]) > 10
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not places & cells, panel["title"]
        places |= cells
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {source["uid"] for source in sources} == {"${datasource}"}
        filtered = ['instance="$instance"' in target["expr"] for target in panel["targets"]]
        assert filtered and all(filtered), panel["title"]
        assert panel["title"] and panel["fieldConfig"]["defaults"]["unit"]
