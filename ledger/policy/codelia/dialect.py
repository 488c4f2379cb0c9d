"""The object of the dialect `codelia`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ledger.core.policy import Call, Evaluation, Grant, Layer, Policy, PolicySource, Rule, Verdict
from ledger.policy.checks import check_filled
from ledger.policy.codelia.confirm import confirm_request
from ledger.policy.codelia.judge import OPTIONS
from ledger.policy.codelia.loader import CodeliaMemory, config_files, load_config, load_layers
from ledger.policy.codelia.policy import CodeliaPolicy
from ledger.policy.codelia.rule import SHELL, SKILL, CodeliaRule, Ruleset, canonical, rule_text
from ledger.policy.dialect import (
    DEFAULT_LAYER,
    WHOLE,
    AnswerEffects,
    Dialect,
    Language,
    ListedRule,
    NamedEntry,
    Notation,
    every_call,
)

_OFFERED: Final = ("reach", "wide", "always", "name", "still_asked")
"""Members that `policy remember` adds to a grant; judging ignores them."""

_BOTH: Final = " and "
"""The separator between the conditions of a rule, which matches only where all do."""


class _Notation(Notation):
    def entry_object(self, entry: str) -> Any:
        return json.loads(entry)

    def listed(self, rules: Ruleset) -> tuple[ListedRule, ...]:
        both = (*((rule, Verdict.DENY) for rule in rules.deny), *((rule, Verdict.ALLOW) for rule in rules.allow))
        return tuple(ListedRule(rule.tool, _pattern(rule), action, rule.ref) for rule, action in both)

    def config(
        self, entries: Iterable[tuple[str, str]], action: Verdict, layers: Sequence[Layer] = ()
    ) -> dict[str, Any]:
        return {"permissions": {action.value: [json.loads(entry) for _, entry in entries]}}

    def command_entry(self, command: str) -> str:
        return rule_text({"tool": SHELL, "command_glob": command})

    def family_entry(self, pattern: str) -> str:
        prefix = pattern.removesuffix(" *")
        return self.command_entry(pattern) if "*" in prefix else rule_text({"tool": SHELL, "command": prefix})

    def named_pattern(self, permission: str, text: str) -> NamedEntry:
        if permission == SKILL and text != permission:
            return NamedEntry(permission, rule_text({"tool": permission, "skill_name": text}))
        return every_call(permission, rule_text({"tool": permission}))

    def joins_conditions(self, pattern: str) -> bool:
        return _BOTH in pattern


class _Answers(AnswerEffects, frozen=True):
    def confirmation(self, call: Call, evaluation: Evaluation) -> dict[str, str]:
        """Return Codelia's confirm request (codelia.md 8)."""
        confirm = confirm_request(call.tool_name or call.permission, call.input, evaluation)
        return {"title": confirm.title, "message": confirm.message, "danger_level": confirm.danger_level}


class CodeliaDialect(Dialect):
    """Codelia (codelia.md)."""

    name = "codelia"
    language = Language(
        options=OPTIONS,
        section="permissions",
        members=("allow", "deny"),
        tools=(
            "agents_resolve", "bash", "done", "edit", "glob_search", "grep", "read", "shell", "skill_load",
            "skill_search", "todo_read", "todo_write", "tool_output_cache", "tool_output_cache_grep", "write",
        ),
        tool_kinds={
            "bash": "shell", "read": "read", "edit": "edit", "write": "edit", "glob_search": "glob", "grep": "grep",
            "todo_write": "todowrite", "todo_read": "todoread", "skill_load": "skill",
        },
        keeps_suggestions=True,
    )  # fmt: skip
    notation = _Notation()
    # codelia.md 9, `Permission denied: <reason>`
    answers = _Answers(
        cascade_reject="none", rejected="Permission denied: permission denied", with_feedback="Permission denied: {}"
    )
    memory = CodeliaMemory()

    def compile(self, source: PolicySource) -> Policy:
        return CodeliaPolicy(source)

    def load(
        self, path: str | Path, *, name: str = DEFAULT_LAYER, strict: bool = True, content: bytes | None = None
    ) -> Layer:
        return load_config(path, name=name, strict=strict, content=content)

    def searched(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Path, ...]:
        return tuple(path for _, path in config_files(project, environ, home=home))

    def find(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Layer, ...]:
        return load_layers(project, environ, home=home)

    def permission_of(self, tool: str) -> str:
        return canonical(tool)

    def read_grant(self, value: Mapping[str, Any], grant_id: str) -> Grant | None:
        tool = check_filled(value.get("tool"), "tool")
        members = {name: member for name, member in value.items() if name not in _OFFERED}
        return Grant(grant_id, canonical(tool), json.dumps(members, ensure_ascii=False))

    def denials(self, grants: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
        return ()  # a grant is a rule that allows

    def grant_object(self, permission: str, entry: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(entry)
        return found


def _pattern(rule: CodeliaRule) -> str:
    """Return the pattern of a rule with all its conditions."""
    found = [" ".join(rule.words) + " *"] if rule.words is not None else []
    found += [text for text in (rule.glob, rule.skill) if text is not None]
    return _BOTH.join(found) or WHOLE
