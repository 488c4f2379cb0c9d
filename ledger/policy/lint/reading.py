"""Checks that read rules: names that no tool has, rules that others override, unknown members. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from ledger.core.policy import STRICTNESS, Layer, PolicySource, Verdict
from ledger.policy.covers import covers
from ledger.policy.dialect import WHOLE, Dialect, ListedRule
from ledger.policy.dialects import dialect_of
from ledger.policy.jsonc import JsonSyntaxError, parse, pointer
from ledger.policy.toolrules.paths import ACCESS_RULE, access_of, is_path_tool
from ledger.policy.toolrules.rule import MCP, may_allow

Severity = Literal["error", "warning", "info"]

SHOWN_COUNT: Final = 3
"""Commands and rules named in one finding; the rest are counted."""

ALIKE: Final = 0.7
"""The similarity, from 0 to 1, above which a name counts as a misspelling of another."""


class LintFinding(msgspec.Struct, frozen=True):
    """One problem. `line` is 1-based; `fix` is the advice."""

    file: str | None
    line: int | None
    code: str
    severity: Severity
    text: str
    fix: str


def about(rule: ListedRule, code: str, severity: Severity, text: str, fix: str) -> LintFinding:
    """Return a finding at the place of a rule."""
    return LintFinding(rule.ref.file, rule.ref.line, code, severity, text, fix)


def joined(texts: Sequence[str]) -> str:
    """Return the first texts in backticks, and the number of the remaining ones."""
    shown = ", ".join(f"`{text}`" for text in texts[:SHOWN_COUNT])
    more = len(texts) - SHOWN_COUNT
    return f"{shown} and {more} more" if more > 0 else shown


# --- a file
def lint_text(dialect: Dialect, text: str, file: str) -> list[LintFinding]:
    """Return the problems of a file before it is parsed as rules: invalid syntax and unknown sections."""
    try:
        document = parse(text, comments=dialect.language.takes_comments or file.endswith(".jsonc"))
    except JsonSyntaxError as problem:
        return [_syntax(text, file, problem)]
    section = dialect.language.section
    if not isinstance(document.value, dict) or section in document.value:
        return []
    return [
        LintFinding(file, document.lines.get(pointer(name)), "unknown-key", "warning",
            f"`{name}` is not read by {dialect.name}, so its rules are ignored", f"rename it to `{section}`")
        for name in get_close_matches(section, document.value, n=1, cutoff=ALIKE)
    ]  # fmt: skip


def _syntax(text: str, file: str, problem: JsonSyntaxError) -> LintFinding:
    try:
        parse(text, comments=True)
    except JsonSyntaxError:
        return LintFinding(file, problem.line, "syntax", "error", problem.text, "write valid JSON")
    what = "a comma after the last member, or a comment,"
    dropped = f"{what} makes programs silently ignore this file and all its rules"
    return LintFinding(file, problem.line, "trailing-comma", "error", dropped, "take it out")


def no_rules(source: PolicySource) -> LintFinding:
    """Return the finding for a configuration without rules."""
    file = next((layer.file for layer in source.layers if layer.file), None)
    text = f"there is no rule here, so {source.dialect} decides everything by itself"
    return LintFinding(
        file, None, "no-rules", "warning", text, f"write rules under `{dialect_of(source).language.section}`"
    )


def unknown_members(dialect: Dialect, layer: Layer) -> Iterator[LintFinding]:
    """Find members beside the rules that the dialect does not read."""
    known = dialect.language.members
    section: Any = layer.config.get("permissions") if isinstance(layer.config, Mapping) else None
    if not known or not isinstance(section, Mapping):
        return
    for name in section:
        if name not in known:
            near = get_close_matches(str(name), known, n=1, cutoff=ALIKE)
            fix = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{one}`' for one in known)}"
            line = layer.lines.get(pointer("permissions", str(name)))
            text = f"`permissions` has no member `{name}`, so its content is ignored"
            yield LintFinding(layer.file, line, "unknown-key", "warning", text, fix)


def too_few_named(layer: Layer) -> Iterator[LintFinding]:
    """Find demands that name fewer people than must approve: their calls are never allowed."""
    for index, demand in enumerate(layer.demands):
        people = {name.casefold(): name for name in demand.among}
        if demand.approvers is None or not people or len(people) >= demand.approvers:
            continue
        text = (
            f"{demand.approvers} people must approve `{demand.permission}` `{demand.pattern}`, and `among` names "
            f"{len(people)} ({joined(list(people.values()))}): no such call is ever allowed"
        )
        line = layer.lines.get(f"/demands/{index}")
        yield LintFinding(layer.file, line, "too-few-approvers", "error", text, "name more people, or demand fewer")


# --- names
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


# --- order
def overridden(dialect: Dialect, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find a rule that another one always precedes: first a redundant rule, else the first rule with another action."""
    rule = rules[index]
    found = [
        other
        for place, other in enumerate(rules)
        if place != index and decides_before(dialect, rules, place, index) and _surely_covers(dialect, other, rule)
    ]
    same = next((one for one in found if one.action is rule.action and is_redundant(dialect, rule, one)), None)
    other = next((one for one in found if one.action is not rule.action), None)
    if same is not None:
        text = f"`{rule.ref.text}` is redundant: `{same.ref.text}` ({same.place}) says the same"
        yield about(rule, "redundant", "info", text, "remove it")
    elif other is not None:
        code = "swallowed" if other.pattern == "*" else "unreachable"
        text = f"`{rule.ref.text}` never decides: `{other.ref.text}` ({other.place}) always comes before it"
        yield about(rule, code, "warning", text, _reorder(dialect, rule, other))


