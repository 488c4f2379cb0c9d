"""The stream of legal holds of a deployment. Pure; see `ledger.session` for the terms.

While a hold is in force, nothing within its reach is redacted: one session, or a project with all of its sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, OnHoldError
from ledger.core.events import Actor, Event, HoldLifted, HoldPlaced, ReasonDetail, Value
from ledger.core.limits import HOLDS_COUNT
from ledger.core.times import format_time

if TYPE_CHECKING:
    from ledger.core.grants import Recorded

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
        return tuple(sorted(self.holds.values(), key=_order))


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


def _order(hold: LegalHold) -> tuple[bool, str]:
    return hold.reach.session is not None, hold.reach.session or hold.reach.project or ""
