"""What is wrong with rules that are otherwise well formed: those that never decide, never allow, or name nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from ledger.policy.asked import shell_tool
from ledger.policy.covering import covers, decides_before, lifts
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import JsonSyntaxError, parse, pointer
from ledger.policy.listing import Listed, listed_rules, rule_config
from ledger.policy.model import Call, Evaluation, Layer, Policy, PolicySource, Verdict
from ledger.policy.opencode.names import OTHER_PERMISSIONS, PERMISSIONS

Severity = Literal["error", "warning", "info"]
Compile = Callable[[PolicySource], Policy]

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
"""The names that a rule is probably about; another name is pointed out when it looks like one of them."""

_SECTIONS: Final = {"betcode": "permissions", "claude": "permissions", "codelia": "permissions"}
_SECTION: Final = "permission"
_MEMBERS: Final = {
    "betcode": ("allow", "ask", "deny", "final"),
    "claude": ("allow", "ask", "deny", "additionalDirectories", "defaultMode", "disableBypassPermissionsMode"),
    "codelia": ("allow", "deny"),
}
_ALIKE: Final = 0.7
"""How alike two names must be for one to be taken for the other, from 0 to 1."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong. `line` is 1-based; `fix` says what to do."""

    file: str | None
    line: int | None
    code: str
    severity: Severity
    text: str
    fix: str


def lint_rules(policy: Policy, compile_again: Compile) -> list[Finding]:
    """What is wrong with the rules of a compiled policy, in the order of the rules."""
    dialect = policy.source.dialect
    rules = [rule for rule in listed_rules(policy) if rule.ref.layer != "defaults"]
    found: list[Finding] = []
    for index, rule in enumerate(rules):
        found += _name(dialect, rule)
        found += _negation(dialect, rule)
        found += _overridden(dialect, rules, index)
        found += _lifted(dialect, rules, index)
        found += _not_honoured(policy.source, rule, compile_again)
    for layer in policy.source.layers:
        found += _unknown_members(dialect, layer)
    return found


def lint_text(dialect: str, text: str, file: str) -> list[Finding]:
    """What is wrong with a file before it is read as rules: its syntax, and sections that nobody reads."""
    try:
        document = parse(text, comments=file.endswith(".jsonc"))
    except JsonSyntaxError as problem:
        return [_syntax(text, file, problem)]
    section = _SECTIONS.get(dialect, _SECTION)
    if not isinstance(document.value, dict) or section in document.value:
        return []
    return [
        Finding(file, document.lines.get(pointer(name)), "unknown-key", "warning",
            f"`{name}` is not read by {dialect}, so its rules do not count", f"call it `{section}`")
        for name in get_close_matches(section, document.value, n=1, cutoff=_ALIKE)
    ]  # fmt: skip


def _syntax(text: str, file: str, problem: JsonSyntaxError) -> Finding:
    try:
        parse(text, comments=True)
    except JsonSyntaxError:
        return Finding(file, problem.line, "syntax", "error", problem.text, "write valid JSON")
    what = "a comma after the last member, or a comment,"
    dropped = f"{what} makes programs drop this file and all its rules without a word"
    return Finding(file, problem.line, "trailing-comma", "error", dropped, "take it out")


def _about(rule: Listed, code: str, severity: Severity, text: str, fix: str) -> Finding:
    return Finding(rule.ref.file, rule.ref.line, code, severity, text, fix)


def _name(dialect: str, rule: Listed) -> Iterator[Finding]:
    name = rule.permission
    if dialect == "opencode" and name == "write":
        text = f"`{rule.ref.text}` never decides: writing a file asks `edit`"
        yield _about(rule, "never-asked", "warning", text, "write the rule for `edit`")
    known = TOOLS[dialect]
    if name in known or "*" in name or "?" in name or name.startswith("mcp__"):
        return
    near = get_close_matches(name, known, n=1, cutoff=_ALIKE) or [one for one in known if one.lower() == name.lower()]
    if near:
        text = f"`{rule.ref.text}` is about a tool `{name}`, which {dialect} does not have"
        yield _about(rule, "unknown-tool", "warning", text, f"did you mean `{near[0]}`?")


