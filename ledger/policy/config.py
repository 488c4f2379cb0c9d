"""The `permission` part of an OpenCode configuration: checked, merged key by key, and turned into rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from ledger.core.policy import Rule, Verdict
from ledger.policy.checks import NOWHERE, RuleOrigin, check_action, check_pattern, check_permission, shown
from ledger.policy.jsonc import JsonKeys

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
