"""Prometheus's own checker takes the alerts, and every query of the dashboard."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.test_monitoring import ALERTS, expressions
from tests.support.promtool import promtool

pytestmark = pytest.mark.tools

CASES: Final = """
rule_files: [alerts.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'up{job="permission-ledger", instance="a"}', values: "0x10"}
      - {series: 'permission_ledger_in_doubt_total{instance="a"}', values: "0 0 1x8"}
      - {series: 'permission_ledger_projector_lag_events{instance="a"}', values: "5000x20"}
      - {series: 'permission_ledger_freezes{instance="a"}', values: "0x70"}
      - {series: 'permission_ledger_oldest_pending_seconds{instance="a"}', values: "3600 3660+60x70"}
      - {series: 'permission_ledger_oldest_pending_seconds{instance="b"}', values: "0x70"}
      - {series: 'permission_ledger_clock_set_back_seconds{instance="a"}', values: "0 3600x10"}
      - {series: 'permission_ledger_decisions_total{decision="timeout"}', values: "0+1x70"}
      - {series: 'permission_ledger_decisions_total{decision="user_allow"}', values: "0+9x70"}
    alert_rule_test:
      - eval_time: 5m
        alertname: PermissionLedgerGatewayDown
        exp_alerts:
          - exp_labels: {severity: critical, job: permission-ledger, instance: a}
            exp_annotations:
              summary: Gateway a does not answer.
              action: Agents at this gateway wait or are refused. Look at its log, and at `permission-ledger doctor`.
      - eval_time: 6m
        alertname: PermissionLedgerProjectorBehind
        exp_alerts:
          - exp_labels: {severity: warning}
            exp_annotations:
              summary: The views lack 5000 events.
              action: Start a projector, or look at the one that runs. Decisions are right without the views.
      - eval_time: 10m
        alertname: PermissionLedgerOldestWaits
        exp_alerts: []
      - eval_time: 12m
        alertname: PermissionLedgerOldestWaits
        exp_alerts:
          - exp_labels: {severity: warning}
            exp_annotations:
              summary: A request has waited for a person for 1h 12m 0s.
              action: "`permission-ledger pending` lists what waits. Answer it, or notify more people."
      - eval_time: 5m
        alertname: PermissionLedgerClockSetBack
        exp_alerts:
          - exp_labels: {severity: warning}
            exp_annotations:
              summary: The server's clock was set back by 1h 0m 0s.
              action: Set it right by NTP. Until it has caught up, deadlines and the ends of grants come that much later.
      - eval_time: 70m
        alertname: PermissionLedgerFrozen
        exp_alerts: []
      - eval_time: 70m
        alertname: PermissionLedgerRequestsExpire
        exp_alerts: []
"""


def test_prometheus_takes_the_alerts_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    checker = promtool()
    queries = {
        "groups": [
            {
                "name": "dashboard",
                "rules": [
                    {"record": f"query:{number}", "expr": text.replace("$__rate_interval", "5m")}
                    for number, text in enumerate(expressions())
                ],
            }
        ]
    }
    (tmp_path / "dashboard.yaml").write_text(json.dumps(queries))
    for file in (ALERTS, tmp_path / "dashboard.yaml"):
        checked = subprocess.run([checker, "check", "rules", file], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_alerts_fire_for_what_they_name_and_not_otherwise(tmp_path: Path) -> None:
    checker = promtool()
    (tmp_path / "alerts.yaml").write_bytes(ALERTS.read_bytes())
    (tmp_path / "cases.yaml").write_text(CASES)
    ran = subprocess.run(
        [checker, "test", "rules", "cases.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
