"""Rulesets as they are stored on the server, each with its rules in order."""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.core.errors import DamageError
from ledger.core.policy import PolicySource
from ledger.log.rulesets import read_ruleset
from ledger.policy.dialects import compile_policy, listed_rules
from ledger.policy.errors import PolicyError
from ledger.policy.rule_list import ListedRule
from ledger.stores.port import Store

KIND: Final = "policy"
"""The kind of the streams of rulesets."""


class StoredRuleset(NamedTuple):
    """The rules of a digest; `problem` tells why they cannot be read, and then `source` is None."""

    digest: str
    source: PolicySource | None
    rules: tuple[ListedRule, ...] = ()
    problem: str | None = None


async def read_stored_ruleset(store: Store, digest: str) -> StoredRuleset:
    """Return the ruleset of a digest, also one that is damaged, or that this version cannot read. Raises StoreError."""
    try:
        state = await read_ruleset(store, digest)
    except DamageError as error:
        return StoredRuleset(digest, None, problem=error.text)
    if state.source is None:
        return StoredRuleset(digest, None, problem=state.why_unreadable)
    try:
        return StoredRuleset(digest, state.source, listed_rules(compile_policy(state.source)), state.why_unreadable)
    except PolicyError as error:
        # Of a later version, or written by another program.
        return StoredRuleset(digest, None, problem=error.text)
