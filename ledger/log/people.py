"""People as the access stream knows them: by the tokens in force that bear their name. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.access.state import AccessState, Token
from ledger.log.inboxes import InboxReach

ANSWERING: Final = frozenset({"approver", "admin"})
"""The roles whose holders answer requests."""


class TokenHolder(msgspec.Struct, frozen=True):
    """A person by name. `tokens` are those in force that may answer; `is_known`: there has been one at some time."""

    name: str
    tokens: tuple[Token, ...] = ()
    is_known: bool = False

    def token_for(self, session: str, project: str | None) -> Token | None:
        """Return the token that lets them answer in this session, the widest first; None where none does."""
        fitting = [one for one in self.tokens if _reach(one).covers(session, project)]
        return min(fitting, key=lambda one: (len(one.sessions), len(one.projects), one.token_id), default=None)


def person_of(state: AccessState, name: str, now_ms: int) -> TokenHolder:
    """Return the person of this name. A sign-in link that nobody used is no token of theirs yet."""
    named = [
        one for one in state.tokens.values() if one.name == name and one.role in ANSWERING and one.use != "sign_in"
    ]
    in_force = tuple(one for one in named if state.token(one.token_id, now_ms) is not None)
    return TokenHolder(name, in_force, is_known=bool(named))


def _reach(token: Token) -> InboxReach:
    return InboxReach(token.projects, token.sessions)
