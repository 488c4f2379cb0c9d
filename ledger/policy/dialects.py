"""The registry of dialects by name. A new dialect is added here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import msgspec

from ledger.core.policy import Policy, PolicySource
from ledger.policy.betcode import BetCodePolicy
from ledger.policy.brutus import BrutusPolicy
from ledger.policy.checks import shown
from ledger.policy.claude import ClaudePolicy
from ledger.policy.codelia import CodeliaPolicy
from ledger.policy.errors import PolicyError
from ledger.policy.opencode import OpenCodePolicy

DIALECTS: Final[Mapping[str, Callable[[PolicySource], Policy]]] = MappingProxyType(
    {
        "betcode": BetCodePolicy,
        "brutus": BrutusPolicy,
        "claude": ClaudePolicy,
        "codelia": CodeliaPolicy,
        "opencode": OpenCodePolicy,
    }
)
"""The policy class of each dialect."""


def compile_policy(source: PolicySource) -> Policy:
    """Check a source and compile it to a policy. Raises PolicyError."""
    make = DIALECTS.get(source.dialect)
    if make is None:
        known = ", ".join(f"`{name}`" for name in sorted(DIALECTS))
        raise PolicyError(f"the dialect {shown(source.dialect)} is not known; known are {known}")
    return make(source)


def digest(source: PolicySource) -> str:
    """Return the lower-case hex SHA-256 of a source, which is equal after a round trip through the log.

    Options are sorted by name. The keys of a configuration are not: their order decides which rule is the last match,
    so two files that differ only in that order are different policies.
    """
    plain = {**msgspec.to_builtins(source), "options": dict(sorted(source.options.items()))}
    return sha256(json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()
