"""The grants of a yes: their patterns and their scope. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.core.events import Scope
from ledger.core.policy import ReplyKind
from ledger.policy.dialects import dialect_of
from ledger.session.state import Request, SessionState


class WantedGrants(NamedTuple):
    """The grants to make; `scope` is where they are recorded, None where the answer makes none."""

    patterns: tuple[str, ...] = ()
    scope: Scope | None = None


_NO_GRANTS: Final[WantedGrants] = WantedGrants()


def wanted_grants(
    state: SessionState, request: Request, reply: ReplyKind, edited: tuple[str, ...] | None = None
) -> WantedGrants:
    """Return the patterns that an answer would grant, including those already granted; `edited` replace the offered."""
    wanted = request.always if edited is None else edited
    patterns = tuple(dict.fromkeys(wanted)) if reply in ("session", "always") else ()
    if not patterns:
        return _NO_GRANTS
    scope = always_scope(state) if reply == "always" else "session"
    return WantedGrants(patterns, "project" if scope == "project" and state.project is not None else "session")


def always_scope(state: SessionState) -> Scope:
    """Return the scope of an `always` by the dialect of the session's rules."""
    return dialect_of(state.language).answers.always_scope
