"""The plan that a command's decision makes before it is appended, and the protocol of a kind of stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ledger.core.events import Actor, Event, Presence
from ledger.core.grants import Recorded
from ledger.stores.port import Due, Position, StreamKey

S = TypeVar("S")

SYSTEM = Actor("system", "ledger")

SETTLE = "settle"
"""The command that only settles what is due, as every command does first."""


class AppendPlan(msgspec.Struct, frozen=True, gc=False):
    """The events of one command, their author, and the window of server time (ms) in which to write them."""

    events: tuple[Event, ...] = ()
    actor: Actor = SYSTEM
    not_before_ms: int | None = None
    not_after_ms: int | None = None
    event_id: str | None = None
    """The id of its only event; None makes a new one."""
    more: bool = False
    present: tuple[Presence, ...] | None = None
    """The clients that were assumed to have leases of the session, where the events rest on that."""


NOTHING = AppendPlan()


class Done(msgspec.Struct, Generic[S], frozen=True, gc=False):
    """The result of a command: the state after it, and the events that it made."""

    state: S
    events: tuple[Recorded, ...] = ()


class Fold(Protocol[S]):
    """The fold and the decisions of a kind of stream. Pure, except that `settle` may read leases."""

    def initial(self, key: StreamKey) -> S: ...

    def evolve(self, state: S, recorded: Recorded) -> S: ...

    def decide(self, state: S, command: Any, now_ms: int) -> AppendPlan: ...

    async def settle(self, state: S, now_ms: int) -> AppendPlan:
        """Return the events that are due now; called when `next_due_ms` has passed."""
        ...

    def next_due_ms(self, state: S) -> int | None: ...

    def due_hint(
        self, before: S, due_ms: int | None, events: Sequence[Event], ahead: Callable[[], S], after_ms: int
    ) -> Due | str | None:
        """Return the new due hint after the events of an append; None leaves it.

        `due_ms` is the `next_due_ms` of the state before. `ahead` folds the whole append, which costs as much as all of its events.
        """
        ...

    def project_of(self, state: S) -> str | None:
        """Return the project within whose reach a freeze stops what this stream allows."""
        ...


class Regression(msgspec.Struct, frozen=True):
    """The command that records in a stream that its server has lost entries."""

    seen: Position
    found: Position
