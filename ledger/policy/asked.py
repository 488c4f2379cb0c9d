"""The members of a `policy check` question: its configuration, its call and its grants, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from ledger.core.policy import Call, Grant, Layer, PolicySource
from ledger.policy.checks import check_filled, shown
from ledger.policy.demands import demands_in
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import DIALECTS, dialect_of
from ledger.policy.errors import PolicyError

PolicyOptions = Mapping[str, Any]
"""Members of a question by name."""

ASKED: Final = ("id", "tool", "input", "permission", "patterns")
CONFIGURED: Final = ("dialect", "config", "layers", "grants")

_LAYER_MEMBERS: Final = ("name", "config", "trusted")
INLINE: Final = "config"
"""The name of the layer made from a question's `config`."""


@cache
def option_names() -> frozenset[str]:
    """Return the names of the options of all dialects, each of which is imported for that."""
    return frozenset(name for dialect in DIALECTS.values() for name in dialect.language.options)


def source_of(asked: PolicyOptions) -> PolicySource:
    """Return the configuration of a question. Raises PolicyError, also for an unknown member."""
    known = {*ASKED, *CONFIGURED, *option_names()}
    unknown = next((name for name in asked if name not in known), None)
    if unknown is not None:
        raise PolicyError(f"a line has no member {shown(unknown)}", key=str(unknown))
    named = asked.get("dialect")
    dialect = DIALECTS.get(named) if isinstance(named, str) else None
    if dialect is None:
        names = ", ".join(f"`{name}`" for name in sorted(DIALECTS))
        said = "no dialect" if named is None else f"the unknown dialect {shown(named)}"
        raise PolicyError(f"the line has {said}; known are {names}", key="dialect")
    layers = [*_layers(asked.get("layers"))]
    config = asked.get("config")
    if config is not None:
        layers.append(config if isinstance(config, Layer) else Layer(INLINE, config=config, demands=demands_in(config)))
    if denying := dialect.denials(_listed_grants(asked)):
        layers.append(Layer("grants", rules=denying))
    options = {name: asked[name] for name in dialect.language.options if asked.get(name) is not None}
    return PolicySource(dialect.name, tuple(layers), options)


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
        dialect = _dialect(asked)
        name = dialect.known_tool(check_filled(tool, "tool"))
        given = asked.get("input")
        return Call(dialect.permission_of(name), (), name, {} if given is None else given)
    patterns = asked.get("patterns", [])
    if not isinstance(patterns, list | tuple) or not all(isinstance(text, str) for text in patterns):
        raise PolicyError(f"`patterns` must be a list of strings, not {shown(patterns)}", key="patterns")
    return Call(check_filled(permission, "permission"), tuple(patterns))


def _dialect(asked: PolicyOptions) -> Dialect:
    """Return the dialect of a question whose `source_of` succeeded; OpenCode's for one without configuration."""
    name = asked.get("dialect")
    return dialect_of(PolicySource(name) if isinstance(name, str) else None)


def grants_of(asked: PolicyOptions) -> tuple[Grant, ...]:
    """Return the grants of a question in its dialect's shape. Raises PolicyError."""
    dialect = _dialect(asked)
    return tuple(
        grant
        for index, value in enumerate(_listed_grants(asked))
        if (grant := dialect.read_grant(value, f"grant {index + 1}")) is not None
    )


def _listed_grants(asked: PolicyOptions) -> Sequence[Mapping[str, Any]]:
    grants = asked.get("grants")
    if grants is None:
        return ()
    if not isinstance(grants, list | tuple) or not all(isinstance(one, Mapping) for one in grants):
        raise PolicyError(f"`grants` must be a list of objects, not {shown(grants)}", key="grants")
    return grants
