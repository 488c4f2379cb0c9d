"""A deny rule for a command of a table matches every spelling with the same meaning, and no other command."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.policy.check_questions import Checker
from tests.support.rows import every

ROWS = tuple((Path(__file__).parents[3] / "data/programs/denies.txt").read_text(encoding="utf-8").splitlines()[1:])


def verdict(rule: str, command: str) -> object:
    config = {"permission": {"bash": {"*": "allow", rule: "deny"}, "edit": "allow"}}
    question = {"dialect": "opencode", "profile": "hardened", "config": config, "tool": "bash", "cwd": "/repo"}
    return Checker().answer({**question, "id": 1, "home": "/home/ann", "input": {"command": command}})["verdict"]


@every("row", ROWS)
def test_a_spelling_of_what_is_denied_is_not_allowed(row: str) -> None:
    rule, _, command = row.partition(" | ")
    assert verdict(rule, command) != "allow"


@pytest.mark.parametrize(
    "row",
    [
        "kill -9 * | kill -15 123",
        "git push --force* | git push origin main",
        "git branch -D * | git branch -d x",
        "docker rm * | docker ps",
        "kubectl delete * | kubectl get pods",
        "sed -i * | sed -n 5p x",
    ],
)
def test_another_command_stays_allowed(row: str) -> None:
    rule, _, command = row.partition(" | ")
    assert verdict(rule, command) == "allow"
