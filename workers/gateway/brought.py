"""The rules that sessions were given at this gateway, by the digests of those who gave them.

Whoever brings rules to a session asks with the digest of the rules that it means. A gateway that does not know the session
by that digest, also because it was started since, refuses the ask, and the rules are brought again; equal ones change nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ledger.core.errors import LedgerError
from ledger.session.state import SessionState

SESSIONS_COUNT: Final = 10_000


class RulesDifferError(LedgerError):
    """An ask means other rules than those that the session has."""

    code = "RULES_DIFFER"


class Brought:
    """For one gateway. The session not heard of for the longest time is forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def note(self, state: SessionState, digest: str) -> None:
        """Note by which digest the rules of a session were just brought."""
        self._known[state.session_id] = (digest, state.policy_digest)
        self._known.move_to_end(state.session_id)
        if len(self._known) > SESSIONS_COUNT:
            self._known.popitem(last=False)

    def require(self, state: SessionState, digest: str | None) -> None:
        """Raises RulesDifferError unless the session is judged by the rules of this digest."""
        if digest is not None and self._known.get(state.session_id) != (digest, state.policy_digest):
            raise RulesDifferError(
                f"session `{state.session_id}` is not known here by these rules; bring them, and ask again",
                session=state.session_id,
            )
