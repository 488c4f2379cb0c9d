"""`ask --agent`: the section of that agent counts for this ask, with --rules or without."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import CommandLine


def test_the_section_of_the_agent_counts_for_this_ask(ledger: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "opencode.json"
    sections = {"plan": {"permission": {"bash": "deny"}}, "build": {"permission": {"bash": "allow"}}}
    file.write_text(json.dumps({"permission": {"bash": "ask"}, "agent": sections}))
    asked = ("ask", "ses_1", "bash", "make", "--no-wait")
    ledger(*asked, "--rules", str(file), "--agent", "plan", code=3)
    ledger(*asked, "--agent", "build", code=0)
    ledger(*asked, "--agent", "plan", code=3)
    ledger(*asked, "--agent", "other", code=7)
    call = ("ask", "ses_1", "--tool", "bash", "--input", '{"command": "make"}', "--no-wait")
    ledger(*call, "--agent", "build", code=0)
