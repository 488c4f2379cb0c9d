"""The members of a `policy check` question: its configuration, its call and its grants, parsed and checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ledger.core.policy import Call, Grant, Layer, PolicySource, Rule, Verdict
from ledger.policy.checks import NOWHERE, check_action, check_pattern, check_permission, shown
from ledger.policy.demands import demands_in
from ledger.policy.dialects import DIALECTS
from ledger.policy.errors import PolicyError
from ledger.policy.rules import EDIT_TOOLS
from ledger.policy.toolrules.grants import read_grant

PolicyOptions = Mapping[str, Any]
"""Members of a question by name."""

ASKED: Final = ("id", "tool", "input", "permission", "patterns")
CONFIGURED: Final = ("dialect", "config", "layers", "grants")

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "betcode": ("profile", "cwd", "home", "fs"),
    "brutus": ("profile", "cwd", "home", "fs"),
    "claude": ("profile", "cwd", "home", "fs", "mode"),
    "codelia": ("profile", "cwd", "home", "fs", "sandbox_root", "supports_confirm", "defaults", "edition"),
    "opencode": ("profile", "cwd", "home", "fs", "sandbox_root", "agent", "defaults", "edition", "order", "compat"),
}
"""Options that each dialect accepts besides its rules; all others are ignored."""

OPTION_NAMES: Final = frozenset(name for names in OPTIONS.values() for name in names)
_KNOWN: Final = frozenset((*ASKED, *CONFIGURED, *OPTION_NAMES))
_LAYER_MEMBERS: Final = ("name", "config", "trusted")
_TOOL_RULES: Final = ("betcode", "claude")
_LOWER_CASE_TOOLS: Final = EDIT_TOOLS | {
    "bash", "shell", "read", "glob", "grep", "list", "task", "webfetch", "websearch", "todowrite", "todoread", "skill",
}  # fmt: skip
OFFERED: Final = ("reach", "wide", "always", "name", "still_asked")
"""Members that `policy remember` adds to a grant; judging ignores them."""
INLINE: Final = "config"
"""The name of the layer made from a question's `config`."""


def source_of(asked: PolicyOptions) -> PolicySource:
    """Return the configuration of a question. Raises PolicyError, also for an unknown member."""
    unknown = next((name for name in asked if name not in _KNOWN), None)
    if unknown is not None:
        raise PolicyError(f"a line has no member {shown(unknown)}", key=str(unknown))
    dialect = asked.get("dialect")
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        known = ", ".join(f"`{name}`" for name in sorted(DIALECTS))
        said = "no dialect" if dialect is None else f"the unknown dialect {shown(dialect)}"
        raise PolicyError(f"the line has {said}; known are {known}", key="dialect")
    layers = [*_layers(asked.get("layers"))]
    config = asked.get("config")
    if config is not None:
        layers.append(config if isinstance(config, Layer) else Layer(INLINE, config=config, demands=demands_in(config)))
    denying = _denying(asked) if dialect not in _TOOL_RULES and dialect != "codelia" else ()
    if denying:
        layers.append(Layer("grants", rules=denying))
    options = {name: asked[name] for name in OPTIONS[dialect] if asked.get(name) is not None}
    return PolicySource(dialect, tuple(layers), options)


def _layers(value: object) -> Iterable[Layer]:
    if value is None:
        return
    if not isinstance(value, list | tuple):
        raise PolicyError(f"`layers` must be a list, not {shown(value)}", key="layers")
    for index, layer in enumerate(value):
        yield layer if isinstance(layer, Layer) else _layer(layer, index)


def _layer(value: object, index: int) -> Layer:
    if not isinstance(value, Mapping):
        raise PolicyError(f"layer {index + 1} must be an object with `name` and `config`", key="layers")
    unknown = next((name for name in value if name not in _LAYER_MEMBERS), None)
    if unknown is not None:
        raise PolicyError(f"layer {index + 1} has an unknown member {shown(unknown)}", key="layers")
    name, trusted = value.get("name"), value.get("trusted", True)
    if not isinstance(name, str) or not name:
        raise PolicyError(f"layer {index + 1} needs a `name`, not {shown(name)}", key="layers")
    if not isinstance(trusted, bool):
        raise PolicyError(f"`trusted` of layer {shown(name)} must be true or false", key="layers")
    if value.get("config") is None:
        raise PolicyError(f"layer {shown(name)} needs a `config`", key="layers")
    return Layer(name, config=value["config"], trusted=trusted, demands=demands_in(value["config"]))


