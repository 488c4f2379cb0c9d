"""People by the access tokens with their name that are in force. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.access.state import AccessState, Token
from ledger.log.inboxes import InboxReach

ANSWERING: Final = frozenset({"approver", "admin"})
"""The roles whose holders answer requests."""


class TokenHolder(msgspec.Struct, frozen=True):
    """A person by name. `tokens` are those in force that may answer; `is_known`: such a token has existed."""

    name: str
    tokens: tuple[Token, ...] = ()
    is_known: bool = False

    def token_for(self, session: str, project: str | None) -> Token | None:
        """Return the widest token with which they may answer in this session, their own before one that others made."""
        fitting = [one for one in self.tokens if _reach(one).covers(session, project)]
        return min(
            fitting,
            key=lambda one: (one.made_by is not None, len(one.sessions), len(one.projects), one.token_id),
            default=None,
        )


def person_of(state: AccessState, name: str, now_ms: int) -> TokenHolder:
    """Return the person of this name. An unused sign-in link does not count as a token."""
    named = [
        one for one in state.tokens.values() if one.name == name and one.role in ANSWERING and one.use != "sign_in"
    ]
    in_force = tuple(one for one in named if state.token(one.token_id, now_ms) is not None)
    return TokenHolder(name, in_force, is_known=bool(named))


def _reach(token: Token) -> InboxReach:
    return InboxReach(token.projects, token.sessions)
