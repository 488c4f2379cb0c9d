"""The port of a store. `memory.py` and `redis/` implement it; one conformance suite tests both.

A store appends events to streams by compare-and-append, reads them back, and keeps hints (deadlines, wake-ups, the
feed, leases) that are never authoritative. Times are milliseconds of the server's clock, which is the only one; a
process estimates it from the replies that it receives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from ledger.core.events import Presence
from ledger.core.limits import SETTLE_GRACE_MS
from ledger.stores.durability import Durability
from ledger.stores.port import (
    Append,
    AppendResult,
    Due,
    Entry,
    FeedFacts,
    FeedItem,
    FeedLines,
    FilesRewritten,
    FoundFields,
    FreezeFlag,
    Opening,
    Place,
    Position,
    ShortStream,
    StreamInfo,
    StreamKey,
    TakenLines,
    ViewAdvance,
    ViewWrite,
    WakeUp,
    WantedFields,
)
from ledger.stores.sealed import Seal, StreamHead


class Clock(Protocol):
    """The server's time in ms, as estimated by this process."""

    @property
    def known(self) -> bool:
        """Return whether a server time has been observed."""
        ...

    @property
    def is_moved_by_hand(self) -> bool:
        """Return whether the clock only advances when a test moves it."""
        ...

    @property
    def grace_ms(self) -> int:
        """Return how long (ms) a waiter leaves settling to an expiry worker."""
        ...

    def now_ms(self) -> int: ...

    def observe(self, now_ms: int) -> None:
        """Update the estimate with the time of a server reply."""
        ...

    async def wait_until(self, ms: int) -> None: ...


class EstimatedClock:
    """Server time: that of the last reply plus the time elapsed on this machine since."""

    grace_ms = SETTLE_GRACE_MS
    is_moved_by_hand = False

    def __init__(self) -> None:
        self._offset_ms: float | None = None

    @property
    def known(self) -> bool:
        return self._offset_ms is not None

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000 + (self._offset_ms or 0.0))

    def observe(self, now_ms: int) -> None:
        self._offset_ms = now_ms - time.monotonic() * 1000

    async def wait_until(self, ms: int) -> None:
        await sleep_until(self, ms)


LONGEST_SLEEP_SECONDS = 60.0
"""The longest sleep on one estimate, because the estimate may be corrected meanwhile."""


async def sleep_until(clock: Clock, ms: int) -> None:
    """Return when the clock has reached `ms`, or after a minute; callers check again."""
    remaining = (ms - clock.now_ms()) / 1000
    await asyncio.sleep(min(max(remaining, 0.0), LONGEST_SLEEP_SECONDS))


KEYS_AT_ONCE_COUNT: Final = 1000
"""Keys that a server looks at for one page of streams."""


class Listener(Protocol):
    """A subscriber to appends. Neither method may block."""

    def woken(self, wake_up: WakeUp) -> None: ...

    def gap(self, partition: int) -> None:
        """Handle a new subscription to this partition: wake-ups may have been lost, so read again."""
        ...


Answered = Callable[[AppendResult | Exception, tuple[Entry, ...]], None]
"""The callback of an append: its result, and the entries of the stream that was read with it. Must not block.

The result is an InDoubtError when no reply came, else a StoreError, SealedError, DamageError or Foreign when the append
failed.
"""


Following = Callable[[AppendResult | None], Awaitable[Append | None]]
"""A rewrite: given the result of its last append, or None at first, it returns the next one; None where it is done."""


