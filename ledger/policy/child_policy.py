"""The policy of a sub-agent's session, never looser than its dialect derives it from the parent's. Pure.

A dialect defines the derivation; in one that defines none, the child inherits the parent's ask and deny rules. The
result is stored in the child's own stream, so replay reads no other stream.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledger.core.errors import InputError
from ledger.core.policy import Layer, PolicySource, Verdict, demand_rules
from ledger.policy.dialect import FAITHFUL, INHERITED
from ledger.policy.dialects import dialect_of


def child_source(
    parent: PolicySource, own: PolicySource | None, agent: str | None, *, denies_alone: bool = False
) -> PolicySource:
    """Return the policy of a child: its `own` rules, else its parent's configuration, with the rules it inherits.

    Layers that both have are judged for the child by the child's agent. With `denies_alone` the parent's allow rules
    for `external_directory` are not inherited, so nothing is looser than `own`. Raises InputError when the two have
    different dialects, PolicyError for malformed rules.
    """
    found = _with_demands(_with_rules(parent, own, agent), parent)
    found = replace(found, untrusted=found.untrusted or parent.untrusted)
    return replace(found, layers=tuple(_no_allows(layer) for layer in found.layers)) if denies_alone else found


def _no_allows(layer: Layer) -> Layer:
    """Return an inherited layer without its allow rules; any other layer unchanged."""
    if layer.name != INHERITED:
        return layer
    return replace(layer, rules=tuple(rule for rule in layer.rules if rule.action is not Verdict.ALLOW))


def _with_rules(parent: PolicySource, own: PolicySource | None, agent: str | None) -> PolicySource:
    dialect = dialect_of(parent)
    source = own if own is not None else dialect.children.derived(parent, agent)
    if source.dialect != parent.dialect:
        if not parent.layers:
            return orphan_source(source)
        raise InputError(
            f"the parent has rules of dialect `{parent.dialect}`, which rules of dialect `{source.dialect}` cannot hold; "
            f"give the child rules of `{parent.dialect}`, or none"
        )
    own_layers = tuple(layer for layer in source.layers if layer.name != INHERITED)
    options = dialect.children.options(_no_looser(source.options, parent), parent)
    source = replace(source, layers=own_layers, options=options)
    return dialect.children.inherited(
        source, parent, tuple(layer for layer in parent.layers if layer not in source.layers)
    )


def orphan_source(own: PolicySource) -> PolicySource:
    """Return the policy of a child whose parent is no session of this ledger; the parent's rules are unknown."""
    return dialect_of(own).children.without_parent(own)


def _no_looser(options: dict[str, Any], parent: PolicySource) -> dict[str, Any]:
    """Return options in which the child of a hardened parent is judged hardened."""
    if parent.options.get("profile") == FAITHFUL or options.get("profile") != FAITHFUL:
        return options
    return {name: value for name, value in options.items() if name not in ("profile", "compat")}


def _with_demands(source: PolicySource, parent: PolicySource) -> PolicySource:
    """Return the policy with the parent's demands added to the child's own."""
    own = demand_rules(source)
    lacking = tuple(rule for rule in demand_rules(parent) if rule not in own)
    return replace(source, layers=(*source.layers, Layer(INHERITED, demands=lacking))) if lacking else source
