"""The digest of rules, which names them in the log. It needs no dialect."""

from __future__ import annotations

import json
from hashlib import sha256

import msgspec

from ledger.core.policy import PolicySource


def digest(source: PolicySource) -> str:
    """Return the lower-case hex SHA-256 of a source, which is equal after a round trip through the log.

    Options are sorted by name. The keys of a configuration are not: their order decides which rule is the last match,
    so two files that differ only in that order are different policies.
    """
    plain = {**msgspec.to_builtins(source), "options": dict(sorted(source.options.items()))}
    return sha256(json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()
