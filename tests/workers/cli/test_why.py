"""`why`, as typed in a shell, and the key of `watch`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import CommandLine
from tests.workers.cli.test_watch import LATER_S, opened, yes
from workers.cli.watch_screen import screen


def fill(ledger: CommandLine, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permission": {"bash": {"*": "ask"}}}, indent=2))
    asking = ("ask", "ses_1", "--project", "shop", "--rules", str(rules), "--no-wait", "--tool", "bash", "--input")
    ledger(*asking, '{"command": "npm run build"}', "--id", "old1", code=7)
    ledger("reply", "old1", "reject", "--message", "not on fridays", "--as", "bob", code=0)
    ledger(*asking, '{"command": "npm run test"}', "--id", "old2", code=7)
    ledger("reply", "old2", "once", "--as", "ann", code=0)
    ledger(*asking, '{"command": "npm run test"}', "--id", "per_now", code=7)


def test_why_tells_the_rule_the_smallest_grant_and_what_else_each_would_let_through(
    ledger: CommandLine, tmp_path: Path
) -> None:
    fill(ledger, tmp_path)
    told = ledger("why", "per_now", code=0).out.splitlines()
    assert told[1].startswith("rule `bash * ask`")
    assert "rules.json:4" in told[1]
    exact = told.index("exactly this (smallest)")
    assert told[exact + 1 : exact + 4] == [
        "  npm run test",
        "  would have answered 1 of 2 other requests of the last 30 days in shop",
        "    allowed by ann: npm run test",
    ]
    assert (
        "  would have answered 2 of 2 other requests of the last 30 days in shop; 1 of them was rejected by people"
        in told
    )
    assert "    rejected by bob: npm run build" in told
    assert '  {"permission": {"bash": {"npm run test": "allow"}}}' in told
    assert any(line.startswith("counted in the log since ") for line in told)
    row = ledger("why", "per_", "--json", code=0).row
    assert row["choices"][0]["entries"] == ["npm run test"]
    assert row["past"] | {"since": ""} == {
        "source": "log", "since": "", "days": 30, "looked_at": 2, "unknown": 0, "cut": False,
    }  # fmt: skip


def test_a_named_file_that_is_no_index_and_an_unknown_request_are_errors(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, tmp_path)
    assert "worker indexer" in ledger("why", "per_now", "--file", str(tmp_path / "none.sqlite")).err
    assert "nowhere" in ledger("why", "nowhere", code=9).err


async def test_in_watch_a_key_shows_the_reason_and_no_key_answers_over_it() -> None:
    state = await opened("git push")
    assert state.press("w", LATER_S) is None
    assert state.wants_why
    state.explain(["asked because no rule matches", *map(str, range(50))])
    shown = screen(state, 60, 20, 0).renderables
    assert "no rule matches" in str(shown[2])
    assert str(shown[-1]) == "space more  esc back to the card"
    assert [state.press(key, LATER_S) for key in "osar"] == [None] * 4
    state.press(" ", LATER_S)
    assert "no rule matches" not in " ".join(state.drawn(60, 10))
    state.press("escape", LATER_S)
    assert str(screen(state, 60, 20, 0).renderables[-1]).startswith("o allow once")
    assert yes(state, "o").reply == "once"
