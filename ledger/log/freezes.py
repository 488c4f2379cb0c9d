"""The freezes in force, and the flags that enforce them.

The stream of freezes is the truth. Each partition's flag repeats it, and the append script checks the flag where an
append allows something, so that no writer needs to know of a freeze. A server that started or took over may have lost
flags: there the script refuses until a writer has read the stream and set the flags again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ledger.access.freeze import FreezeState, StartFreeze
from ledger.core.errors import InDoubtError, NewerSchemaError, StoreError
from ledger.core.freezes import Freeze, decode_freeze
from ledger.core.grants import Recorded
from ledger.core.times import format_time
from ledger.log.plans import SYSTEM
from ledger.log.stream import Stream
from ledger.stores.port import Blocked, FreezeFlag, Position, Unverified
from ledger.stores.store import Store

log = logging.getLogger(__name__)


class Freezes:
    """The freezes that this process knows of, and the flags of all partitions.

    `watch` subscribes to a stream. The stream is followed from the first freeze that concerns this process.
    """

    def __init__(
        self, store: Store, stream: Stream[FreezeState], watch: Callable[[Stream[FreezeState]], Awaitable[None]]
    ) -> None:
        self._store = store
        self.stream = stream
        self._watch = watch
        self._observers: list[Callable[[], None]] = []
        self._is_followed = False
        self._comparisons: dict[str, asyncio.Task[None]] = {}
        """The comparison that runs for a server: after a start every stream's first append is refused at once."""

    @property
    def state(self) -> FreezeState:
        return self.stream.state

    def over(self, project: str | None) -> Freeze | None:
        """Return the freeze that stops the sessions of a project, as far as this process knows."""
        state = self.stream.state
        return state.over(project) if state.version else None

    async def refresh(self) -> FreezeState:
        """Return the freezes in force, read from the server now. Raises StoreError, NewerSchemaError."""
        state = await self.stream.refresh()
        if state.newer:
            raise NewerSchemaError("the stream of freezes holds events of a newer version; upgrade this worker")
        return state

    async def follow(self) -> FreezeState:
        """As `refresh`; from now on the freezes known here are current, by wake-ups and sweeps."""
        if not self._is_followed:
            self._is_followed = True
            self.stream.observe(self._changed)
            try:
                await self._watch(self.stream)
            except BaseException:
                self._is_followed = False
                raise
        return await self.refresh()

    def observe(self, observer: Callable[[], None]) -> Callable[[], None]:
        """Call `observer` after each change of the freezes; return a function that ends this."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def _changed(self, recorded: Recorded | None) -> None:
        for observer in list(self._observers):
            observer()

    # --- the flags --------------------------------------------------------------------------------------------------

    async def learn(self, refused: Blocked | Unverified) -> None:
        """Read the stream of freezes after the append script refused, and set the flags that are older.

        Raises StoreError, NewerSchemaError, and InDoubtError where the flags have no confirmed replication.
        """
        await self.follow()
        if isinstance(refused, Unverified):
            server = refused.server
            if server not in self._comparisons:
                self._comparisons[server] = asyncio.create_task(self._compare(server), name="ledger freezes")
            await asyncio.shield(self._comparisons[server])
        elif self.stream.position > refused.at:
            await self._store.set_flags(self._flag(self.state))
        elif self.stream.position < refused.at:
            await self._record_again(decode_freeze(refused.freeze), refused.at)

    async def _compare(self, server: str) -> None:
        """Repair the stream by the flags, and set the flags as compared with this server, whose identity was read before."""
        try:
            # A freeze that the server may have lost was acknowledged before.
            await self.repair()
            await self._store.set_flags(self._flag(self.state), server)
        finally:
            del self._comparisons[server]

    async def raise_flags(self) -> None:
        """Set the flags of all partitions to the freezes in force.

        Raises InDoubtError where one of them could not be set, or has no confirmed replication.
        """
        state, at = self.stream.state, self.stream.position
        try:
            held = await self._store.set_flags(self._flag(state))
        except StoreError as error:
            raise _not_everywhere(error.text.partition(";")[0]) from error
        latest = max(held)
        if latest > at:
            # Another process was faster; or the stream has lost an entry that this flag is of.
            await self.stream.refresh()
        if min(held) < at or latest > self.stream.position:
            raise _not_everywhere("not every partition has it yet")

    async def repair(self) -> None:
        """Record the freezes again that the stream of freezes has lost, and of which flags are the witnesses."""
        state = await self.refresh()
        for flag in await self._store.flags():
            if flag is not None and flag.at > self.stream.position:
                for text in flag.freezes.values():
                    freeze = decode_freeze(text)
                    if freeze not in state.in_force():
                        await self._record_again(freeze, flag.at)

    async def _record_again(self, freeze: Freeze, at: Position) -> None:
        log.warning("the server lost a freeze, of which a flag is left: %s; recording it again", freeze.sentence)
        reason = f"lost by the server and recorded again; by {freeze.by} at {format_time(freeze.at_ms)}"
        again = StartFreeze(
            actor=SYSTEM,
            project=freeze.project,
            reason=f"{freeze.reason} ({reason})" if freeze.reason else reason,
            lost_ms=at.ms,
        )
        await self.stream.submit(again)
        await self.raise_flags()

    def _flag(self, state: FreezeState) -> FreezeFlag:
        return FreezeFlag(self.stream.position, {one.reach: one.encoded() for one in state.in_force()})


def _not_everywhere(why: str) -> InDoubtError:
    hint = "repeat the command until it succeeds"
    return InDoubtError(f"it is in the log, but not certainly in force everywhere: {why}; {hint}", hint=hint)
