"""The registry of dialects by name, and the policies of children and of rules that nobody vouches for.

A new dialect is one line here. The policy of a sub-agent's session is never looser than its dialect derives it from the
parent's; it is stored in the child's own stream, so replay reads no other stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.errors import InputError
from ledger.core.policy import Call, Evaluation, Grant, Layer, Part, Policy, PolicySource, Verdict, demand_rules
from ledger.policy.checks import shown
from ledger.policy.dialect import FAITHFUL, INHERITED, Dialect, ListedRule
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts
from ledger.policy.floors import floored


class UntrustedPolicy:
    """Denies what `policy` denies, and asks a person about every other call.

    No grant lifts such an ask: a rule that would have denied the call may have been removed.
    """

    compat = None
    """As in a dialect whose grants lift no deny."""

    def __init__(self, policy: Policy, reason: str) -> None:
        self._policy = policy
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        # A dialect's attributes beyond the protocol (a confirm request, its rules) are passed through.
        return getattr(self._policy, name)

    @property
    def source(self) -> PolicySource:
        return self._policy.source

    def with_facts(self, facts: FileFacts) -> UntrustedPolicy:
        """Return the same policy with other facts about files."""
        give = getattr(self._policy, "with_facts", None)
        return self if give is None else UntrustedPolicy(give(facts), self._reason)

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        found = self._policy.evaluate(call)
        if found.verdict is Verdict.DENY:
            return found
        parts = found.parts or (Part(" ".join(call.patterns) or call.permission, Verdict.ASK),)
        asked = tuple(replace(part, verdict=Verdict.ASK, rules=(), liftable=False) for part in parts)
        return replace(
            found,
            verdict=Verdict.ASK,
            parts=asked,
            rules=(),
            message=None,
            reason=self._reason,
            always=(),
            ask_first=(),
        )

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        return False

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        return self._policy.disabled(tools)


_CLASSES: Final = {
    "betcode": "ledger.policy.betcode.policy:BetCodeDialect",
    "brutus": "ledger.policy.brutus:BrutusDialect",
    "claude": "ledger.policy.claude.policy:ClaudeDialect",
    "codelia": "ledger.policy.codelia.dialect:CodeliaDialect",
    "opencode": "ledger.policy.opencode.dialect:OpenCodeDialect",
}

DEFAULT_DIALECT: Final = "opencode"
"""The dialect of rules that name none."""


class _Dialects(Mapping[str, Dialect]):
    """All dialects. Each is imported when it is looked up first: the rules of most ledgers are in one."""

    def __getitem__(self, name: str) -> Dialect:
        return _imported(_CLASSES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES


DIALECTS: Final = _Dialects()
"""The dialects by name."""


@cache
def _imported(target: str) -> Dialect:
    module, _, name = target.partition(":")
    made: Dialect = getattr(import_module(module), name)()
    return made


def dialect_named(name: str) -> Dialect:
    """Return a dialect. Raises PolicyError for an unknown name."""
    found = DIALECTS.get(name)
    if found is None:
        known = ", ".join(f"`{one}`" for one in sorted(DIALECTS))
        raise PolicyError(f"the dialect {shown(name)} is not known; known are {known}")
    return found


def dialect_of(source: PolicySource | None) -> Dialect:
    """Return the dialect of recorded rules; OpenCode's without rules.

    Also OpenCode's for a name that only newer workers know: such a session is shown, and no rules are compiled for it.
    """
    return DIALECTS[source.dialect if source is not None and source.dialect in DIALECTS else DEFAULT_DIALECT]


def listed_rules(policy: Policy) -> tuple[ListedRule, ...]:
    """Return the rules of a compiled policy, in its dialect's own order: lowest layer first."""
    return dialect_of(policy.source).notation.listed(getattr(policy, "rules", ()))


def compile_policy(source: PolicySource) -> Policy:
    """Check a source and compile it to a policy; of untrusted rules only the denies count. Raises PolicyError."""
    policy = floored(dialect_named(source.dialect).compile(source))
    return policy if source.untrusted is None else UntrustedPolicy(policy, source.untrusted)


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
    source = own if own is not None else dialect.child_of(parent, agent)
    if source.dialect != parent.dialect:
        if not parent.layers:
            return orphan_source(source)
        raise InputError(
            f"the parent has rules of dialect `{parent.dialect}`, which rules of dialect `{source.dialect}` cannot hold; "
            f"give the child rules of `{parent.dialect}`, or none"
        )
    own_layers = tuple(layer for layer in source.layers if layer.name != INHERITED)
    options = dialect.child_options(_no_looser(source.options, parent), parent)
    source = replace(source, layers=own_layers, options=options)
    return dialect.inheriting(source, parent, tuple(layer for layer in parent.layers if layer not in source.layers))


def orphan_source(own: PolicySource) -> PolicySource:
    """Return the policy of a child whose parent is no session of this ledger; the parent's rules are unknown."""
    return dialect_of(own).without_parent(own)


def _no_looser(options: dict[str, Any], parent: PolicySource) -> dict[str, Any]:
    """Return options in which the child of a hardened parent is judged hardened."""
    if parent.options.get("profile") == FAITHFUL or options.get("profile") != FAITHFUL:
        return options
    return {name: value for name, value in options.items() if name not in ("profile", "compat")}


def _with_demands(source: PolicySource, parent: PolicySource) -> PolicySource:
    own = demand_rules(source)
    lacking = tuple(rule for rule in demand_rules(parent) if rule not in own)
    return replace(source, layers=(*source.layers, Layer(INHERITED, demands=lacking))) if lacking else source
