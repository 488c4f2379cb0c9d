"""The reason of an allow, named to the asker: the rule with its place, the grant, or the person."""

from __future__ import annotations

from typing import Any

import pytest

from workers.bridges.hooks.question import decided_by

RULE = {"text": "bash git * allow", "layer": "project", "file": "opencode.json", "line": 3}


def row(rules: list[dict[str, Any]], grants: list[str], **more: Any) -> dict[str, Any]:
    parts = [{"text": "git push", "verdict": "allow", "grants": grants}]
    return {"by": "agent", "reply": None, "evaluation": {"verdict": "allow", "rules": rules, "parts": parts}, **more}


@pytest.mark.parametrize(
    ("settled", "said"),
    [
        (row([RULE], []), "rule `bash git * allow` (opencode.json:3)"),
        (row([{"text": "Bash(ls)", "layer": "gateway"}], []), "rule `Bash(ls)` (gateway)"),
        (row([{"text": "Bash(ls)"}], []), "rule `Bash(ls)`"),
        (row([], ["grn_1"]), "grant grn_1"),
        (row([RULE], ["grn_1", "grn_1"]), "rule `bash git * allow` (opencode.json:3), grant grn_1"),
        (row([], [f"grn_{number}" for number in range(5)]), "grant grn_0, grant grn_1, grant grn_2 and 2 more"),
        (row([RULE], [], by="ann", reply="once"), "ann"),
        ({"by": "agent", "evaluation": None}, "the rules"),
    ],
)
def test_what_allowed_a_call_is_named(settled: dict[str, Any], said: str) -> None:
    assert decided_by(settled) == said
