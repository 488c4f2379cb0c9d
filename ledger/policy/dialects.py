"""The registry of dialects by name. A new dialect is one line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final

from ledger.core.policy import Policy, PolicySource
from ledger.policy.checks import shown
from ledger.policy.dialect import Dialect
from ledger.policy.errors import PolicyError
from ledger.policy.rule_list import ListedRule
from ledger.policy.untrusted import UntrustedPolicy

_CLASSES: Final = {
    "betcode": "ledger.policy.betcode.policy:BetCodeDialect",
    "brutus": "ledger.policy.brutus:BrutusDialect",
    "claude": "ledger.policy.claude.dialect:ClaudeDialect",
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
    policy = dialect_named(source.dialect).compile(source)
    return policy if source.untrusted is None else UntrustedPolicy(policy, source.untrusted)
