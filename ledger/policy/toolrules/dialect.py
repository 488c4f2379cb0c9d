"""The language of BetCode and Claude Code: lists of `Tool(specifier)` rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ledger.core.policy import Call, Grant, Layer, Rule, Verdict
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
from ledger.policy.toolrules.commands import BASH, WEB_FETCH, host_of, inputs_of, normal_specifier, read_grant
from ledger.policy.toolrules.paths import SEARCHERS, exact_path, is_path_tool
from ledger.policy.toolrules.rule import SECTION, ToolRule, load_tool_rules, names_tool

TOOL_RULES: Final = Language(
    section=SECTION,
    shell=BASH,
    tools=(
        "Agent", "AskUserQuestion", "Bash", "BashOutput", "Edit", "ExitPlanMode", "Glob", "Grep", "KillShell", "LS",
        "LSP", "MultiEdit", "NotebookEdit", "NotebookRead", "Read", "Skill", "SlashCommand", "Task", "TodoRead",
        "TodoWrite", "WebFetch", "WebSearch", "Write",
    ),
    tool_kinds={
        "Bash": "shell", "Read": "read", "NotebookRead": "read", "Edit": "edit", "Write": "edit", "MultiEdit": "edit",
        "NotebookEdit": "edit", "WebFetch": "fetch", "WebSearch": "search", "Task": "task", "Agent": "task",
        "Glob": "glob", "Grep": "grep", "LS": "list", "TodoWrite": "todowrite", "TodoRead": "todoread",
        "Skill": "skill",
    },
    tool_rules=True,
    wildcards="*",
)  # fmt: skip


class ToolRuleNotation(Notation):
    """Rules are `Tool` or `Tool(specifier)`."""

    def listed(self, rules: Iterable[ToolRule]) -> tuple[ListedRule, ...]:
        return tuple(
            ListedRule(rule.tool, rule.specifier or WHOLE, rule.action, rule.ref, rule.rank, rule.final)
            for rule in rules
        )

    def config(
        self, entries: Iterable[tuple[str, str]], action: Verdict, layers: Sequence[Layer] = ()
    ) -> dict[str, Any]:
        return {SECTION: {action.value: [entry for _, entry in entries]}}

    def command_entry(self, command: str) -> str:
        return f"{BASH}({command})"

    def named(self, call: Call, texts: Sequence[str]) -> Iterator[NamedEntry]:
        tool, inputs = inputs_of(call)
        if is_path_tool(tool) and all(text.startswith("/") for text in texts):
            for entry in (exact_path(self.path_tool(tool), text) for text in texts):
                because = f"the narrowest rule, `{entry}`, covers everything below that folder"
                yield NamedEntry(tool, entry, because if tool in SEARCHERS else None)
            return
        hosts = [host_of(value) for value in inputs] if tool == WEB_FETCH else []
        if not hosts or None in hosts:
            yield every_call(tool, tool)
            return
        for host in hosts:
            entry = f"{WEB_FETCH}(domain:{host})"
            yield NamedEntry(tool, entry, f"the narrowest rule, `{entry}`, covers every page there")

    def plain_pattern(self, pattern: str) -> str:
        return normal_specifier(pattern)

    def as_wildcard(self, rule: ListedRule) -> str:
        """Return a wildcard: `git push:*` is `git push` with or without more words."""
        return normal_specifier(rule.pattern)

    def names(self, wide: ListedRule, narrow: ListedRule) -> bool:
        whole = wide.pattern == WHOLE and names_tool(wide.permission, narrow.permission)
        return whole or wide.permission == narrow.permission


class ToolRuleDialect(Dialect):
    """A dialect whose rules are `Tool` or `Tool(specifier)`."""

    language = TOOL_RULES
    notation = ToolRuleNotation()
    answers = AnswerEffects(cascade_reject="none")

    def load(
        self, path: str | Path, *, name: str = DEFAULT_LAYER, strict: bool = True, content: bytes | None = None
    ) -> Layer:
        return load_tool_rules(path, name=name, content=content)

    def known_tool(self, tool: str) -> str:
        return tool

    def read_grant(self, value: Mapping[str, Any], grant_id: str) -> Grant | None:
        return read_grant(value, grant_id)

    def denials(self, grants: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
        return ()  # a grant of these dialects may deny

    def grant_object(self, permission: str, entry: str) -> dict[str, Any]:
        name, opened, rest = entry.partition("(")
        return {"tool_name": name, "pattern": rest.removesuffix(")") if opened else None, "action": "allow"}
