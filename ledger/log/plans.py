"""What a stream's commands come to before they are written, and what a kind of stream must know to drive it."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ledger.core.events import Actor, Event
from ledger.core.grants import Recorded
from ledger.stores.port import Due, Position, StreamKey

S = TypeVar("S")

SYSTEM = Actor("system", "ledger")

SETTLE = "settle"
"""The command that does nothing but what every command does first: end what is due."""


class AppendPlan(msgspec.Struct, frozen=True, gc=False):
    """Events that one command makes, by whom, and in which window of server time (ms) they may be written."""

    events: tuple[Event, ...] = ()
    actor: Actor = SYSTEM
    not_before_ms: int | None = None
    not_after_ms: int | None = None
    event_ids: tuple[str, ...] = ()
    more: bool = False


NOTHING = AppendPlan()


class Done(msgspec.Struct, Generic[S], frozen=True, gc=False):
    """What came of a command: the state that holds now, and the events that this command itself made."""

    state: S
    events: tuple[Recorded, ...] = ()


class Fold(Protocol[S]):
    """What a kind of stream folds to, and how it decides. Pure, but for `settle`, which may look who is there."""

    def initial(self, key: StreamKey) -> S: ...

    def evolve(self, state: S, recorded: Recorded) -> S: ...

    def decide(self, state: S, command: Any, now_ms: int) -> AppendPlan: ...

    async def settle(self, state: S, now_ms: int) -> AppendPlan:
        """What is due at this moment; asked where `next_due_ms` has come."""
        ...

    def next_due_ms(self, state: S) -> int | None: ...

    def keeps_due(self, event: Event) -> bool:
        """Whether a new event of this kind never changes what is due; then `due_hint` need not be asked."""
        ...

    def due_hint(self, before: S, after: S, after_ms: int) -> Due | str | None: ...


class Regression(msgspec.Struct, frozen=True):
    """The command with which a stream records that its server has lost entries."""

    seen: Position
    found: Position
