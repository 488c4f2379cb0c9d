"""OpenCode's rules from a configuration or a file: checked, merged key by key, turned into rules, and looked up.

Rule files of any dialect are read here; an unreadable file is an error, never a policy without rules.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ledger.core.limits import POLICY_BYTES
from ledger.core.policy import Layer, Rule, Verdict
from ledger.core.regular_files import open_regular
from ledger.policy.checks import (
    NOWHERE,
    RuleLike,
    RuleOrigin,
    as_rules,
    check_action,
    check_pattern,
    check_permission,
    shown,
)
from ledger.policy.demands import demands_in
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document, JsonKeys, JsonSyntaxError, parse
from ledger.policy.matching import match


def read_content(file: str) -> bytes:
    """Return the bytes of a regular file. Raises PolicyError for one that is missing, unreadable or too large."""
    try:
        with open_regular(file) as stream:
            content = stream.read(POLICY_BYTES + 1)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{shown(file)} cannot be read: {cause_of(error)}", file=file) from error
    if len(content) > POLICY_BYTES:
        raise PolicyError(f"{shown(file)} is larger than {POLICY_BYTES} bytes", file=file)
    return content


def read_text(file: str, content: bytes | None = None) -> str:
    """Return the text of a file, or of the `content` that was read from it already. Raises PolicyError."""
    content = read_content(file) if content is None else content
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PolicyError(f"{shown(file)} line {line}: the file is not UTF-8", file=file, line=line) from None


def parse_document(file: str, text: str, *, comments: bool) -> Document:
    """Return the value of a file, with lines. Raises PolicyError with file and line."""
    try:
        return parse(text, comments=comments)
    except JsonSyntaxError as problem:
        text = f"{shown(file)} line {problem.line}: {problem.text}"
        raise PolicyError(text, file=file, line=problem.line) from None


def is_there(path: Path) -> bool:
    """Return whether a path exists; an inaccessible one counts, so that reading it raises an error."""
    try:
        return path.exists() or path.is_symlink()
    except OSError:
        return True


def cause_of(error: OSError | ValueError) -> str:
    """Return the operating system's reason for an error."""
    return (getattr(error, "strerror", None) or str(error)).lower()


Member = TypeVar("Member")

_INDEX_MAX: Final = 2**32 - 1
_INDEX_DIGITS_MAX: Final = 10

_LEGACY_EDIT_TOOLS = frozenset({"write", "edit", "patch"})


class ConfiguredAction(NamedTuple):
    """One action and its origin."""

    action: Verdict
    origin: RuleOrigin
    keys: JsonKeys


PermissionSection = dict[str, ConfiguredAction | dict[str, ConfiguredAction]]
"""The contents of a `permission` object, in the order of its keys."""


def read_section(config: object, origin: RuleOrigin = NOWHERE, keys: JsonKeys = ()) -> PermissionSection:
    """Check a `permission` value (opencode-zh.md 9.1). Raises PolicyError, which names the key, file and line."""
    if isinstance(config, str):
        return {"*": _entry(config, "`permission`", origin, keys)}
    if not isinstance(config, Mapping):
        raise origin.problem(f"`permission` must be an action or an object, not {shown(config)}", keys)
    return {
        check_permission(permission, origin, keys): _read_key(permission, value, origin, (*keys, permission))
        for permission, value in config.items()
    }


def _read_key(
    permission: str, value: object, origin: RuleOrigin, keys: JsonKeys
) -> ConfiguredAction | dict[str, ConfiguredAction]:
    if not isinstance(value, Mapping):
        return _entry(value, f"the action of {shown(permission)}", origin, keys)
    return {
        check_pattern(pattern, origin, keys): _entry(
            action, f"the action of {shown(permission)} for {shown(pattern)}", origin, (*keys, pattern)
        )
        for pattern, action in value.items()
    }


def _entry(action: object, what: str, origin: RuleOrigin, keys: JsonKeys) -> ConfiguredAction:
    return ConfiguredAction(check_action(action, what, origin, keys), origin, keys)


