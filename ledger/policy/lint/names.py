"""Rules with tool names that their dialect does not have, or does not use for this purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.lint.findings import LintFinding, about
from ledger.policy.opencode.names import OTHER_PERMISSIONS, PERMISSIONS
from ledger.policy.rule_list import TOOL_RULES, WHOLE, ListedRule
from ledger.policy.toolrules.names import MCP, may_allow
from ledger.policy.toolrules.pathrules import ACCESS_RULE, access_of, is_path_tool

_CLAUDE_TOOLS: Final = (
    "Agent", "AskUserQuestion", "Bash", "BashOutput", "Edit", "ExitPlanMode", "Glob", "Grep", "KillShell", "LS",
    "LSP", "MultiEdit", "NotebookEdit", "NotebookRead", "Read", "Skill", "SlashCommand", "Task", "TodoRead",
    "TodoWrite", "WebFetch", "WebSearch", "Write",
)  # fmt: skip
_CODELIA_TOOLS: Final = (
    "agents_resolve", "bash", "done", "edit", "glob_search", "grep", "read", "shell", "skill_load", "skill_search",
    "todo_read", "todo_write", "tool_output_cache", "tool_output_cache_grep", "write",
)  # fmt: skip
TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "betcode": _CLAUDE_TOOLS,
    "claude": _CLAUDE_TOOLS,
    "codelia": _CODELIA_TOOLS,
    "brutus": (*PERMISSIONS, *OTHER_PERMISSIONS),
    "opencode": (*PERMISSIONS, *OTHER_PERMISSIONS),
}
"""Tool names that a rule probably means; a similar unknown name is reported."""

ALIKE: Final = 0.7
"""The similarity, from 0 to 1, above which a name counts as a misspelling of another."""


def tool_names(dialect: str, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find problems with the tool that a rule names."""
    rule = rules[index]
    yield from _never_asked(dialect, rule)
    yield from _other_paths(dialect, rules, rule)
    yield from _servers(dialect, rule)
    yield from _unknown(dialect, rule)


def _never_asked(dialect: str, rule: ListedRule) -> Iterator[LintFinding]:
    if dialect == "opencode" and rule.permission == "write":
        text = f"`{rule.ref.text}` never decides: writing a file asks `edit`"
        yield about(rule, "never-asked", "warning", text, "write the rule for `edit`")


def _unknown(dialect: str, rule: ListedRule) -> Iterator[LintFinding]:
    name, known = rule.permission, TOOLS[dialect]
    if name in known or "*" in name or "?" in name or name.startswith(MCP):
        return
    near = get_close_matches(name, known, n=1, cutoff=ALIKE) or [one for one in known if one.lower() == name.lower()]
    if near:
        text = f"`{rule.ref.text}` is about a tool `{name}`, which {dialect} does not have"
        yield about(rule, "unknown-tool", "warning", text, f"did you mean `{near[0]}`?")


def _other_paths(dialect: str, rules: list[ListedRule], rule: ListedRule) -> Iterator[LintFinding]:
    """Find path rules for other tools than `Read` and `Edit`.

    Claude Code ignores them; BetCode applies them to that one tool.
    """
    name = rule.permission
    if dialect not in TOOL_RULES or rule.pattern == WHOLE or not is_path_tool(name):
        return
    wanted = ACCESS_RULE[access_of(name)]
    if name == wanted:
        return
    does = "changes" if wanted == "Edit" else "reads"
    fix = f"write `{wanted}({rule.pattern})`, which is about every tool that {does} files"
    if dialect == "claude":
        text = f"`{rule.ref.text}` never decides: claude looks for paths in rules for `{wanted}` alone"
        yield about(rule, "never-asked", "warning", text, fix)
    elif rule.action is not Verdict.ALLOW and not any(_is_about_all(one, wanted, rule) for one in rules):
        text = f"`{rule.ref.text}` is about `{name}` alone: {wanted} does the same to these files"
        yield about(rule, "leaky-deny", "warning", text, fix)


def _is_about_all(other: ListedRule, wanted: str, rule: ListedRule) -> bool:
    return (other.permission, other.action) == (wanted, rule.action) and other.pattern in (WHOLE, rule.pattern)


def _servers(dialect: str, rule: ListedRule) -> Iterator[LintFinding]:
    """Find rules for tools of MCP servers that match none."""
    name, allows = rule.permission, rule.action is Verdict.ALLOW
    if dialect == "opencode" and name.startswith(MCP):
        text = f"`{rule.ref.text}` is about no tool of opencode, which calls the tool `t` of a server `s` `s_t`"
        yield about(rule, "unknown-tool", "warning", text, f"write `{_without_prefix(name)}`")
    elif dialect in TOOL_RULES and allows and not may_allow(name):
        text = f"`{rule.ref.text}` allows nothing: an allow with `*` must name one server in full before it"
        yield about(
            rule, "never-asked", "warning", text, "write `mcp__SERVER` for each server, or each tool by its name"
        )
    elif dialect in TOOL_RULES and allows and name.startswith(MCP) and rule.pattern != WHOLE:
        text = f"`{rule.ref.text}` allows nothing: an allow for a server's tool has no `(…)`"
        yield about(rule, "never-asked", "warning", text, f"write `{name}`")


def _without_prefix(name: str) -> str:
    """Return `mcp__github__x` under OpenCode's name."""
    server, _, tool = name.removeprefix(MCP).partition("__")
    return f"{server}_{tool or '*'}" if server.strip("*") else "SERVER_*"


def negation(dialect: str, rule: ListedRule) -> Iterator[LintFinding]:
    """Find a `!` that was meant as an exclusion."""
    if dialect in ("opencode", "brutus") and rule.pattern.startswith("!"):
        text = (
            f"`{rule.pattern}` excludes nothing: `!` is an ordinary character, so it matches names that begin with it"
        )
        fix = f"write a rule for `{rule.pattern[1:]}` with the other action, below this one"
        yield about(rule, "literal-negation", "warning", text, fix)
