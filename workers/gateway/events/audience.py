"""Who sees which events: as far as their token reaches, and of that what they want to see. Pure."""

from __future__ import annotations

import msgspec

from ledger.stores.port import StreamKey
from workers.gateway.events.frames import Frame
from workers.gateway.principals import Principal


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """`tree` is a session with all below it; `directory` is where a session's agent works."""

    session: str | None = None
    tree: str | None = None
    project: str | None = None
    agent: str | None = None
    directory: str | None = None


class Audience(msgspec.Struct, frozen=True):
    """Readers with the same reach who want the same. Everything of one session, where `key` names it."""

    projects: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    wanted: Wanted = Wanted()
    key: StreamKey | None = None

    @classmethod
    def of(cls, principal: Principal, wanted: Wanted) -> Audience:
        return cls(principal.projects, principal.sessions, wanted)

    def sees(self, frame: Frame) -> bool:
        if self.key is not None:
            return frame.key == self.key
        if frame.key.kind == "project":
            # What is said of a whole project is not for who is bound to sessions of it.
            reached = not self.sessions and (not self.projects or frame.key.id in self.projects)
        else:
            reached = self._reaches(frame.key.id, frame.project)
        return reached and self.wants(frame.session, frame.project, frame.lineage, frame.agents, frame.directory)

    def sees_session(
        self,
        session: str,
        project: str | None,
        lineage: tuple[str, ...],
        agents: tuple[str | None, ...],
        directory: str | None,
    ) -> bool:
        """The same of something that waits in a session."""
        if self.key is not None:
            return session == self.key.id
        return self._reaches(session, project) and self.wants(session, project, lineage, agents, directory)

    def _reaches(self, session: str, project: str | None) -> bool:
        in_project = not self.projects or (session if project is None else project) in self.projects
        return in_project and (not self.sessions or session in self.sessions)

    def wants(
        self,
        session: str | None,
        project: str | None,
        lineage: tuple[str, ...],
        agents: tuple[str | None, ...],
        directory: str | None,
    ) -> bool:
        wanted = self.wanted
        return (
            wanted.session in (None, session)
            and wanted.project in (None, project)
            and (wanted.tree is None or wanted.tree == session or wanted.tree in lineage)
            and (wanted.agent is None or wanted.agent in agents)
            and wanted.directory in (None, directory)
        )
