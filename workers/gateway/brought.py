"""The rules that agents brought to sessions at this gateway, by the digests that the agents gave.

An agent that brings rules asks with the digest of the rules that it means. A gateway that has no such digest for the
session, for example after a restart, refuses the ask; the agent then brings its rules again. Equal rules change
nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ledger.core.errors import LedgerError
from ledger.session.state import SessionState

SESSIONS_COUNT: Final = 10_000


class RulesDifferError(LedgerError):
    """An ask that means other rules than those of its session."""

    code = "RULES_DIFFER"


class Brought:
    """The digests at one gateway. The session that was not used for the longest time is forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def note(self, state: SessionState, digest: str) -> None:
        """Store the digest of the rules that were just brought to a session."""
        self._known[state.session_id] = (digest, state.policy_digest)
        self._known.move_to_end(state.session_id)
        if len(self._known) > SESSIONS_COUNT:
            self._known.popitem(last=False)

    def require(self, state: SessionState, digest: str | None) -> None:
        """Raise RulesDifferError unless the session is judged by the rules of this digest."""
        if digest is not None and self._known.get(state.session_id) != (digest, state.policy_digest):
            raise RulesDifferError(
                f"session `{state.session_id}` is not known here by these rules; bring them, and ask again",
                session=state.session_id,
            )
