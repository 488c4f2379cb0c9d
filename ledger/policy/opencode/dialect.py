"""The object of the dialect `opencode`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ledger.core.policy import Layer, Policy, PolicySource, Rule
from ledger.policy.dialect import FAITHFUL, INHERITED, AnswerEffects, NamedEntry
from ledger.policy.loader import EDIT_TOOLS
from ledger.policy.opencode.layers import child_rules
from ledger.policy.opencode.loader import config_files, load_layers
from ledger.policy.opencode.policy import WILDCARDS, OpenCodePolicy, WildcardDialect, WildcardNotation
from ledger.policy.opencode.requests import ACTION_ONLY


class _Notation(WildcardNotation):
    def named_pattern(self, permission: str, text: str) -> NamedEntry:
        return super().named_pattern(permission, "*" if permission in ACTION_ONLY else text)


class _Answers(AnswerEffects, frozen=True):
    def corrected(self, message: str, source: PolicySource) -> str:
        if source.options.get("edition") == "opencode.md":
            return f"The user rejected permission with feedback: {message}"
        return AnswerEffects.corrected(self, message, source)


class OpenCodeDialect(WildcardDialect):
    """OpenCode (opencode.md, opencode-zh.md)."""

    name = "opencode"
    language = replace(
        WILDCARDS,
        options=("profile", "cwd", "home", "fs", "sandbox_root", "agent", "defaults", "edition", "order", "compat"),
        takes_comments=True,
        asked_as=dict.fromkeys(EDIT_TOOLS - {"edit"}, "edit"),
        joins_server_names=True,
    )
    notation = _Notation()
    answers = _Answers()

    def compile(self, source: PolicySource) -> Policy:
        return OpenCodePolicy(source)

    def searched(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Path, ...]:
        return config_files(project, environ, home=home)

    def find(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Layer, ...]:
        return load_layers(project, environ, home=home)

    def of_agent(self, source: PolicySource, agent: str | None) -> PolicySource:
        return source if agent is None else OpenCodePolicy(source).of_agent(agent).source

    def child_of(self, parent: PolicySource, agent: str | None) -> PolicySource:
        """Return the parent's configuration without the rules of its session alone, which `inheriting` hands on."""
        options = parent.options if agent is None else {**parent.options, "agent": agent}
        configured = tuple(layer for layer in parent.layers if layer.config is not None)
        return replace(parent, layers=configured, options=options)

    def child_options(self, options: dict[str, Any], parent: PolicySource) -> dict[str, Any]:
        """Return options by which a child's grants lift no deny that its parent's grants cannot lift."""
        named = options.get("profile") == FAITHFUL or "compat" in options
        return {**options, "compat": "v2"} if named and OpenCodePolicy(parent).compat == "v2" else options

    def inheriting(self, child: PolicySource, parent: PolicySource, lacking: tuple[Layer, ...]) -> PolicySource:
        # The built-in rules belong to the agent and not to the session.
        options = {name: value for name, value in parent.options.items() if name != "defaults"}
        return _with_denies(child, OpenCodePolicy(replace(parent, layers=lacking, options=options)).rules)

    def without_parent(self, child: PolicySource) -> PolicySource:
        return _with_denies(child, ())


def _with_denies(child: PolicySource, of_parent: tuple[Rule, ...]) -> PolicySource:
    rules = child_rules(of_parent, OpenCodePolicy(child).rules)
    return replace(child, layers=(*child.layers, Layer(INHERITED, rules=rules))) if rules else child
