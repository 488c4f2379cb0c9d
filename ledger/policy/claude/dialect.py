"""The object of the dialect `claude`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from ledger.core.policy import Layer, Policy, PolicySource
from ledger.policy.claude.policy import OPTIONS, ClaudePolicy
from ledger.policy.toolrules.dialect import TOOL_RULES, ToolRuleDialect, ToolRuleNotation
from ledger.policy.toolrules.paths import ACCESS_RULE, access_of
from ledger.policy.toolrules.rule import load_settings, settings_files


class _Notation(ToolRuleNotation):
    def path_tool(self, tool: str) -> str:
        return ACCESS_RULE[access_of(tool)]


class ClaudeDialect(ToolRuleDialect):
    """Claude Code."""

    name = "claude"
    language = replace(
        TOOL_RULES,
        options=OPTIONS,
        members=("allow", "ask", "deny", "additionalDirectories", "defaultMode", "disableBypassPermissionsMode"),
        asks_about="whatever does more than look",
        suggested_layer="local",
    )
    notation = _Notation()

    def compile(self, source: PolicySource) -> Policy:
        return ClaudePolicy(source)

    def searched(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Path, ...]:
        return tuple(path for _, path in settings_files(project, home=home))

    def find(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Layer, ...]:
        return load_settings(project, home=home)
