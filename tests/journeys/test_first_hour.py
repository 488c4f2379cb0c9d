"""The steps of `docs/guides/first-hour.md`, from an empty home to an answer on a phone-sized page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.stores.embedded import stop
from tests.journeys.newcomers import Newcomer, phone_in_hand

pytestmark = pytest.mark.process


def test_from_an_empty_home_to_an_answer_on_a_phone(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path / "ann")
    try:
        with phone_in_hand() as phone:
            newcomer.first_hour(phone)
        settings = json.loads((newcomer.project / ".claude" / "settings.local.json").read_text())
        installed = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        call = (newcomer.project / "call.json").read_text().replace("git push origin main", "git status")
        (newcomer.project / "call.json").write_text(call.replace('"tool_use_id": "hour', '"tool_use_id": "next'))
        with newcomer.shell(f"{{ {installed}; }} < call.json") as agent:
            out, err = agent.communicate(timeout=60)
        assert '"permissionDecision": "allow"' in out, err
        newcomer.run("down", code=0)
    finally:
        newcomer.run("down")
        stop(newcomer.data)