def call_of(asked: PolicyOptions) -> Call:
    """Return the call of a question: a tool with its input, or a permission with patterns. Raises PolicyError."""
    tool, permission = asked.get("tool"), asked.get("permission")
    if (tool is None) == (permission is None):
        raise PolicyError("a line asks about a `tool` with `input`, or about a `permission` with `patterns`")
    if tool is not None:
        name = known_tool(asked.get("dialect"), _name(tool, "tool"))
        given = asked.get("input")
        return Call(permission_of(asked.get("dialect"), name), (), name, {} if given is None else given)
    patterns = asked.get("patterns", [])
    if not isinstance(patterns, list | tuple) or not all(isinstance(text, str) for text in patterns):
        raise PolicyError(f"`patterns` must be a list of strings, not {shown(patterns)}", key="patterns")
    return Call(_name(permission, "permission"), tuple(patterns))


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError(f"`{what}` must be a string that is not empty, not {shown(value)}", key=what)
    return value


def permission_of(dialect: object, tool: str) -> str:
    """Return the permission under which a tool's call is recorded and its grants are kept."""
    if dialect in _TOOL_RULES:
        return tool
    if dialect == "codelia":
        return "bash" if tool == "shell" else tool
    return "edit" if tool in EDIT_TOOLS else tool


def known_tool(dialect: object, tool: str) -> str:
    """Return the name that the rules use for a tool: `Bash` must not evade the rules for `bash`."""
    lower = tool.lower()
    return lower if dialect not in _TOOL_RULES and lower in _LOWER_CASE_TOOLS else tool


def shell_tool(dialect: str) -> str:
    """Return the name of the tool that runs command lines."""
    return "Bash" if dialect in _TOOL_RULES else "bash"


def grants_of(asked: PolicyOptions) -> tuple[Grant, ...]:
    """Return the grants of a question in its dialect's shape. Raises PolicyError."""
    dialect = asked.get("dialect")
    return tuple(
        grant
        for index, value in enumerate(_listed_grants(asked))
        if (grant := _grant(dialect, value, f"grant {index + 1}")) is not None
    )


def _listed_grants(asked: PolicyOptions) -> Iterable[Mapping[str, Any]]:
    grants = asked.get("grants")
    if grants is None:
        return ()
    if not isinstance(grants, list | tuple) or not all(isinstance(one, Mapping) for one in grants):
        raise PolicyError(f"`grants` must be a list of objects, not {shown(grants)}", key="grants")
    return grants


def _grant(dialect: object, value: Mapping[str, Any], grant_id: str) -> Grant | None:
    if dialect in _TOOL_RULES:
        return read_grant(value, grant_id)
    if dialect == "codelia":
        tool = _name(value.get("tool"), "tool")
        members = {name: member for name, member in value.items() if name not in OFFERED}
        return Grant(grant_id, permission_of(dialect, tool), json.dumps(members, ensure_ascii=False))
    rule = _rule_of(value)
    return Grant(grant_id, rule.permission, rule.pattern) if rule.action is Verdict.ALLOW else None


def _denying(asked: PolicyOptions) -> tuple[Rule, ...]:
    """Return the entries of `grants` that do not allow, as rules behind all others."""
    rules = (_rule_of(value) for value in _listed_grants(asked))
    return tuple(rule for rule in rules if rule.action is not Verdict.ALLOW)


def _rule_of(value: Mapping[str, Any]) -> Rule:
    keys = ("grants",)
    return Rule(
        check_permission(value.get("permission"), NOWHERE, keys),
        check_pattern(value.get("pattern", "*"), NOWHERE, keys),
        check_action(value.get("action", "allow"), "the action of a grant", NOWHERE, keys),
    )
