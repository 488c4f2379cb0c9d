"""The grants that a yes makes: which patterns, and how far they reach. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.core.events import Scope
from ledger.core.policy import ReplyKind
from ledger.session.state import Request, SessionState

ALWAYS_SCOPE: Final[dict[str, Scope]] = {"brutus": "session", "betcode": "session"}
"""What `always` reaches: the project, but where the source keeps approvals per session (`brutus.md`, Manager)."""


class WantedGrants(NamedTuple):
    """`scope` is where the grants are recorded; None where the answer makes none."""

    patterns: tuple[str, ...] = ()
    scope: Scope | None = None


def wanted_grants(state: SessionState, request: Request, reply: ReplyKind) -> WantedGrants:
    """Return the patterns that an answer would grant, also those that stand already."""
    patterns = tuple(dict.fromkeys(request.always)) if reply in ("session", "always") else ()
    if not patterns:
        return WantedGrants()
    scope = always_scope(state) if reply == "always" else "session"
    return WantedGrants(patterns, "project" if scope == "project" and state.project is not None else "session")


def always_scope(state: SessionState) -> Scope:
    return ALWAYS_SCOPE.get(state.policy.dialect if state.policy else "opencode", "project")
