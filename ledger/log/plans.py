"""Plans of commands before they are appended, the batch of those decided together, and the protocol of a kind of stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ledger.core import codec
from ledger.core.codec import EntryFields
from ledger.core.commitments import within_append
from ledger.core.errors import EventSizeError, LedgerError
from ledger.core.events import Actor, Event, Presence
from ledger.core.grants import Recorded
from ledger.core.ids import new_event_id, new_salt
from ledger.core.limits import EVENTS_PER_APPEND_COUNT
from ledger.session.brief import SAYING, shortened
from ledger.session.commands import PresenceWantedError
from ledger.stores.port import Append, Due, Entry, Position, StreamKey

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


class Companion(Protocol):
    """Another stream that is read with each append."""

    key: StreamKey
    position: Position

    def take_also_read(self, entries: Sequence[Entry]) -> bool:
        """Fold entries that were read with another stream's append; return False if the stream must be read."""
        ...

    async def refresh(self) -> object: ...


class Job(Generic[S]):
    """A queued command. Command None only reads; `is_alone` is decided in an append of its own."""

    __slots__ = ("command", "companion", "future", "is_alone")

    def __init__(self, command: Any, companion: Companion | None = None) -> None:
        self.command = command
        self.companion = companion
        self.is_alone = False
        self.future: asyncio.Future[Done[S]] = asyncio.Future()

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Batch(Generic[S]):
    """Jobs that are decided together, again in each round until they are written or need no append.

    Of the round: its events in order and the result of each job; `after` is the entry they follow, and `prev` the first
    link of the chain; `due_ms` is the deadline of the state before. `state` includes the first `folded_count` events, as if they were written at `now_ms`; most
    batches are written before more is needed.
    """

    append: Append
    state: S
    after: Position
    prev: str
    now_ms: int
    due_ms: int | None

    def __init__(self, fold: Fold[S], jobs: list[Job[S]]) -> None:
        self.fold = fold
        self.jobs = jobs
        self.companion: Companion | None = None
        for job in jobs:
            self.companion = self.companion or job.companion
        self.companion_is_behind = False
        self.is_read = False
        """True once the stream was read after the jobs arrived."""
        self.rounds_count = 0
        self.server_ms: int | None = None
        """The server's time, where the append was outside its window by it."""

    def begin(self, state: S, due_ms: int | None, after: Position, prev: str, now_ms: int) -> None:
        """Begin a round, as if nothing was decided yet."""
        self.state = state
        self.folded_count = 0
        self.due_ms = due_ms
        self.now_ms = now_ms
        self.after = after
        self.prev = prev
        self.events: list[tuple[Event, Actor, str]] = []
        self.due_count = 0
        """The number of events, before those of the jobs, of what was due."""
        self.payloads: list[EntryFields] = []
        self.outcomes: list[tuple[Job[S], LedgerError | None, int, int]] = []
        self.left: list[Job[S]] = []
        """The jobs that do not fit into the append."""
        self.not_before_ms: int | None = None
        self.not_after_ms: int | None = None
        self.present: tuple[Presence, ...] | None = None
        """The clients that the events assume to have leases."""
        self.written_at: Position | None = None
        """The position of the first event, once the batch is in the log."""
        self.recorded: list[Recorded] = []
        """The events as recorded, once the server has confirmed the append."""

    def decide_all(self, due_ms: int | None) -> None:
        """Decide the jobs, to be written before `due_ms`; `left` are those that do not fit into the append.

        A refusal names the time of the event it rests on, so the events before it must be written first.
        """
        if due_ms is not None:
            self.not_after_ms = due_ms - 1
        for index, job in enumerate(self.jobs):
            first, error = len(self.events), None
            if job.command is SETTLE:
                self.outcomes.append((job, None, 0, self.due_count))
                continue
            if first >= EVENTS_PER_APPEND_COUNT:
                self.left = self.jobs[index:]
                return
            try:
                if job.command is not None and not self._decide(job.command):
                    self.left = self.jobs[index:]
                    return
            except (PresenceWantedError, EventSizeError) as error_of_its_own:
                # It rests on nothing that was read, so the caller need not wait for a read, and one try is enough.
                job.fail(error_of_its_own)
                continue
            except LedgerError as refusal:
                if first:
                    self.left = self.jobs[index:]
                    return
                error = refusal
            self.outcomes.append((job, error, first, len(self.events)))

    def _decide(self, command: Any) -> bool:
        """Add the events of a command; return False where it assumes other clients than those before it."""
        state = self.state if self.folded_count == len(self.events) else self.ahead()
        plan = self.fold.decide(state, command, self.now_ms)
        if plan.present is not None and self.present is not None and plan.present != self.present:
            return False
        self.take(plan, state)
        return True

    def ahead(self) -> S:
        """Return the state after the whole batch, as if it were written at its `now_ms`."""
        while self.folded_count < len(self.events):
            event, actor, event_id = self.events[self.folded_count]
            self.folded_count += 1
            version = self.after.version + self.folded_count
            self.state = self.fold.evolve(self.state, Recorded(event, actor, self.now_ms, version, event_id))
        return self.state

    def take(self, plan: AppendPlan, said: S) -> None:
        """Add a plan's events, all or none; `said` is the state before them.

        Raises InputError when one is too large, which fails its command alone.
        """
        events: list[tuple[Event, Actor, str]] = []
        payloads: list[EntryFields] = []
        last = self.payloads[-1][0] if self.payloads else None
        version, actor = self.after.version + len(self.events), plan.actor
        for event in plan.events:
            event_id = plan.event_id or new_event_id()
            prev = self.prev if last is None else within_append(version, last)
            detail = getattr(event, "detail", None)
            salt = "" if detail is None or detail.salt else new_salt()
            fields = codec.encode(shortened(event, said), event_id=event_id, prev=prev, actor=actor, salt=salt)
            version, last = version + 1, fields[0]
            if type(event) in SAYING:
                said = self.fold.evolve(said, Recorded(event, actor, self.now_ms, version, event_id))
            events.append((event, actor, event_id))
            payloads.append(fields)
        self.events += events
        self.payloads += payloads
        if plan.present is not None:
            self.present = plan.present
        if plan.not_before_ms is not None:
            self.not_before_ms = max(self.not_before_ms or 0, plan.not_before_ms)
        if plan.not_after_ms is not None:
            self.not_after_ms = min(plan.not_after_ms, self.not_after_ms or plan.not_after_ms)


def recorded_of(batch: Batch[Any], first: Position) -> list[Recorded]:
    """Return a batch's events as recorded in the log from position `first` on."""
    return [
        Recorded(event, actor, first.ms, version, event_id)
        for version, (event, actor, event_id) in enumerate(batch.events, first.version)
    ]
