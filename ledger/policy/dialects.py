"""The registry of dialects by name. A new dialect is one line here."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final

import msgspec

from ledger.core.policy import Policy, PolicySource
from ledger.policy.betcode.dialect import BetCodeDialect
from ledger.policy.brutus.dialect import BrutusDialect
from ledger.policy.checks import shown
from ledger.policy.claude.dialect import ClaudeDialect
from ledger.policy.codelia.dialect import CodeliaDialect
from ledger.policy.dialect import Dialect
from ledger.policy.errors import PolicyError
from ledger.policy.opencode.dialect import OpenCodeDialect
from ledger.policy.rule_list import ListedRule

OPENCODE: Final = OpenCodeDialect()

DEFAULT_DIALECT: Final = OPENCODE.name
"""The dialect of rules that name none."""

DIALECTS: Final[dict[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        BetCodeDialect(),
        BrutusDialect(),
        ClaudeDialect(),
        CodeliaDialect(),
        OPENCODE,
    )
}
"""The dialects by name."""


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
    return OPENCODE if source is None else DIALECTS.get(source.dialect, OPENCODE)


def listed_rules(policy: Policy) -> tuple[ListedRule, ...]:
    """Return the rules of a compiled policy, in its dialect's own order: lowest layer first."""
    return dialect_of(policy.source).listed(getattr(policy, "rules", ()))


def compile_policy(source: PolicySource) -> Policy:
    """Check a source and compile it to a policy. Raises PolicyError."""
    return dialect_named(source.dialect).compile(source)


def digest(source: PolicySource) -> str:
    """Return the lower-case hex SHA-256 of a source, which is equal after a round trip through the log.

    Options are sorted by name. The keys of a configuration are not: their order decides which rule is the last match,
    so two files that differ only in that order are different policies.
    """
    plain = {**msgspec.to_builtins(source), "options": dict(sorted(source.options.items()))}
    return sha256(json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()
