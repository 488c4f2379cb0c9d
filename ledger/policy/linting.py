"""What is wrong with rules that are otherwise well formed: those that never decide, never allow, or name nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from ledger.policy.asked import shell_tool
from ledger.policy.covering import LAST_MATCH, covers, decides_before, is_redundant, lifts
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import JsonSyntaxError, parse, pointer
from ledger.policy.listing import TOOL_RULES, WHOLE, Listed, always_config, command_entry, listed_rules, rule_config
from ledger.policy.model import Call, Evaluation, Layer, Policy, PolicySource, Verdict
from ledger.policy.opencode.names import OTHER_PERMISSIONS, PERMISSIONS
from ledger.policy.toolrules.pathrules import is_path_tool

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
    return found if rules or found else [_no_rules(policy.source)]


def _no_rules(source: PolicySource) -> Finding:
    file = next((layer.file for layer in source.layers if layer.file), None)
    section = _SECTIONS.get(source.dialect, _SECTION)
    text = f"there is no rule here, so {source.dialect} decides everything by itself"
    return Finding(file, None, "no-rules", "warning", text, f"write rules under `{section}`")


def lint_text(dialect: str, text: str, file: str) -> list[Finding]:
    """What is wrong with a file before it is read as rules: its syntax, and sections that nobody reads."""
    try:
        document = parse(text, comments=dialect == "opencode" or file.endswith(".jsonc"))
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
    """What comes before a rule always, and what says the same; the first with another action, else the first of all."""
    rule = rules[index]
    found = [
        other
        for place, other in enumerate(rules)
        if place != index and decides_before(dialect, rules, place, index) and _surely_covers(dialect, other, rule)
    ]
    same = next((one for one in found if one.action is rule.action and is_redundant(dialect, rule, one)), None)
    other = next((one for one in found if one.action is not rule.action), None)
    if same is not None:
        text = f"`{rule.ref.text}` says nothing new: `{same.ref.text}` ({same.place}) says it already"
        yield _about(rule, "redundant", "info", text, "remove it")
    elif other is not None:
        code = "swallowed" if other.pattern == "*" else "unreachable"
        text = f"`{rule.ref.text}` never decides: `{other.ref.text}` ({other.place}) always comes before it"
        yield _about(rule, code, "warning", text, _reorder(dialect, rule, other))


def _surely_covers(dialect: str, wide: Listed, narrow: Listed) -> bool:
    """A path rule of tool rules is about commands and other tools too, which a rule for the whole tool is not."""
    paths = dialect in TOOL_RULES and is_path_tool(narrow.permission) and narrow.pattern != WHOLE
    return not (paths and wide.pattern == WHOLE) and covers(dialect, wide, narrow)


def _reorder(dialect: str, rule: Listed, other: Listed) -> str:
    """Never advice that would lift a deny."""
    if other.action is Verdict.DENY:
        return "remove it: a deny stands above it"
    if rule.action is Verdict.DENY and dialect in LAST_MATCH:
        return f"the last match wins: write it below `{other.ref.text}`"
    if dialect in LAST_MATCH:
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
    try:
        policy = compile_again(_alone(source, rule))
    except PolicyError as problem:
        yield _about(rule, "not-honoured", "warning", f"hardened refuses `{rule.ref.text}`: {problem}", "correct it")
        return
    found = [_of_sample(policy, shell, sample) for sample in _samples(source.dialect, rule.pattern)]
    if found and all(one.verdict is not Verdict.ALLOW for one in found):
        reason = next((one.reason for one in found if one.reason), "no command satisfies it")
        text = f"the hardened profile asks in spite of `{rule.ref.text}`: {reason}"
        yield _about(rule, "not-honoured", "warning", text, _instead(source, rule, compile_again))


def _alone(source: PolicySource, rule: Listed) -> PolicySource:
    """A hardened policy that has one rule and nothing else."""
    options = {**source.options, "profile": "hardened"}
    options.pop("defaults", None)
    layer = Layer(rule.ref.layer or "rule", config=rule_config(source.dialect, rule))
    return msgspec.structs.replace(source, layers=(layer,), options=options)


def _instead(source: PolicySource, rule: Listed, compile_again: Compile) -> str:
    """Whole commands can be allowed where the arguments are the danger, not where the program is."""
    dialect, shell = source.dialect, shell_tool(source.dialect)
    samples = _samples(source.dialect, rule.pattern)
    entries = tuple(command_entry(dialect, shell, sample) for sample in samples)
    layer = Layer(rule.ref.layer or "rule", config=always_config(dialect, shell, entries))
    exactly = compile_again(msgspec.structs.replace(_alone(source, rule), layers=(layer,)))
    if any(_of_sample(exactly, shell, sample).verdict is Verdict.ALLOW for sample in samples):
        return "allow whole commands without `*`, or leave it to a person"
    return "leave it to a person"


def _of_sample(policy: Policy, shell: str, line: str) -> Evaluation:
    return policy.evaluate(Call(shell, (), shell, {"command": line}))


def _samples(dialect: str, pattern: str) -> list[str]:
    """Harmless commands that a rule means."""
    bare = pattern.removesuffix(":*") if dialect in TOOL_RULES else pattern
    plain = bare.removesuffix("*").rstrip()
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
