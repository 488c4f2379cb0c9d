"""The language of OpenCode and BRUTUS: rules of a permission and a pattern; the last matching rule decides."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ledger.core.policy import Layer, Rule, RuleRef, Verdict
from ledger.policy.dialect import DEFAULT_LAYER, Dialect, Language, Notation
from ledger.policy.loader import load_rules
from ledger.policy.matching.wildcard import wildcard_covers
from ledger.policy.opencode.requests import OTHER_PERMISSIONS, PERMISSIONS
from ledger.policy.rule_list import ListedRule
from ledger.policy.rules import permission_of

WILDCARDS: Final = Language(
    sections=frozenset({"permission", "tools", "agent"}),
    rule_files=("opencode.json", "opencode.jsonc"),
    tools=(*PERMISSIONS, *OTHER_PERMISSIONS),
    tool_kinds={
        "bash": "shell", "read": "read", "edit": "edit", "webfetch": "fetch", "websearch": "search", "task": "task",
        "glob": "glob", "grep": "grep", "list": "list", "todowrite": "todowrite", "todoread": "todoread",
        "skill": "skill",
    },
    last_match=True,
)  # fmt: skip


class WildcardNotation(Notation):
    """Rules are wildcards over permissions and texts."""

    def listed(self, rules: Iterable[Rule]) -> tuple[ListedRule, ...]:
        return tuple(_listed(rule) for rule in rules)

    def config(
        self, entries: Iterable[tuple[str, str]], action: Verdict, layers: Sequence[Layer] = ()
    ) -> dict[str, Any]:
        section: dict[str, dict[str, str]] = {}
        for permission, entry in entries:
            section.setdefault(permission, {**_whole(layers, permission)})[entry] = action.value
        return {"permission": section}

    def entry_of(self, rule: ListedRule) -> str:
        return rule.pattern

    def shown_entry(self, entry: str, action: Verdict) -> str:
        return f"`{json.dumps(entry)}: {json.dumps(action.value)}`"

    def names(self, wide: ListedRule, narrow: ListedRule) -> bool:
        return wildcard_covers(wide.permission, narrow.permission)


class WildcardDialect(Dialect):
    """A dialect whose rules are wildcards over permissions and texts."""

    language = WILDCARDS
    notation = WildcardNotation()

    def load(
        self, path: str | Path, *, name: str = DEFAULT_LAYER, strict: bool = True, content: bytes | None = None
    ) -> Layer:
        return load_rules(path, name=name, content=content)

    def permission_of(self, tool: str) -> str:
        return permission_of(tool)


def _listed(rule: Rule) -> ListedRule:
    text = f"{rule.permission} {rule.pattern} {rule.action.value}"
    return ListedRule(rule.permission, rule.pattern, rule.action, RuleRef(text, rule.layer, rule.file, rule.line))


def _whole(layers: Sequence[Layer], permission: str) -> dict[str, str]:
    """Return the single action of a permission below, as a pattern: an object in its place would drop it."""
    found: dict[str, str] = {}
    for layer in layers:
        config = layer.config if layer.trusted and isinstance(layer.config, Mapping) else {}
        for name in ("tools", "permission"):
            section = config.get(name)
            value = section.get(permission) if isinstance(section, Mapping) else None
            if isinstance(value, bool):
                value = "allow" if value else "deny"
            if value is not None:
                found = {"*": value} if isinstance(value, str) else {}
    return found