class Store(Protocol):
    """A store of event streams. Every call may raise StoreError.

    What needs the entries of a sealed stream, an append to it included, raises SealedError (`ledger.stores.sealed`).
    """

    @property
    def clock(self) -> Clock: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def durability(self) -> Durability:
        """Return the replication required by this process before a grant or an allow takes effect."""
        ...

    async def start(self) -> None:
        """Connect and check the deployment. Raises SetupError."""
        ...

    async def close(self) -> None: ...

    async def now_ms(self) -> int: ...

    # streams ---------------------------------------------------------------------------------------------------------

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        """Start to compare and append, and call `answered` once, after this has returned.

        `also_read` reads another stream in the same flush, after the append.
        """
        ...

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        """Return the entry at a position (None: it was lost) once it and all before it are confirmed (`Durability`).

        Raises InDoubtError when the confirmation does not come in time.
        """
        ...

    async def open(self, key: StreamKey) -> Opening:
        """Return the first page of a stream, its metadata and the server's time."""
        ...

    async def info(self, key: StreamKey) -> StreamInfo | None: ...

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        """Return the entries after a position. Raises Foreign, which has them as stored."""
        ...

    async def short_streams(self, keys: Sequence[StreamKey], count: int) -> list[ShortStream | None]:
        """Return, in one round trip, each stream that has fewer than `count` entries, all in the ledger's format.

        None is any other stream, and one that cannot be read: to be read by itself, which says what is wrong.
        """
        ...

    async def heads(self, keys: Sequence[StreamKey]) -> list[StreamHead]:
        """Return the last entry of each stream, and its seal where it is sealed.

        It is at 0-0 for an empty stream, and where a key holds none. Raises DamageError for a broken stub.
        """
        ...

    async def streams_page(self, cursor: str, count: int, *, sealed: bool = False) -> tuple[list[StreamKey], str]:
        """Return some of all streams (or of the sealed ones), unordered, and the cursor of the next page.

        `""` begins, and is the end. About `count` keys are looked at, of which many may be no streams. A cursor may be
        kept for any time: after a restart of the server the pages begin anew there. A stream that exists all the while
        comes at least once; `streams_of` iterates over them.
        """
        ...

    # freezes ---------------------------------------------------------------------------------------------------------

    async def set_flags(self, flag: FreezeFlag, server: str | None = None) -> list[Position]:
        """Set the flag of every partition, unless it is of a later entry; return the entry that each is of now.

        `server` is that of an `Unverified`, after which the stream of freezes was read; the flags there become
        verified. The writes have the confirmed replication that `Durability` asks for; else raises InDoubtError.
        """
        ...

    async def flags(self) -> list[FreezeFlag | None]:
        """Return the flag of each partition; None where there is none."""
        ...

    # hints -----------------------------------------------------------------------------------------------------------

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        """Return the sessions with a pending request whose earliest deadline is at or before `until_ms` (None: all).

        Nearest first, at most `count`; `partitions` None means all partitions.
        """
        ...

    async def due_of(self, sessions: Sequence[str]) -> list[int | str | None]:
        """Return what the index has of each session: a deadline (server ms), None for never, or NOTHING_DUE."""
        ...

    async def correct_due(self, session: str, seen_ms: int | str | None, to: Due | str, *, at: Position) -> None:
        """Set the hint if it still is `seen_ms`, as of `due_of`, and `at` is still the last entry of the session's stream.

        Of a sealed stream the hint can only be removed.
        """
        ...

    async def subscribe(self, partition: int, listener: Listener) -> None:
        """Tell the listener, the only one of this store, of appends; return when the subscription is confirmed."""
        ...

    async def lease(self, place: Place, client: Presence, lease_ms: int, *, alone: bool = False) -> bool:
        """Renew the lease of a client (by its id) at a place; 0 ms end it.

        With `alone` do so only if nobody else has a lease there, and return whether that is so. It avoids duplicate
        work only: correctness never depends on it.
        """
        ...

    async def leases(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        """Return the leases at each place that have not ended. Raises DamageError for a key of another program."""
        ...

    # feeds -----------------------------------------------------------------------------------------------------------

    async def read_feed(
        self, partitions: Sequence[int], group: str, consumer: str, count: int, idle_ms: int | None = None
    ) -> TakenLines:
        """Take lines that were not yet delivered to the group, at most `count` of each partition.

        With `idle_ms` those also that were delivered at least so long ago and never acknowledged. Idle time is the
        server's real time, also where a test moves the clock.
        """
        ...

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None: ...

    async def unacknowledged(
        self, group: str, since: Mapping[int, str], count: int, partitions: Sequence[int] | None = None
    ) -> list[FeedLines]:
        """Return the feeds' lines that a group may not have dealt with, of each partition that has any, oldest first.

        They begin after the id in `since`, or with the first line that the group was not given or has not
        acknowledged, whichever is later; at most `count` of each partition. Nothing is taken from the group. A group
        that nobody has read with was given nothing. `partitions` None means all partitions.
        """
        ...

    async def feeds(self) -> list[FeedFacts]:
        """Return the feed of each partition, in the order of their numbers."""
        ...

    async def drop_consumers(self, group: str, idle_ms: int, consumer: str | None = None) -> None:
        """Delete the consumers of a group (or one) that have an empty PEL and have been idle for `idle_ms`."""
        ...

    # views -----------------------------------------------------------------------------------------------------------

    async def project(self, partition: int, advances: Sequence[ViewAdvance], writes: Sequence[ViewWrite]) -> bool:
        """Change views and checkpoints of a partition atomically; return False if any checkpoint is elsewhere."""
        ...

    async def drop_views(self, partition: int, names: Sequence[str]) -> None:
        """Remove the checkpoints, the census and these views of a partition atomically."""
        ...

    async def views(self) -> Mapping[int, Sequence[str]]:
        """Return the names of all views that are not empty, by partition, in one pass over the keys."""
        ...

    async def read_views(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        """Return several views of a partition as of one instant; values of sorted views and counts are decimal."""
        ...

    async def view_fields(self, wanted: Sequence[WantedFields]) -> list[list[bytes | None]]:
        """Return some fields of each view, None for one that is missing; of hashes one command each, all sent at once."""
        ...

    async def view_page(
        self, view: str, prefix: str, count: int | None, after: str = "", *, backwards: bool = False
    ) -> list[str]:
        """Return the first `count` fields (None: all) with this prefix after a field, over all partitions, in order.

        `backwards` begins with the last field and goes on to those before: `after` is a later one then.

        For a sorted view whose numbers are all 0. What is read does not grow with the view.
        """
        ...

    async def look_up(self, view: str | None, prefix: str = "", count: int = 0) -> FoundFields:
        """Return the first `count` fields with this prefix of a sorted view, and the streams that may have others.

        Its numbers are all 0; None is no view. Each partition is read as of one instant, so that every appended event
        is in the view, or its stream in `unprojected`, or its partition in `incomplete`.
        """
        ...

    # sealed and rewritten streams ------------------------------------------------------------------------------------

    async def seal(self, key: StreamKey, seal: Seal, old: Seal | None = None) -> bool:
        """Put a stub in the place of a session's stream, or of its stub `old`, in one step.

        A stream's due hint goes; a later head than that of `old` is told as an append is. Return True also when this
        stub is there already. Return False when the stream does not end with `seal.head`, or something else than `old`
        is there; more than SEALING_MS after `seal.sealed_ms`, and for a file that was closed.
        The caller must have checked before that the archive holds the entries. Raises InDoubtError; SetupError without
        the rights for it.
        """
        ...

    async def close_file(self, keys: Sequence[StreamKey], file: str) -> None:
        """Forbid that stubs of these streams name a file from now on; those that name it stay.

        It holds for CLOSED_MS, after which `seal` refuses a file by its age. Raises InDoubtError.
        """
        ...

    async def restore(self, key: StreamKey, after: Position | Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        """Append entries under their own ids if `after` is the last entry; return False if it is not.

        With a seal put all entries of the stream in the place of its stub; they are written beside it before. Return
        True also when the stream is there already, with `seal.head` among its entries; False when something else is
        there. Raises DamageError for entries that do not end as the seal says; InDoubtError; SetupError without the
        rights for it.
        """
        ...

    async def rewrite(self, key: StreamKey, versions: Sequence[int], following: Following) -> None:
        """Rewrite a stream without the content of these versions, in ascending order; all else of it is kept.

        The copy is prepared piece by piece, while other writers go on. It takes the stream's place, and the event of
        `following` is appended, in one step or not at all. Raises InDoubtError; SetupError without the rights for it.
        """
        ...

    async def rewrite_files(self) -> list[FilesRewritten]:
        """Make every server write its files anew from what it holds now, and wait for it."""
        ...

    # the deployment --------------------------------------------------------------------------------------------------

    async def server_facts(self) -> list[dict[str, str]]:
        """Return, of every primary, the fields of INFO and, where CONFIG GET is permitted, its settings."""
        ...

    async def check_writable(self) -> None:
        """Raise the error of a write that a server refuses now (its disk or memory is full), without writing anything."""
        ...

    async def notes(self, name: str) -> Mapping[str, bytes]:
        """Return what was noted under a name."""
        ...

    async def note(self, name: str, field: str, value: bytes, *, once: bool = False) -> None:
        """Note a small value for all processes of the deployment; with `once` only where the field has none."""
        ...

    async def note_reads(self, kind: str, lines: Sequence[bytes], count_max: int, oldest_ms: int) -> None:
        """Append lines to the reads of a kind; trim those before `oldest_ms` and beyond about `count_max`."""
        ...

    async def reads(self, kind: str, since_ms: int, count: int) -> list[tuple[int, bytes]]:
        """Return the newest lines of a kind with their times (ms), oldest first."""
        ...


async def streams_of(store: Store, *, sealed: bool = False) -> AsyncIterator[StreamKey]:
    """Iterate over all streams, or the sealed ones; one created meanwhile may be missed, and one may come twice."""
    cursor, more = "", True
    while more:
        keys, cursor = await store.streams_page(cursor, KEYS_AT_ONCE_COUNT, sealed=sealed)
        for key in keys:
            yield key
        more = bool(cursor)


async def append_to(
    store: Store, append: Append, also_read: tuple[StreamKey, Position] | None = None
) -> tuple[AppendResult, tuple[Entry, ...]]:
    """Post an append and return what it is answered. Raises InDoubtError, StoreError, SealedError, DamageError, Foreign."""
    future: asyncio.Future[tuple[AppendResult, tuple[Entry, ...]]] = asyncio.get_running_loop().create_future()

    def answered(result: AppendResult | Exception, also_read: tuple[Entry, ...]) -> None:
        if future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result((result, also_read))

    store.post(append, answered, also_read)
    return await future
