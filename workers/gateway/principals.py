"""Who stands behind a request, and how far their word reaches."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from ledger.access import Token
from ledger.errors import LedgerError
from ledger.events import TOLD, Actor, Role
from ledger.inboxes import Reach

Channel = Literal["gateway", "inbox", "link", "opencode"]
"""How a request came, in the gateway's own word: by token, by a browser's cookie, by a link, as OpenCode's clients do."""

OWN_CHANNELS: Final = frozenset({"gateway", "inbox", "link", "told", "local", "api", "cli"})
"""Names that no prompt of an agent may have: an answer that is told must not read like one that was seen."""


class ForbiddenError(LedgerError):
    """Somebody we know asks for what they may not have."""

    code = "FORBIDDEN"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated author of a request; no field of a request ever says who it is from.

    No projects and no sessions named is all of them; where both are named, both bind.
    """

    name: str
    role: Role
    token_id: str | None = None
    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    brings_rules: bool = False
    via: Channel = "gateway"

    @property
    def actor(self) -> Actor:
        return Actor("agent" if self.role == "agent" else "person", self.name, self.via, self.token_id)

    @property
    def teller(self) -> Actor:
        """The actor of an answer that this principal did not give, and only tells of."""
        return msgspec.structs.replace(self.actor, via=TOLD)

    @property
    def caller(self) -> str:
        """Whose share of the gateway a request takes."""
        return self.token_id or self.name

    @property
    def reach(self) -> Reach:
        return Reach(self.projects, self.sessions)

    def reaches(self, session: str, project: str | None) -> bool:
        """Whether a session of this project is theirs to see. A session without a project is its own."""
        return self.reach.covers(session, project)

    def reaches_project(self, project: str) -> bool:
        """Whether what is said of a whole project is theirs to see: a token bound to sessions has no such reach."""
        return not self.sessions and (not self.projects or project in self.projects)


LOCAL: Final = Principal(name="local", role="admin", brings_rules=True)
"""Whoever reaches a gateway that was started without tokens."""


def principal_of(token: Token, via: Channel = "gateway") -> Principal:
    return Principal(
        name=token.name,
        role=token.role,
        token_id=token.token_id,
        projects=token.projects,
        sessions=token.sessions,
        brings_rules=token.brings_rules or token.role == "admin",
        via=via,
    )
