"""`ask` in the dialect codelia writes what an `always` remembers, where the agent runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until

CALL = json.dumps({"command": "git push origin"})


@pytest.mark.slow
def test_an_ask_that_is_answered_with_always_adds_the_rule_to_the_file(ledger: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / ".codelia" / "config.json"
    file.parent.mkdir()
    file.write_text('{"version": 1, "permissions": {"allow": [{"tool": "read"}]}}')
    words = ("ask", "s", "--tool", "bash", "--input", CALL, "--id", "r1", "--rules", str(file), "--dialect", "codelia")
    with ledger.started(*words, "--json") as asking:
        wait_until(lambda: bool(ledger("pending", "--json").rows), "the request to wait")
        ledger("reply", "r1", "always", code=0)
        out, err = asking.communicate(timeout=60)
    assert (asking.returncode, err) == (0, "")
    assert json.loads(out)["message"] == f'remembered in `{file}`: {{"tool": "bash", "command": "git push"}}'
    assert json.loads(file.read_text()) == {
        "version": 1,
        "permissions": {"allow": [{"tool": "read"}, {"tool": "bash", "command": "git push"}]},
    }