def _negation(dialect: str, rule: Listed) -> Iterator[Finding]:
    if dialect in ("opencode", "brutus") and rule.pattern.startswith("!"):
        text = (
            f"`{rule.pattern}` excludes nothing: `!` is an ordinary character, so it matches names that begin with it"
        )
        fix = f"write a rule for `{rule.pattern[1:]}` with the other action, below this one"
        yield _about(rule, "literal-negation", "warning", text, fix)


def _overridden(dialect: str, rules: list[Listed], index: int) -> Iterator[Finding]:
    rule = rules[index]
    for other in (
        one for place, one in enumerate(rules) if place != index and decides_before(dialect, rules, place, index)
    ):
        if not covers(dialect, other, rule):
            continue
        if other.action is rule.action:
            text = f"`{rule.ref.text}` says nothing new: `{other.ref.text}` ({other.place}) says it already"
            yield _about(rule, "redundant", "info", text, "remove it")
        else:
            code = "swallowed" if other.pattern == "*" else "unreachable"
            text = f"`{rule.ref.text}` never decides: `{other.ref.text}` ({other.place}) always comes before it"
            yield _about(rule, code, "warning", text, _reorder(dialect, rule, other))
        return


def _reorder(dialect: str, rule: Listed, other: Listed) -> str:
    if dialect in ("opencode", "brutus"):
        return f"the last match wins: write it below `{other.ref.text}`, or remove it"
    return f"{other.action.value} comes before {rule.action.value}: narrow `{other.ref.text}`, or remove this rule"


def _lifted(dialect: str, rules: list[Listed], index: int) -> Iterator[Finding]:
    rule = rules[index]
    if rule.action is not Verdict.DENY:
        return
    for place, other in enumerate(rules):
        if other.action is Verdict.ALLOW and lifts(dialect, rules, place, index):
            text = f"`{rule.ref.text}` is lifted by `{other.ref.text}` ({other.place}) for what that names"
            fix = "mark the deny as `final`" if dialect == "betcode" else "write the deny below the allow"
            yield _about(rule, "lifted-deny", "warning", text, f"{fix}, or leave it if that is meant")


def _not_honoured(source: PolicySource, rule: Listed, compile_again: Compile) -> Iterator[Finding]:
    shell = shell_tool(source.dialect)
    if rule.action is not Verdict.ALLOW or rule.permission not in (shell, "shell") or rule.pattern == "*":
        return
    alone = msgspec.structs.replace(
        source,
        layers=(Layer(rule.ref.layer or "rule", config=rule_config(source.dialect, rule)),),
        options={**source.options, "profile": "hardened", "defaults": None},
    )
    alone.options.pop("defaults")
    try:
        policy = compile_again(alone)
    except PolicyError as problem:
        yield _about(rule, "not-honoured", "warning", f"hardened refuses `{rule.ref.text}`: {problem}", "correct it")
        return
    found = [_of_sample(policy, shell, sample) for sample in _samples(rule.pattern)]
    if found and all(one.verdict is not Verdict.ALLOW for one in found):
        reason = next((one.reason for one in found if one.reason), "no command satisfies it")
        text = f"the hardened profile asks in spite of `{rule.ref.text}`: {reason}"
        yield _about(rule, "not-honoured", "warning", text, "allow whole commands without `*`, or leave it to a person")


def _of_sample(policy: Policy, shell: str, line: str) -> Evaluation:
    return policy.evaluate(Call(shell, (), shell, {"command": line}))


def _samples(pattern: str) -> list[str]:
    """Harmless commands that a rule means."""
    plain = pattern.removesuffix(":*").removesuffix("*").rstrip()
    if not plain:
        return []
    bare = plain.replace("*", "x")
    return [bare, f"{bare} x", f"{bare} --help"] if plain != pattern else [bare]


def _unknown_members(dialect: str, layer: Layer) -> Iterator[Finding]:
    known = _MEMBERS.get(dialect)
    section: Any = layer.config.get("permissions") if isinstance(layer.config, Mapping) else None
    if known is None or not isinstance(section, Mapping):
        return
    for name in section:
        if name not in known:
            near = get_close_matches(str(name), known, n=1, cutoff=_ALIKE)
            fix = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{one}`' for one in known)}"
            line = layer.lines.get(pointer("permissions", str(name)))
            text = f"`permissions` has no member `{name}`, so what it holds does not count"
            yield Finding(layer.file, line, "unknown-key", "warning", text, fix)
