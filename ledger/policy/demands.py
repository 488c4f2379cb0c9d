"""Demands on the answer to a call, as the rules that judge it state them. Pure.

A file of any dialect may hold them beside its rules, in the member `demands`: a list of
`{"permission", "pattern", "not_by"}`. They match wide, like a deny: one text of the call that fits is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ledger.policy.checks import NOWHERE, Origin, check_pattern, check_permission, shown
from ledger.policy.limits import RULE_COUNT
from ledger.policy.model import Call, Demand, DemandRule, Policy, PolicySource
from ledger.policy.shell import analyse, spellings
from ledger.policy.wildcard import match

MEMBER: Final = "demands"
NOT_BY: Final = ("asker",)

_DEMAND_MEMBERS: Final = Demand.__struct_fields__
_LINES: Final = ("command", "cmd")
_SHELLS: Final = ("bash", "shell")
_MEMBERS: Final = DemandRule.__struct_fields__


def demands_on(policy: Policy, call: Call) -> tuple[Demand, ...]:
    """Return the demands on an answer to this call, each once."""
    rules = demand_rules(policy.source)
    if not rules:
        return ()
    names = [name.casefold() for name in (call.permission, call.tool_name) if name is not None]
    named = [rule for rule in rules if any(match(name, rule.permission.casefold()) for name in names)]
    if any(rule.pattern != "*" for rule in named):
        about = _About(call)
        named = [rule for rule in named if about.fits(rule.pattern)]
    return tuple(dict.fromkeys(_bare(rule) for rule in named))


def demand_rules(source: PolicySource) -> tuple[DemandRule, ...]:
    """Return the demands of all layers, lowest first."""
    return tuple([rule for layer in source.layers for rule in layer.demands])


def read_demands(value: object, origin: Origin = NOWHERE) -> tuple[DemandRule, ...]:
    """Check the member `demands` of a configuration. Raises PolicyError with file and line."""
    if not isinstance(value, list):
        raise origin.problem(f"`{MEMBER}` must be a list of demands, not {shown(value)}", (MEMBER,))
    if len(value) > RULE_COUNT:
        raise origin.problem(f"`{MEMBER}` has {len(value)} entries; at most {RULE_COUNT} are taken", (MEMBER,))
    return tuple(_read(one, origin, (MEMBER, index)) for index, one in enumerate(value))


def demands_in(config: object, origin: Origin = NOWHERE) -> tuple[DemandRule, ...]:
    """Return the demands of a configuration; none where it has no such member. Raises PolicyError."""
    if not isinstance(config, Mapping) or MEMBER not in config:
        return ()
    return read_demands(config[MEMBER], origin)


def _read(value: Any, origin: Origin, keys: tuple[str | int, ...]) -> DemandRule:
    if not isinstance(value, Mapping):
        raise origin.problem(f"a demand is an object with `permission` and `pattern`, not {shown(value)}", keys)
    for name in value:
        if name not in _MEMBERS:
            known = ", ".join(f"`{one}`" for one in _MEMBERS)
            raise origin.problem(f"a demand has no member {shown(name)}; there are {known}", keys)
    if not any(value.get(name) is not None for name in _DEMAND_MEMBERS):
        known = " or ".join(f"`{one}`" for one in _DEMAND_MEMBERS)
        raise origin.problem(f"the demand demands nothing; say {known}", keys)
    check_permission(value.get("permission", "*"), origin, (*keys, "permission"))
    check_pattern(value.get("pattern", "*"), origin, (*keys, "pattern"))
    try:
        return msgspec.convert(value, DemandRule)
    except msgspec.ValidationError as error:
        raise origin.problem(f"the demand cannot be read: {error}", keys) from error


class _About:
    """The texts of a call: its patterns, the texts of its input, and every command that it would run, in each spelling.

    A command that cannot be known before it runs fits every pattern.
    """

    def __init__(self, call: Call) -> None:
        given = call.input if isinstance(call.input, Mapping) else {}
        lines = [given[name] for name in _LINES if isinstance(given.get(name), str)]
        if call.permission.casefold() in _SHELLS:
            lines += call.patterns
        self._texts = [*call.patterns, *(text for text in given.values() if isinstance(text, str))]
        self._is_unknown = False
        for line in dict.fromkeys(lines):
            self._read(line)

    def _read(self, line: str) -> None:
        found = analyse(line)
        self._is_unknown |= found.cut or not found.commands or any(one.name is None for one in found.commands)
        self._texts += [spelling.text for command in found.commands for spelling in spellings(command)]

    def fits(self, pattern: str) -> bool:
        return self._is_unknown or any(match(text, pattern) for text in self._texts)


def _bare(rule: DemandRule) -> Demand:
    return Demand(**{name: getattr(rule, name) for name in _DEMAND_MEMBERS})
