"""The author of a request, and the sessions and projects within reach."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from ledger.access.state import Token
from ledger.core.access_events import Role
from ledger.core.errors import LedgerError
from ledger.core.events import TOLD, Actor
from ledger.core.ids import check_id
from ledger.log.inboxes import InboxReach
from ledger.session.state import SessionState

RequestChannel = Literal["gateway", "inbox", "link", "opencode"]
"""Channel of a request: a token, a browser's cookie, an answer link, or OpenCode's routes."""

OWN_CHANNELS: Final = frozenset({"gateway", "inbox", "link", "told", "local", "api", "cli"})
"""Channel names that no agent's prompt may have: a reported answer must not look like one given at the gateway."""


class ForbiddenError(LedgerError):
    """A known caller without the right to what it asks for."""

    code = "FORBIDDEN"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The reach of a token. An empty list of projects or of sessions is unbounded; where both are given, both apply.

    `own` limits the reach to sessions opened with that token, besides those that are named; None has no such limit.
    `project` is the one that such a token has claimed; `any_project` lifts that limit.
    """

    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    own: str | None = None
    project: str | None = None
    any_project: bool = True

    def covers(self, session: str, project: str | None, opened_with: str | None) -> bool:
        """Return whether a session of this project, opened with this token, is within reach.

        A session without a project is its own project.
        """
        if not InboxReach(self.projects, self.sessions).covers(session, project):
            return False
        return self.own is None or session in self.sessions or opened_with == self.own

    def covers_project(self, project: str) -> bool:
        """Return whether facts about a whole project are within reach; they never are for a token bound to sessions."""
        if self.sessions:
            return False
        return project in self.projects if self.projects else self.any_project or project == self.project


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated author of a request; no field of a request ever names its author.

    `root_id` is the token that signed in where `token_id` is a browser's. `owner` is the person for whom it acts, and
    `made_by` the person who made its token under the name of another.
    """

    name: str
    role: Role
    token_id: str | None = None
    root_id: str | None = None
    owner: str | None = None
    made_by: str | None = None
    bounds: Bounds = Bounds()
    folders: tuple[str, ...] = ()
    claims_one: bool = False
    brings_rules: bool = False
    via: RequestChannel = "gateway"

    @property
    def actor(self) -> Actor:
        kind = "agent" if self.role == "agent" else "person"
        return Actor(kind, self.name, self.via, self.token_id, self.made_by)

    @property
    def teller(self) -> Actor:
        """Return the actor of an answer that this principal did not give, but reports."""
        return msgspec.structs.replace(self.actor, via=TOLD)

    @property
    def caller(self) -> str:
        """Return the key under which quotas and limits count this principal."""
        return self.token_id or self.name

    @property
    def projects(self) -> tuple[str, ...]:
        return self.bounds.projects

    @property
    def sessions(self) -> tuple[str, ...]:
        return self.bounds.sessions

    @property
    def reach(self) -> InboxReach:
        return InboxReach(self.projects, self.sessions)

    @property
    def is_unbounded(self) -> bool:
        return not (self.projects or self.sessions)

    def require_own_name(self, what: str) -> None:
        """Raise ForbiddenError for a token under this name that somebody else made: it is no proof of the person."""
        if self.made_by is not None:
            raise ForbiddenError(
                f"`{self.made_by}` made this token under the name `{self.name}`, and {what} belongs to who proves the name: "
                "sign in at the provider, or with a token that `token create` made on the ledger's own machine",
                made_by=self.made_by,
            )

    def reaches(self, session: str, project: str | None, opened_with: str | None) -> bool:
        """Return whether this principal may see a session of this project, opened with this token."""
        return self.bounds.covers(session, project, opened_with)

    def reaches_state(self, state: SessionState) -> bool:
        return self.reaches(state.session_id, state.project, state.token_id)

    def reaches_project(self, project: str) -> bool:
        """Return whether this principal may see facts about a whole project."""
        return self.bounds.covers_project(project)

    def require_project(self, project: str) -> None:
        """Raise ForbiddenError for a project beyond reach, InputError for what is no id."""
        if not self.reaches_project(check_id(project, "project id")):
            raise ForbiddenError(f"this token has no access to project `{project}`", projects=list(self.projects))


LOCAL: Final = Principal(name="local", role="admin", brings_rules=True)
"""The caller of a gateway that was started without tokens."""


def principal_of(token: Token, via: RequestChannel = "gateway", *, claimed: str | None = None) -> Principal:
    """Return the holder of a token; `claimed` is the project to which it, or the token behind a browser's, is bound."""
    bounds = Bounds(
        projects=token.projects,
        sessions=token.sessions,
        own=token.root_id if token.is_narrow else None,
        project=claimed,
        any_project=not token.claims_one,
    )
    return Principal(
        name=token.name,
        role=token.role,
        token_id=token.token_id,
        root_id=token.root_id,
        owner=token.owner,
        made_by=token.made_by,
        bounds=bounds,
        folders=token.folders,
        claims_one=token.claims_one,
        brings_rules=token.brings_rules or token.role == "admin",
        via=via,
    )
