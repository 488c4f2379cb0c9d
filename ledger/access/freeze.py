"""The stream of freezes of a deployment. Pure; see `ledger.session` for the terms.

While a freeze is in force, no call is allowed or claimed within its reach: the whole ledger, or one project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError
from ledger.core.events import Actor, Event, Frozen, ReasonDetail, Unfrozen, Value
from ledger.core.freezes import Freeze, reach_of
from ledger.core.limits import FREEZES_COUNT

if TYPE_CHECKING:
    from ledger.core.grants import Recorded

FREEZE_ID: Final = "freeze"
"""The id of the stream."""

FreezesByReach: TypeAlias = "HashTrieMap[str, Freeze]"


class FreezeState(Value, kw_only=True, frozen=True):
    """The fold of the stream of freezes. `newer`: it has events that this version cannot read."""

    version: int = 0
    last_ms: int = 0
    newer: bool = False
    everything: Freeze | None = None
    projects: FreezesByReach = HashTrieMap()

    def over(self, project: str | None) -> Freeze | None:
        """Return the freeze that stops the sessions of a project (None: of no project), the widest one first."""
        if self.everything is not None or not self.projects or project is None:
            return self.everything
        return self.projects.get(reach_of(project))

    def in_force(self) -> tuple[Freeze, ...]:
        """Return the freezes in force: that of the whole ledger, then those of projects by name."""
        whole = () if self.everything is None else (self.everything,)
        return (*whole, *sorted(self.projects.values(), key=lambda one: one.project or ""))


class StartFreeze(Value, kw_only=True, frozen=True):
    """Freeze the whole ledger (`project` None) or a project; one that is frozen makes no event.

    `lost_ms` marks the repair of a freeze that the server lost: it makes no event where the stream has one since that
    time (server ms).
    """

    actor: Actor
    project: str | None = None
    reason: str | None = None
    lost_ms: int | None = None


class EndFreeze(Value, kw_only=True, frozen=True):
    """End the freeze of the whole ledger (`project` None) or of a project; none makes no event."""

    actor: Actor
    project: str | None = None
    reason: str | None = None


FreezeCommand = StartFreeze | EndFreeze


def decide_freeze(state: FreezeState, command: FreezeCommand) -> tuple[Event, ...]:
    """Return the events of a command; none when there is nothing to do. Raises InputError for too many freezes."""
    if state.newer:
        raise NewerSchemaError("the stream of freezes holds events of a newer version; upgrade this worker")
    detail = ReasonDetail(reason=command.reason) if command.reason else None
    is_frozen = _at(state, command.project) is not None
    if isinstance(command, EndFreeze):
        return (Unfrozen(project=command.project, detail=detail),) if is_frozen else ()
    if is_frozen or (command.lost_ms is not None and state.last_ms > command.lost_ms):
        return ()
    if command.project is not None and len(state.projects) >= FREEZES_COUNT:
        raise InputError(f"{FREEZES_COUNT} projects are frozen, and more are not kept apart; freeze everything instead")
    return (Frozen(project=command.project, detail=detail),)


def _at(state: FreezeState, project: str | None) -> Freeze | None:
    return state.everything if project is None else state.projects.get(reach_of(project))


def evolve_freeze(state: FreezeState, recorded: Recorded) -> FreezeState:
    """Return the state after one more event; an event of another kind only advances the version."""
    event, everything, projects = recorded.event, state.everything, state.projects
    if isinstance(event, Frozen):
        freeze = Freeze(
            by=recorded.actor.name,
            at_ms=recorded.ms,
            project=event.project,
            reason=event.detail.reason if event.detail else None,
        )
        if event.project is None:
            everything = everything or freeze
        elif freeze.reach not in projects:
            projects = projects.insert(freeze.reach, freeze)
    elif isinstance(event, Unfrozen):
        everything = None if event.project is None else everything
        projects = projects if event.project is None else projects.discard(reach_of(event.project))
    return replace(
        state,
        version=recorded.version,
        last_ms=recorded.ms,
        newer=state.newer or isinstance(event, NewerEvent),
        everything=everything,
        projects=projects,
    )