def _surely_covers(dialect: Dialect, wide: ListedRule, narrow: ListedRule) -> bool:
    """Return whether `wide` surely covers `narrow`.

    A rule for a whole tool never covers a path rule, which also restricts commands and other tools.
    """
    paths = dialect.language.tool_rules and is_path_tool(narrow.permission) and narrow.pattern != WHOLE
    return not (paths and wide.pattern == WHOLE) and covers(dialect, wide, narrow)


def _reorder(dialect: Dialect, rule: ListedRule, other: ListedRule) -> str:
    """Return advice that never lifts a deny."""
    if other.action is Verdict.DENY:
        return "remove it: a deny stands above it"
    if rule.action is Verdict.DENY and dialect.language.last_match:
        return f"the last match wins: write it below `{other.ref.text}`"
    if dialect.language.last_match:
        return f"the last match wins: write it below `{other.ref.text}`, or remove it"
    return f"{other.action.value} comes before {rule.action.value}: narrow `{other.ref.text}`, or remove this rule"


def lifted(dialect: Dialect, rules: list[ListedRule], index: int) -> Iterator[LintFinding]:
    """Find allow rules that lift part of a deny."""
    rule = rules[index]
    if rule.action is not Verdict.DENY:
        return
    for place, other in enumerate(rules):
        if other.action is Verdict.ALLOW and lifts(dialect, rules, place, index):
            text = f"`{rule.ref.text}` is lifted by `{other.ref.text}` ({other.place}) for what that names"
            yield about(
                rule, "lifted-deny", "warning", text, f"{dialect.language.keeping_a_deny}, or leave it if that is meant"
            )


def decides_before(dialect: Dialect, rules: Sequence[ListedRule], one: int, other: int) -> bool:
    """Return whether the rule at `one` decides where both rules match; of two equal rules the first one does."""
    first, second = rules[one], rules[other]
    if dialect.language.last_match:
        return one > other
    decided = dialect.notation.decides_before(first, second)
    if decided is not None:
        return decided
    if first.action is second.action:
        return one < other or not _same(first, second)
    return STRICTNESS[first.action] > STRICTNESS[second.action]


def _same(first: ListedRule, second: ListedRule) -> bool:
    return (first.permission, first.pattern) == (second.permission, second.pattern)


def is_redundant(dialect: Dialect, rule: ListedRule, other: ListedRule) -> bool:
    """Return whether removing `rule` changes nothing, if `other` covers it and decides the same before it.

    A rule beside one for the whole tool does more in the hardened profile, and remains if that one is removed. A rule
    of another layer stays in force without that layer. A deny or an ask also keeps similar commands from being allowed,
    and a rule without wildcard allows options that make a command dangerous. So only an allow with a wildcard, or a
    rule that is written twice, can be redundant.
    """
    if rule.ref.layer != other.ref.layer or rule.ref.file != other.ref.file:
        return False
    if _same(rule, other):
        return rule.final is other.final
    if rule.action is not Verdict.ALLOW or other.pattern == WHOLE:
        return False
    return dialect.language.last_match or "*" in rule.pattern


def lifts(dialect: Dialect, rules: Sequence[ListedRule], allow: int, deny: int) -> bool:
    """Return whether the allow at one index makes an exception to the wider deny at the other."""
    inside = covers(dialect, rules[deny], rules[allow]) and not covers(dialect, rules[allow], rules[deny])
    return inside and decides_before(dialect, rules, allow, deny)
