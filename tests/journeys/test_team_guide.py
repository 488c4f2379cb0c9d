"""A team's set-up to the letter, from an empty home; `test_second_day.py` walks it twice, after the first hour."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.journeys.newcomers import Newcomer
from tests.journeys.processes import ROOT
from tests.journeys.team import Team
from tests.support.servers import RealServer

pytestmark = pytest.mark.process


@pytest.fixture
def team(server: RealServer, tmp_path: Path) -> Team:
    return Team(Newcomer(tmp_path / "ann"), server.url)


def test_every_command_of_the_guide_runs_and_the_gateway_it_starts_is_found(team: Team) -> None:
    with team.up() as whole:
        team.walk(whole)
        assert whole.end() == 0
        assert [line for line in whole.complained if " error " in line] == []


def test_every_metric_of_the_guide_is_served(team: Team) -> None:
    page = (ROOT / "docs" / "guides" / "monitoring.md").read_text()
    named = set(re.findall(r"^- `(permission_ledger_\w+)", page, re.MULTILINE))
    assert len(named) > 10
    with team.up():
        token = team.run("token", "create", "prometheus", "--role", "auditor", code=0).out.strip()
        text = httpx.get(f"http://127.0.0.1:{team.port}/metrics", headers={"Authorization": f"Bearer {token}"}).text
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert named <= served | {f"{name}_total" for name in served}
