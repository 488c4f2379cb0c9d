"""The policy of a sub-agent's session, never looser than its dialect derives it from the parent's. Pure.

OpenCode defines the derivation: a child inherits the denies of the parent's session and its rules for
`external_directory`; `todowrite` and `task` are denied to a sub-agent that has no rule for them. In the other dialects,
which define none, the child inherits the parent's ask and deny rules. The result is stored in the child's own stream,
so replay reads no other stream.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.core.errors import InputError
from ledger.core.policy import Layer, PolicySource, Verdict, demand_rules
from ledger.policy.opencode import OpenCodePolicy, child_rules
from ledger.policy.opencode.layers import INHERITED

OPENCODE: Final = "opencode"
FAITHFUL: Final = "faithful"


def child_source(
    parent: PolicySource, own: PolicySource | None, agent: str | None, *, denies_alone: bool = False
) -> PolicySource:
    """Return the policy of a child: its `own` rules, else its parent's configuration, with the rules it inherits.

    Layers that both have are judged for the child by the child's agent. With `denies_alone` the parent's allow rules
    for `external_directory` are not inherited, so nothing is looser than `own`. Raises InputError when the two have
    different dialects, PolicyError for malformed rules.
    """
    found = _with_demands(_with_rules(parent, own, agent), parent)
    return replace(found, layers=tuple(_no_allows(layer) for layer in found.layers)) if denies_alone else found


def _no_allows(layer: Layer) -> Layer:
    """Return an inherited layer without its allow rules; any other layer unchanged."""
    if layer.name != INHERITED:
        return layer
    return replace(layer, rules=tuple(rule for rule in layer.rules if rule.action is not Verdict.ALLOW))


def _with_rules(parent: PolicySource, own: PolicySource | None, agent: str | None) -> PolicySource:
    source = own if own is not None else _as_parents(parent, agent)
    if source.dialect != parent.dialect:
        if not parent.layers:
            return _with_denies(source, ()) if source.dialect == OPENCODE else source
        raise InputError(
            f"the parent has rules of dialect `{parent.dialect}`, which rules of dialect `{source.dialect}` cannot hold; "
            f"give the child rules of `{parent.dialect}`, or none"
        )
    own_layers = tuple(layer for layer in source.layers if layer.name != INHERITED)
    source = replace(source, layers=own_layers, options=_no_looser(source.options, parent))
    lacking = tuple(layer for layer in parent.layers if layer not in source.layers)
    if source.dialect == OPENCODE:
        return _with_denies(source, (replace(parent, layers=lacking, options=_bare(parent.options)),))
    handed_on = tuple(replace(layer, trusted=False) for layer in lacking)
    return replace(source, layers=(*source.layers, *handed_on))


def orphan_source(own: PolicySource) -> PolicySource:
    """Return the policy of a child whose parent is no session of this ledger; the parent's rules are unknown."""
    return _with_denies(own, ()) if own.dialect == OPENCODE else own


def _as_parents(parent: PolicySource, agent: str | None) -> PolicySource:
    """Return the parent's configuration without the rules set for its session alone; `child_rules` inherits those."""
    if parent.dialect != OPENCODE:
        return parent
    options = parent.options if agent is None else {**parent.options, "agent": agent}
    return replace(parent, layers=tuple(layer for layer in parent.layers if not _is_sessions(layer)), options=options)


def _no_looser(options: dict[str, Any], parent: PolicySource) -> dict[str, Any]:
    """Return options that are no looser than the parent's.

    A child of a hardened parent is judged hardened, and its grants lift no deny that the parent's grants cannot lift.
    """
    if parent.options.get("profile") != FAITHFUL and options.get("profile") == FAITHFUL:
        options = {name: value for name, value in options.items() if name not in ("profile", "compat")}
    if parent.dialect == OPENCODE and OpenCodePolicy(parent).compat == "v2":
        options = {**options, "compat": "v2"} if options.get("profile") == FAITHFUL or "compat" in options else options
    return options


def _is_sessions(layer: Layer) -> bool:
    return layer.config is None


def _with_denies(source: PolicySource, parents: tuple[PolicySource, ...]) -> PolicySource:
    of_parent = tuple(rule for parent in parents for rule in OpenCodePolicy(parent).rules)
    rules = child_rules(of_parent, OpenCodePolicy(source).rules)
    return replace(source, layers=(*source.layers, Layer(INHERITED, rules=rules))) if rules else source


def _with_demands(source: PolicySource, parent: PolicySource) -> PolicySource:
    """Return the policy with the parent's demands added to the child's own."""
    own = demand_rules(source)
    lacking = tuple(rule for rule in demand_rules(parent) if rule not in own)
    return replace(source, layers=(*source.layers, Layer(INHERITED, demands=lacking))) if lacking else source


def _bare(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options without the built-in rules, which belong to the agent and not to the session."""
    return {name: value for name, value in options.items() if name != "defaults"}