def read_tools(tools: object, origin: RuleOrigin = NOWHERE, keys: JsonKeys = ()) -> PermissionSection:
    """Check the older `tools` object, from tool to true or false; `write`, `edit` and `patch` share the key `edit`."""
    if not isinstance(tools, Mapping):
        raise origin.problem(f"`tools` must be an object, not {shown(tools)}", keys)
    section: PermissionSection = {}
    for tool, enabled in tools.items():
        name = check_permission(tool, origin, keys)
        if not isinstance(enabled, bool):
            raise origin.problem(f"`tools` must say true or false for {shown(name)}", (*keys, name))
        entry = ConfiguredAction(Verdict.ALLOW if enabled else Verdict.DENY, origin, (*keys, name))
        section["edit" if name in _LEGACY_EDIT_TOOLS else name] = entry
    return section


def merge_sections(low: PermissionSection, high: PermissionSection) -> PermissionSection:
    """Merge key by key: a known key keeps its position and takes the later value, a new one is appended."""
    merged = dict(low)
    for permission, value in high.items():
        before = merged.get(permission)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[permission] = {**before, **value} if both else value  # type: ignore[dict-item]
    return merged


def section_rules(section: PermissionSection, *, home: str | None) -> tuple[Rule, ...]:
    """Return one rule for each pattern, in order (opencode-zh.md 9.2).

    While the home directory is unknown, `~/x` matches only the same spelling. A rule that restricts also matches every
    path that it would match for some home directory.
    """
    rules: list[Rule] = []
    for permission, value in _as_listed(section):
        patterns = value if isinstance(value, dict) else {"*": value}
        for pattern, (action, origin, keys) in _as_listed(patterns):
            rules += [
                Rule(permission, text, action, origin.layer, origin.file, origin.line(keys))
                for text in _expanded(pattern, home, action)
            ]
    return tuple(rules)


def _as_listed(members: Mapping[str, Member]) -> Iterator[tuple[str, Member]]:
    """Yield an object's members in the order of OpenCode's own program: keys that are integers first, ascending."""
    numbers = sorted((key for key in members if _is_array_index(key)), key=int)
    yield from ((key, members[key]) for key in numbers)
    yield from ((key, value) for key, value in members.items() if not _is_array_index(key))


def _is_array_index(key: str) -> bool:
    if len(key) > _INDEX_DIGITS_MAX or not (key.isascii() and key.isdecimal()):
        return False
    return key == str(int(key)) and int(key) < _INDEX_MAX


def _expanded(pattern: str, home: str | None, action: Verdict) -> tuple[str, ...]:
    """Expand `~`, `~/…` and `$HOME…` at the start of a pattern to the home directory."""
    if pattern == "~" or pattern.startswith("~/"):
        rest = pattern[1:]
    elif pattern.startswith("$HOME"):
        rest = pattern[len("$HOME") :]
    else:
        return (pattern,)
    if home is None:
        return (f"~{rest}",) if action is Verdict.ALLOW else (f"~{rest}", f"*{rest}")
    return ((home.rstrip("/") if rest.startswith("/") else home) + rest,)


