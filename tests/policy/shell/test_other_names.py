"""A deny holds for the same thing under another name."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger.core.policy import Verdict
from tests.policy.dialect_rules import FIVE, allowing, evaluated

SAME: Final = {
    "docker compose down": ("docker-compose down", "docker-compose -f a.yml down web"),
    "docker-compose down": ("docker compose down",),
    "pip install": ("uv pip install evil", "uv pip install -r a.txt"),
    "npm install": ("npm install-test",),
    "npm run deploy": ("yarn deploy", "lerna run deploy", "pnpm run deploy", "run-p lint deploy", "npm-run-all test deploy", "bun run deploy"),
    "turbo run deploy": ("turbo deploy", "turbo run web#deploy", "turbo build deploy"),
    "kill -9": ("kill -KILL 1", "kill -s 9 1", "kill -s KILL 1", "kill --signal=SIGKILL 1", "kill -n 9 1"),
    "git push origin main": ("git push origin 'refs/heads/*'", "git push origin HEAD:main"),
    "just deploy": ("just test deploy", "just --set a b deploy"),
    "chmod 777": ("chmod 0777 x", "chmod +rwx x", "chmod a=rwx x", "chmod ugo+xwr x"),
    "rake db:drop": ("rake 'db:drop[test]'", "rake db:migrate db:drop"),
}  # fmt: skip
OTHER: Final = {
    "docker compose down": ("docker ps",),
    "pip install": ("uv pip list", "pip list"),
    "npm install": ("npm test", "npm ls"),
    "npm run deploy": ("yarn build", "pnpm run lint", "run-p lint build"),
    "turbo run deploy": ("turbo build",),
    "kill -9": ("kill -TERM 1", "kill -s TERM 1", "kill 9"),
    "git push origin main": ("git push origin topic", "git push origin 'refs/tags/v1'"),
    "chmod 777": ("chmod +rx x", "chmod u+rwx x"),
    "rake db:drop": ("rake 'db:migrate[test]'",),
    "git merge": ("git merge-base main topic",),
}


def verdict(dialect: str, line: str, denied: str) -> Verdict:
    """Return what a configuration that allows everything and denies one command says about a line."""
    config: dict[str, Any] = allowing(dialect, ())
    if dialect in ("claude", "betcode"):
        config["permissions"]["deny"] = [f"Bash({denied}:*)"]
    elif dialect == "codelia":
        config["permissions"]["deny"] = [{"tool": "bash", "command": denied}]
    else:
        config["permission"]["bash"][f"{denied} *"] = "deny"
    return evaluated(dialect, line, config).verdict


@pytest.mark.parametrize("dialect", FIVE)
def test_a_deny_holds_for_another_name_of_the_same_command(dialect: str) -> None:
    for denied, lines in SAME.items():
        for line in lines:
            assert verdict(dialect, line, denied) is not Verdict.ALLOW, f"{line} under a deny for {denied}"


@pytest.mark.parametrize("dialect", FIVE)
def test_a_deny_does_not_hold_for_what_only_looks_like_it(dialect: str) -> None:
    for denied, lines in OTHER.items():
        for line in lines:
            assert verdict(dialect, line, denied) is Verdict.ALLOW, f"{line} under a deny for {denied}"
