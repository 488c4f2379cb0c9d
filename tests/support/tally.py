"""The smallest fold that a stream can drive, a list of names; and a store that interrupts its steps for a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from ledger.core.errors import InputError
from ledger.core.events import Actor, Event, LogRegressed, ToolFinished, ToolFinishedDetail
from ledger.core.grants import Recorded
from ledger.log.plans import SYSTEM, AppendPlan, Regression
from ledger.log.stream import Stream
from ledger.stores.port import Append, AppendResult, Due, Entry, Opening, Position, StreamKey
from ledger.stores.store import Answered, Store, append_to
from tests.support.backends import SESSION
from tests.support.store_calls import answer_with

TESTER = Actor("person", "tester")


class Add(msgspec.Struct, frozen=True):
    """Add names, whatever the list holds; valid in this window of server time."""

    names: tuple[str, ...]
    not_before_ms: int | None = None
    not_after_ms: int | None = None
    text: str | None = None


class Claim(msgspec.Struct, frozen=True):
    """Add a name that nobody has claimed; records the claimant. Refused when another has claimed it."""

    name: str
    by: str = "me"


class Tally(NamedTuple):
    """The names in order, their claimants, the lost versions, and how much was folded."""

    names: tuple[str, ...] = ()
    regressions: tuple[str, ...] = ()
    version: int = 0


class TallyFold:
    """Folds `ToolFinished.call_id`s."""

    async def settle(self, state: Tally, now_ms: int) -> AppendPlan:
        return AppendPlan()

    def initial(self, key: StreamKey) -> Tally:
        return Tally()

    def evolve(self, state: Tally, recorded: Recorded) -> Tally:
        event = recorded.event
        if isinstance(event, LogRegressed):
            return state._replace(regressions=(*state.regressions, event.seen_id), version=recorded.version)
        assert isinstance(event, ToolFinished)
        return state._replace(names=(*state.names, event.call_id or ""), version=recorded.version)

    def decide(self, state: Tally, command: Any, now_ms: int) -> AppendPlan:
        if isinstance(command, Regression):
            return AppendPlan((LogRegressed(seen_id=str(command.seen), found_id=str(command.found)),), SYSTEM)
        if isinstance(command, Claim):
            return self._claim(state, command)
        assert isinstance(command, Add)
        detail = ToolFinishedDetail(output=command.text) if command.text else None
        events = tuple(ToolFinished(call_id=name, detail=detail) for name in command.names)
        return AppendPlan(events, TESTER, command.not_before_ms, command.not_after_ms)

    def _claim(self, state: Tally, command: Claim) -> AppendPlan:
        own = f"{command.name}={command.by}"
        if own in state.names:
            return AppendPlan()
        if any(name.startswith(f"{command.name}=") for name in state.names):
            raise InputError(f"`{command.name}` is taken")
        return AppendPlan((ToolFinished(call_id=own),), TESTER)

    def next_due_ms(self, state: Tally) -> int | None:
        return None

    def due_hint(
        self, before: Tally, due_ms: int | None, events: Sequence[Event], ahead: Callable[[], Tally], after_ms: int
    ) -> Due | str | None:
        return None

    def project_of(self, state: Tally) -> str | None:
        return None


def add(*names: str) -> Add:
    return Add(names)


def tally(store: Store, key: StreamKey = SESSION) -> Stream[Tally]:
    return Stream(store, key, TallyFold())


Step = Callable[[], Awaitable[None]]


class Watched:
    """A store that counts calls, and runs a test's hook before a call is sent or after its answer arrived."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.appends: list[Append] = []
        self._posts: list[asyncio.Task[None]] = []
        self.reads = 0
        self.before: dict[str, Step] = {}
        self.after: dict[str, Step] = {}

    @property
    def as_store(self) -> Store:
        return cast("Store", self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        self.appends.append(append)
        self._posts.append(asyncio.create_task(answer_with(answered, self._append(append, also_read))))

    async def _append(
        self, append: Append, also_read: tuple[StreamKey, Position] | None
    ) -> tuple[AppendResult, tuple[Entry, ...]]:
        await self._step(self.before, "append")
        answer = await append_to(self._store, append, also_read)
        await self._step(self.after, "append")
        return answer

    async def open(self, key: StreamKey) -> Opening:
        self.reads += 1
        await self._step(self.before, "open")
        opening = await self._store.open(key)
        await self._step(self.after, "open")
        return opening

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        self.reads += 1
        await self._step(self.before, "read")
        page = await self._store.read(key, after, count)
        await self._step(self.after, "read")
        return page

    @staticmethod
    async def _step(steps: dict[str, Step], name: str) -> None:
        """Run each hook once."""
        step = steps.pop(name, None)
        if step is not None:
            await step()


class RecordingListener:
    """A listener that hands wake-ups to streams, as a process does, and records them."""

    def __init__(self, *streams: Stream[Any]) -> None:
        self._streams = streams
        self.wake_ups: list[tuple[Position, Sequence[Entry]]] = []
        self.gaps: list[int] = []

    def woken(self, wake_up: Any) -> None:
        self.wake_ups.append((wake_up.head, wake_up.entries))
        for stream in self._streams:
            if stream.key == wake_up.key:
                stream.woken(wake_up)

    def gap(self, partition: int) -> None:
        self.gaps.append(partition)
        for stream in self._streams:
            stream.read_soon()