def drop_allows(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules of an untrusted source without its allows."""
    return tuple(rule for rule in rules if rule.action is not Verdict.ALLOW)


# --- files
_SECTIONS: Final = ("tools", "permission")
_AGENT_KEYS: Final = ("agent", "mode")


def own_home() -> str | None:
    """Return the home directory of this process; None if it has none."""
    found = os.path.expanduser("~")  # noqa: PTH111 - pathlib raises where there is none
    return None if found == "~" else found


def load_rules(path: str | os.PathLike[str], *, name: str = "rules", content: bytes | None = None) -> Layer:
    """Return one layer from a `.json` or `.jsonc` file: an OpenCode configuration, or a list of rules.

    Of a configuration only the permission members are kept, so that keys of providers never reach the log.
    `name` is the layer's name, `content` what was read from the file already. Raises PolicyError with the file and, if known, the line.
    """
    file = os.fspath(path)
    document = parse_document(file, read_text(file, content), comments=file.endswith(".jsonc"))
    if isinstance(document.value, list):
        rules = as_rules(document.value, RuleOrigin(name, file, document.lines))
        return Layer(name, rules=rules, file=file)
    layer = config_layer(document, file, name)
    if not layer.config and not layer.demands:
        raise PolicyError(f"{shown(file)} has neither `permission` nor `tools`, so it sets no rule", file=file)
    return layer


def config_layer(document: Document, file: str, name: str, *, trusted: bool = True) -> Layer:
    """Return the layer of a configuration; one without rules has an empty configuration. Raises PolicyError."""
    config = _permission_parts(document.value, file)
    lines = {where: line for where, line in document.lines.items() if _concerns_permissions(where)}
    _check(config, RuleOrigin(name, file, lines))
    demands = demands_in(document.value, RuleOrigin(name, file, document.lines))
    return Layer(name, config=config, file=file, trusted=trusted, lines=lines, demands=demands)


def _permission_parts(config: Any, file: str) -> dict[str, Any]:
    if not isinstance(config, dict):
        raise PolicyError(f"{shown(file)} must hold an object with `permission`, or a list of rules", file=file)
    kept = {key: config[key] for key in _SECTIONS if key in config}
    for key in _AGENT_KEYS:
        if isinstance(agents := config.get(key), dict):
            sections = {agent: _permission_members(section) for agent, section in agents.items()}
            kept |= {key: sections} if any(sections.values()) else {}
    return kept


def _permission_members(section: Any) -> Any:
    return {key: section[key] for key in _SECTIONS if key in section} if isinstance(section, dict) else section


def _concerns_permissions(where: str) -> bool:
    keys = where.split("/")[1:]
    if keys[:1] in (["agent"], ["mode"]):
        keys = keys[2:]
    return keys[:1] in (["permission"], ["tools"])


def _check(config: Mapping[str, Any], origin: RuleOrigin, keys: tuple[str, ...] = ()) -> None:
    """Check a configuration while its file and lines are known; the check does not need the home directory."""
    if "permission" in config:
        read_section(config["permission"], origin, (*keys, "permission"))
    if "tools" in config:
        read_tools(config["tools"], origin, (*keys, "tools"))
    for key in _AGENT_KEYS:
        for agent, section in config.get(key, {}).items():
            if not isinstance(section, Mapping):
                raise origin.problem(f"the section of the agent {shown(agent)} must be an object", (key, agent))
            _check(section, origin, (*keys, key, agent))


EDIT_TOOLS: Final = frozenset({"edit", "write", "patch", "multiedit", "apply_patch"})
"""Tools that ask for the permission `edit` (opencode-zh.md 9.4)."""


def permission_of(tool: str) -> str:
    """Return the permission that a tool asks for; a tool of an MCP server or a plugin asks by its own name."""
    return "edit" if tool in EDIT_TOOLS else tool


def from_config(config: Any, *, home: str | None = None) -> tuple[Rule, ...]:
    """Return the rules of a `permission` value, in the order of its keys (opencode-zh.md 9.2).

    `config` is a mapping from permission to an action or to a mapping from pattern to action; a single action applies
    to every permission. A pattern that is `~`, or begins with `~/` or `$HOME`, is below `home`, the home directory of
    the user who runs the agent; by default that of this process. Raises PolicyError, which names the key.
    """
    return section_rules(read_section(config), home=own_home() if home is None else home)


def merge(*rulesets: Collection[RuleLike]) -> tuple[Rule, ...]:
    """Concatenate rulesets; nothing is sorted or dropped (opencode-zh.md 4.4). Raises PolicyError."""
    return tuple(rule for ruleset in rulesets for rule in as_rules(ruleset))


def evaluate(permission: str, pattern: str, *rulesets: Collection[RuleLike]) -> Rule:
    """Return the last rule whose permission and pattern match, else ask (opencode-zh.md 4.1). Raises PolicyError.

    Rules are checked and compiled at every call; `compile_policy` does that once.
    """
    for rule in reversed(merge(*rulesets)):
        if match(permission, rule.permission) and match(pattern, rule.pattern):
            return rule
    return Rule(permission, "*", Verdict.ASK)


def disabled(tools: Iterable[str], ruleset: Collection[RuleLike]) -> frozenset[str]:
    """Return the tools whose last rule denies every pattern (opencode-zh.md 9.4). Raises PolicyError.

    A last rule for only some patterns leaves the tool enabled, whatever its action.
    """
    rules = as_rules(ruleset)
    return frozenset(tool for tool in tools if _is_wholly_denied(tool, rules))


def _is_wholly_denied(tool: str, rules: tuple[Rule, ...]) -> bool:
    permission = permission_of(tool)
    for rule in reversed(rules):
        if match(permission, rule.permission):
            return rule.pattern == "*" and rule.action is Verdict.DENY
    return False
