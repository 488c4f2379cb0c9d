"""The streams of freezes and of legal holds of a deployment. Pure; see `ledger.session` for the terms.

While a freeze is in force, no call is allowed or claimed within its reach: the whole ledger, or one project. While a
hold is in force, nothing within its reach is redacted.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, OnHoldError
from ledger.core.events import Actor, Event, Frozen, HoldLifted, HoldPlaced, ReasonDetail, Unfrozen, Value
from ledger.core.freezes import Freeze, reach_of
from ledger.core.grants import Recorded
from ledger.core.limits import FREEZES_COUNT, HOLDS_COUNT
from ledger.core.times import format_time

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
    known = state.everything if command.project is None else state.projects.get(reach_of(command.project))
    is_frozen = known is not None
    if isinstance(command, EndFreeze):
        return (Unfrozen(project=command.project, detail=detail),) if is_frozen else ()
    if is_frozen or (command.lost_ms is not None and state.last_ms > command.lost_ms):
        return ()
    if command.project is not None and len(state.projects) >= FREEZES_COUNT:
        raise InputError(f"{FREEZES_COUNT} projects are frozen, and more are not kept apart; freeze everything instead")
    return (Frozen(project=command.project, detail=detail),)


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


HOLDS_ID: Final = "holds"
"""The id of the stream."""


class HoldReach(Value, kw_only=True, frozen=True):
    """The reach of a hold: a session, or a project with all of its sessions. One of the two is named."""

    project: str | None = None
    session: str | None = None

    @property
    def place(self) -> str:
        """Return the reach in words."""
        return f"project `{self.project}`" if self.session is None else f"session `{self.session}`"


class LegalHold(Value, kw_only=True, frozen=True):
    """A hold in force. `by` is who placed it, `at_ms` when (server time)."""

    reach: HoldReach
    by: str
    at_ms: int
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """Return who placed it on what, when and why."""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.reach.place} is under a legal hold, placed by {self.by} at {format_time(self.at_ms)}{why}"

    def as_json(self) -> dict[str, Any]:
        """Return one JSON object, for people and programs."""
        return {
            "project": self.reach.project,
            "session": self.reach.session,
            "by": self.by,
            "at": format_time(self.at_ms),
            "reason": self.reason,
        }


class HoldState(Value, kw_only=True, frozen=True):
    """The fold of the stream of holds. `newer`: it has events that this version cannot read."""

    version: int = 0
    newer: bool = False
    holds: HashTrieMap[HoldReach, LegalHold] = HashTrieMap()

    def in_force(self) -> tuple[LegalHold, ...]:
        """Return the holds in force: those of projects by name, then those of sessions."""
        by_name = sorted(self.holds.values(), key=lambda one: one.reach.session or one.reach.project or "")
        return tuple(sorted(by_name, key=lambda one: one.reach.session is not None))


class PlaceHold(Value, kw_only=True, frozen=True):
    """Place a hold; a reach that has one keeps it and makes no event."""

    actor: Actor
    reach: HoldReach
    reason: str


class LiftHold(Value, kw_only=True, frozen=True):
    """Lift a hold; none makes no event."""

    actor: Actor
    reach: HoldReach
    reason: str | None = None


HoldCommand = PlaceHold | LiftHold


def hold_over(state: HoldState, *, session: str | None = None, project: str | None = None) -> LegalHold | None:
    """Return the hold that forbids redacting a session of a project, the project's first; or a project's own stream.

    Raises NewerSchemaError where the stream of holds has events that this version cannot read.
    """
    _require_known(state)
    reaches = (
        None if project is None else HoldReach(project=project),
        None if session is None else HoldReach(session=session),
    )
    return next((state.holds[one] for one in reaches if one is not None and one in state.holds), None)


def require_no_hold(state: HoldState, *, session: str | None = None, project: str | None = None) -> None:
    """Raise OnHoldError where `hold_over` finds a hold. Raises NewerSchemaError as it does."""
    hold = hold_over(state, session=session, project=project)
    if hold is not None:
        raise OnHoldError(
            f"nothing is redacted here: {hold.sentence}",
            **({} if session is None else {"session": session}),
            by=hold.by,
            at_ms=hold.at_ms,
            reason=hold.reason,
            hold=hold.as_json(),
        )


def decide_holds(state: HoldState, command: HoldCommand) -> tuple[Event, ...]:
    """Return the events of a command; none when there is nothing to do. Raises InputError for too many holds."""
    _require_known(state)
    reach, is_held = command.reach, command.reach in state.holds
    if isinstance(command, LiftHold):
        detail = ReasonDetail(reason=command.reason) if command.reason else None
        return (HoldLifted(project=reach.project, session=reach.session, detail=detail),) if is_held else ()
    if is_held:
        return ()
    if len(state.holds) >= HOLDS_COUNT:
        raise InputError(f"{HOLDS_COUNT} holds are in force, and more are not kept; hold a whole project instead")
    return (HoldPlaced(project=reach.project, session=reach.session, detail=ReasonDetail(reason=command.reason)),)


def evolve_holds(state: HoldState, recorded: Recorded) -> HoldState:
    """Return the state after one more event; an event of another kind only advances the version."""
    event, holds = recorded.event, state.holds
    if isinstance(event, HoldPlaced | HoldLifted):
        reach = HoldReach(project=event.project, session=event.session)
        if isinstance(event, HoldLifted):
            holds = holds.discard(reach)
        elif reach not in holds:
            reason = event.detail.reason if event.detail else None
            holds = holds.insert(
                reach, LegalHold(reach=reach, by=recorded.actor.name, at_ms=recorded.ms, reason=reason)
            )
    return replace(state, version=recorded.version, newer=state.newer or isinstance(event, NewerEvent), holds=holds)


def _require_known(state: HoldState) -> None:
    if state.newer:
        raise NewerSchemaError("the stream of holds holds events of a newer version; upgrade this worker")
