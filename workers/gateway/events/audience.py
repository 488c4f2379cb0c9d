"""The filter of events per reader: the reach of the token, and the reader's own selection. Pure."""

from __future__ import annotations

import msgspec

from ledger.session.state import Request, SessionState
from ledger.stores.port import StreamKey
from workers.gateway.events.frames import Frame
from workers.gateway.principals import Bounds, Principal


class EventSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The reader's selection. `tree` is a session with its sub-agents; `directory` is the agent's working folder."""

    session: str | None = None
    tree: str | None = None
    project: str | None = None
    agent: str | None = None
    directory: str | None = None


class Audience(msgspec.Struct, frozen=True):
    """Readers with the same reach and the same selection. With `key`, everything of that one session."""

    bounds: Bounds = Bounds()
    wanted: EventSelection = EventSelection()
    key: StreamKey | None = None

    @classmethod
    def of(cls, principal: Principal, wanted: EventSelection) -> Audience:
        return cls(principal.bounds, wanted)

    def sees(self, frame: Frame) -> bool:
        if self.key is not None:
            return frame.key == self.key
        if frame.key.kind == "project":
            reached = self.bounds.covers_project(frame.key.id)
        else:
            reached = self.bounds.covers(frame.key.id, frame.project, frame.opened_with)
        return reached and self.wants(frame.session, frame.project, frame.lineage, frame.agents, frame.directory)

    def sees_state(self, state: SessionState, request: Request, lineage: tuple[str, ...]) -> bool:
        """Return whether readers see a pending request of a session."""
        if self.key is not None:
            return state.session_id == self.key.id
        agents = (state.agent, request.agent)
        reached = self.bounds.covers(state.session_id, state.project, state.token_id)
        return reached and self.wants(state.session_id, state.project, lineage, agents, state.cwd)

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
