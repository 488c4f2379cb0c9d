"""Lint over rules from public settings files, each with the commands that its author plainly meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ledger.policy import Call, Layer, Policy, PolicySource, Verdict, compile_policy
from ledger.policy.lint import lint_rules
from tests.support.rows import every

FILES = json.loads(Path("tests/data/rules/public.json").read_text(encoding="utf-8"))
NAMED_LEAK = frozenset({"exact-deny", "leaky-deny", "never-asked"})


class Meant(NamedTuple):
    """One rule with commands that it was written for."""

    dialect: str
    action: str
    rule: str
    commands: list[str]

    def config(self) -> dict[str, Any]:
        if self.dialect == "claude":
            return {"permissions": {self.action: [self.rule]}}
        return {"permission": {"bash": {self.rule: self.action}}}

    def policy(self, profile: str) -> Policy:
        options = {"cwd": "/repo", "home": "/h", "profile": profile}
        return compile_policy(PolicySource(self.dialect, (Layer("project", config=self.config()),), options))

    def verdicts(self, profile: str) -> set[Verdict]:
        policy, shell = self.policy(profile), "Bash" if self.dialect == "claude" else "bash"
        return {policy.evaluate(Call(shell, (), shell, {"command": line})).verdict for line in self.commands}

    def codes(self) -> set[str]:
        return {one.code for one in lint_rules(self.policy("hardened"), compile_policy)}


def meant(action: str) -> list[Meant]:
    rules = [Meant(file["dialect"], action, rule, lines) for file in FILES for rule, lines in file[action].items()]
    return [one for one in rules if one.commands]


@every("one", meant("allow"), ids=lambda one: one.rule)
def test_lint_names_the_allows_that_hardened_never_honours_and_no_others(one: Meant) -> None:
    assert ("not-honoured" in one.codes()) is (Verdict.ALLOW not in one.verdicts("hardened"))


@every("one", meant("deny"), ids=lambda one: one.rule)
def test_lint_names_every_deny_that_a_command_it_was_meant_for_passes(one: Meant) -> None:
    if one.verdicts("faithful") | one.verdicts("hardened") != {Verdict.DENY}:
        assert one.codes() & NAMED_LEAK
