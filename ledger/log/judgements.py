"""The recorded evaluations of a session, judged again from its stream and its project's: no disk, no clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ledger.core.events import Asked, Reopened, Replied
from ledger.core.grants import Recorded
from ledger.log.rulesets import RecordedRules
from ledger.log.tail import nothing_folded, read_folds
from ledger.policy.consulted import ReplayedPolicies
from ledger.project import ProjectState
from ledger.session.judged_again import JudgedAgain, is_judged, judge_recorded
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.store import Store


async def judge_again(
    store: Store, session: str, version: int | None = None, policies: ReplayedPolicies | None = None
) -> AsyncIterator[JudgedAgain]:
    """Iterate over the recorded evaluations of a session, each judged again; with `version` only that event's.

    Raises StoreError, DamageError.
    """
    key = StreamKey("session", session)
    known = ReplayedPolicies() if policies is None else policies
    begin = nothing_folded(key)
    before: SessionState = begin.state
    projects: _Projects | None = None
    rules = RecordedRules(store)
    async for recorded, folded in read_folds(store, key, begin, version):
        if is_judged(recorded) and version in (None, recorded.version):
            if projects is None:
                projects = await _Projects.read(store, before.project)
            project = projects.judged_by(recorded)
            yield judge_recorded(before, recorded, project, known, await rules.of(before))
        before = folded.state


class _Projects:
    """The states of a session's project, one for each version of its stream; they share their parts."""

    def __init__(self, states: list[ProjectState]) -> None:
        self._states = states

    @classmethod
    async def read(cls, store: Store, project: str | None) -> _Projects:
        if project is None:
            return cls([])
        key = StreamKey("project", project)
        begin = nothing_folded(key)
        return cls([begin.state, *[folded.state async for _, folded in read_folds(store, key, begin)]])

    def judged_by(self, recorded: Recorded) -> ProjectState | None:
        """Return the project by which an event was judged; None where none counted, or its stream is shorter."""
        event = recorded.event
        version = event.project_version if isinstance(event, Asked | Reopened | Replied) else None
        return None if version is None or version >= len(self._states) else self._states[version]
