"""The files for Prometheus and Grafana: they load, and use metrics that a gateway exposes."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.callers import Served
from tests.support.command_line import ROOT

FILES: Final = ROOT / "examples" / "monitoring"
ALERTS: Final = FILES / "alerts.yaml"
DASHBOARD: Final = FILES / "dashboard.json"

NAMED: Final = re.compile(r"\bpermission_ledger_[a-z_]+")


def expressions() -> list[str]:
    """Return all queries of the dashboard."""
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


async def exposed(gateway: Served) -> set[str]:
    """Return the names that queries may use of what a gateway exposes."""
    auditor = await gateway.caller("auditor", "prometheus")
    answer = await auditor.get("/metrics")
    names: set[str] = set()
    for family in text_string_to_metric_families(answer.text):
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        names.update(family.name + suffix for suffix in suffixes)
        names.update(sample.name for sample in family.samples)
    return names


async def test_queries_and_alerts_use_metrics_that_a_gateway_exposes(gateway: Served) -> None:
    used = {name for text in [*expressions(), ALERTS.read_text()] for name in NAMED.findall(text)}
    assert len(used) >= 10
    assert used - await exposed(gateway) == set()


async def test_a_gateway_tells_its_version(gateway: Served) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    assert (
        f'permission_ledger_build_info{{version="{version("permission-ledger")}"}} 1.0'
        in (await auditor.get("/metrics")).text
    )


def test_the_dashboard_has_a_panel_of_its_own_place_for_each_query() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["targets"] for panel in panels)
