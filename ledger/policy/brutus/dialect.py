"""The object of the dialect `brutus`."""

from __future__ import annotations

from ledger.core.policy import Policy, PolicySource
from ledger.policy.brutus.policy import OPTIONS, BrutusPolicy
from ledger.policy.wildcard_dialect import WildcardDialect


class BrutusDialect(WildcardDialect):
    """BRUTUS (brutus.md)."""

    name = "brutus"
    options = OPTIONS
    always_scope = "session"  # brutus.md, Manager
    sorts_permissions = True
    offers_glued = False  # the program joins the `*` to the last word: `git tag*` also matches `git tagger`

    def compile(self, source: PolicySource) -> Policy:
        return BrutusPolicy(source)

    def corrected(self, message: str, source: PolicySource) -> str:
        return f"Permission rejected with feedback: {message}"  # brutus.md, errors.go
