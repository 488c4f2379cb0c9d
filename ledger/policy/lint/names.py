"""Rules with tool names that their dialect does not have, or does not use for this purpose."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.dialect import Dialect
from ledger.policy.lint.findings import LintFinding, about
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.toolrules.paths import ACCESS_RULE, access_of, is_path_tool
from ledger.policy.toolrules.rule import MCP, may_allow

ALIKE: Final = 0.7
"""The similarity, from 0 to 1, above which a name counts as a misspelling of another."""


def tool_names(dialect: Dialect, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find problems with the tool that a rule names."""
    rule = rules[index]
    yield from _never_asked(dialect, rule)
    yield from _other_paths(dialect, rules, rule)
    yield from _servers(dialect, rule)
    yield from _unknown(dialect, rule)


def _never_asked(dialect: Dialect, rule: ListedRule) -> Iterator[LintFinding]:
    asked = dialect.language.asked_as.get(rule.permission)
    if asked is None:
        return
    fix = f"write the rule for `{asked}`"
    if rule.action is Verdict.ALLOW:
        text = f"`{rule.ref.text}` never decides: the tool `{rule.permission}` asks `{asked}`"
        yield about(rule, "never-asked", "warning", text, fix)
    else:
        text = f"`{rule.ref.text}` is about the tool `{rule.permission}` alone: others that ask `{asked}` do the same to these files"
        yield about(rule, "leaky-deny", "warning", text, fix)


def _unknown(dialect: Dialect, rule: ListedRule) -> Iterator[LintFinding]:
    name, known = rule.permission, dialect.language.tools
    if name in known or "*" in name or "?" in name or name.startswith(MCP):
        return
    near = get_close_matches(name, known, n=1, cutoff=ALIKE) or [one for one in known if one.lower() == name.lower()]
    if near:
        text = f"`{rule.ref.text}` is about a tool `{name}`, which {dialect.name} does not have"
        yield about(rule, "unknown-tool", "warning", text, f"did you mean `{near[0]}`?")


def _other_paths(dialect: Dialect, rules: list[ListedRule], rule: ListedRule) -> Iterator[LintFinding]:
    """Find path rules for other tools than `Read` and `Edit`.

    Claude Code ignores them; BetCode applies them to that one tool.
    """
    name = rule.permission
    if not dialect.language.tool_rules or rule.pattern == WHOLE or not is_path_tool(name):
        return
    wanted = ACCESS_RULE[access_of(name)]
    if name == wanted:
        return
    does = "changes" if wanted == "Edit" else "reads"
    fix = f"write `{wanted}({rule.pattern})`, which is about every tool that {does} files"
    if dialect.notation.path_tool(name) == wanted:
        text = f"`{rule.ref.text}` never decides: {dialect.name} looks for paths in rules for `{wanted}` alone"
        yield about(rule, "never-asked", "warning", text, fix)
    elif rule.action is not Verdict.ALLOW and not any(_is_about_all(one, wanted, rule) for one in rules):
        text = f"`{rule.ref.text}` is about `{name}` alone: {wanted} does the same to these files"
        yield about(rule, "leaky-deny", "warning", text, fix)


def _is_about_all(other: ListedRule, wanted: str, rule: ListedRule) -> bool:
    return (other.permission, other.action) == (wanted, rule.action) and other.pattern in (WHOLE, rule.pattern)


def _servers(dialect: Dialect, rule: ListedRule) -> Iterator[LintFinding]:
    """Find rules for tools of MCP servers that match none."""
    name, allows = rule.permission, rule.action is Verdict.ALLOW
    if dialect.language.joins_server_names and name.startswith(MCP):
        text = f"`{rule.ref.text}` is about no tool of {dialect.name}, which calls the tool `t` of a server `s` `s_t`"
        yield about(rule, "unknown-tool", "warning", text, f"write `{_without_prefix(name)}`")
    elif dialect.language.tool_rules and allows and not may_allow(name):
        text = f"`{rule.ref.text}` allows nothing: an allow with `*` must name one server in full before it"
        yield about(
            rule, "never-asked", "warning", text, "write `mcp__SERVER` for each server, or each tool by its name"
        )
    elif dialect.language.tool_rules and allows and name.startswith(MCP) and rule.pattern != WHOLE:
        text = f"`{rule.ref.text}` allows nothing: an allow for a server's tool has no `(…)`"
        yield about(rule, "never-asked", "warning", text, f"write `{name}`")


def _without_prefix(name: str) -> str:
    """Return `mcp__github__x` under OpenCode's name."""
    server, _, tool = name.removeprefix(MCP).partition("__")
    return f"{server}_{tool or '*'}" if server.strip("*") else "SERVER_*"


def negation(dialect: Dialect, rule: ListedRule) -> Iterator[LintFinding]:
    """Find a `!` that was meant as an exclusion."""
    if dialect.language.last_match and rule.pattern.startswith("!"):
        text = (
            f"`{rule.pattern}` excludes nothing: `!` is an ordinary character, so it matches names that begin with it"
        )
        fix = f"write a rule for `{rule.pattern[1:]}` with the other action, below this one"
        yield about(rule, "literal-negation", "warning", text, fix)
