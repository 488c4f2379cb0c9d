"""The grants of a yes: their patterns and their scope. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.core.events import Scope
from ledger.core.policy import ReplyKind
from ledger.session.state import Request, SessionState

ALWAYS_SCOPE: Final[dict[str, Scope]] = {"brutus": "session", "betcode": "session"}
"""Dialects whose `always` is scoped to the session (`brutus.md`, Manager); elsewhere it is the project."""


class WantedGrants(NamedTuple):
    """The grants to make; `scope` is where they are recorded, None where the answer makes none."""

    patterns: tuple[str, ...] = ()
    scope: Scope | None = None


def wanted_grants(state: SessionState, request: Request, reply: ReplyKind) -> WantedGrants:
    """Return the patterns that an answer would grant, including those already granted."""
    patterns = tuple(dict.fromkeys(request.always)) if reply in ("session", "always") else ()
    if not patterns:
        return WantedGrants()
    scope = always_scope(state) if reply == "always" else "session"
    return WantedGrants(patterns, "project" if scope == "project" and state.project is not None else "session")


def always_scope(state: SessionState) -> Scope:
    return ALWAYS_SCOPE.get(state.policy.dialect if state.policy else "opencode", "project")
