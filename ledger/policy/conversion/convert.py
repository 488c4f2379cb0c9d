"""Conversion of a policy to a configuration of another dialect. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.core.policy import Policy
from ledger.policy.conversion.order import reachable
from ledger.policy.conversion.outside import inside_the_project, without_guarded
from ledger.policy.conversion.paths import named_in_commands
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import dialect_of, listed_rules
from ledger.policy.neutral import ConversionChange, Neutral, Notation


class Converted(msgspec.Struct, frozen=True):
    """A configuration in the target dialect, and the changes that made it stricter."""

    config: dict[str, Any]
    changes: tuple[ConversionChange, ...]


def convert(policy: Policy, target: Dialect) -> Converted:
    """Write the rules of a policy in another dialect. Raises PolicyError for a dialect without conversion."""
    changes: list[ConversionChange] = []
    origin, notation = dialect_of(policy.source).notation(), target.notation()
    config = notation.rewrite(listed_rules(policy), origin, changes)
    if config is None:
        config = notation.write(_reachable(policy, origin, changes), changes)
    return Converted(config, tuple(dict.fromkeys(changes)))


def _reachable(policy: Policy, origin: Notation, changes: list[ConversionChange]) -> list[Neutral]:
    """Return the rules that can decide a call, for a program that guards no folder before them."""
    rules = origin.read(getattr(policy, "rules", ()), listed_rules(policy))
    if not dialect_of(policy.source).last_match:
        return reachable(named_in_commands(rules))
    return inside_the_project(reachable(without_guarded(rules, policy, changes)), policy, origin)
