"""Evaluation of commands against a policy in either profile, so that lint reports only verified problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.policy import STRICTNESS, Call, Evaluation, Layer, Policy, PolicySource, Verdict
from ledger.policy.advice import Compile
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import dialect_of
from ledger.policy.rule_list import ListedRule

PROFILES: Final = ("faithful", "hardened")


class Trial:
    """A policy that is compiled again for each profile and for single rules."""

    def __init__(self, source: PolicySource, compile_again: Compile) -> None:
        self.source, self.dialect = source, dialect_of(source)
        self.shell = self.dialect.language.shell
        self._compile = compile_again
        self._whole: dict[str, Policy] = {}

    @property
    def profile(self) -> str:
        """Return the profile of the policy."""
        profile: str = self.source.options.get("profile") or "hardened"
        return profile

    def is_command_rule(self, rule: ListedRule) -> bool:
        return rule.permission in (self.shell, "shell")

    def policy(self, profile: str) -> Policy:
        """Return the whole policy in a profile."""
        if profile not in self._whole:
            options = {**self.source.options, "profile": profile}
            self._whole[profile] = self._compile(msgspec.structs.replace(self.source, options=options))
        return self._whole[profile]

    def besides(self, configs: Sequence[Mapping[str, Any]], profile: str) -> Policy:
        """Return the whole policy with additional layers above all others."""
        options = {**self.source.options, "profile": profile}
        layers = (*self.source.layers, *(Layer(f"suggested {at}", config=one) for at, one in enumerate(configs)))
        return self._compile(msgspec.structs.replace(self.source, layers=layers, options=options))

    def with_rules(self, layer: Layer, profile: str) -> Policy:
        """Return a policy that consists of one layer. Raises PolicyError."""
        options = {**self.source.options, "profile": profile}
        options.pop("defaults", None)
        return self._compile(msgspec.structs.replace(self.source, layers=(layer,), options=options))

    def alone(self, rule: ListedRule, profile: str) -> Policy:
        """Return a policy that consists of one rule. Raises PolicyError."""
        return self.with_rules(Layer(rule.ref.layer or "rule", config=self.dialect.notation.rule_config(rule)), profile)

    def verdict(self, line: str, profile: str) -> Verdict:
        """Return the verdict of the whole policy on a command line."""
        return self.judge(self.policy(profile), line).verdict

    def judge(self, policy: Policy, line: str) -> Evaluation:
        return self.call(policy, self.shell, {"command": line})

    def call(self, policy: Policy, tool: str, value: Mapping[str, Any]) -> Evaluation:
        return policy.evaluate(Call(tool, (), tool, value))


def is_weaker(verdict: Verdict, than: Verdict) -> bool:
    return STRICTNESS[verdict] < STRICTNESS[than]


def samples(dialect: Dialect, pattern: str) -> list[str]:
    """Return harmless commands that a rule is meant for, the plainest first."""
    bare = pattern.removesuffix(":*") if dialect.language.tool_rules else pattern
    plain = bare.removesuffix("*").rstrip()
    if not plain:
        return []
    bare = plain.replace("*", "x")
    return [bare, f"{bare} x", f"{bare} --help"] if plain != pattern else [bare]
