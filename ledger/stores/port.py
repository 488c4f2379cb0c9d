"""The port of a store. `memory.py` and `redis.py` implement it; one conformance suite tests both.

A store appends events to streams by compare-and-append, reads them back, and keeps hints (deadlines, wake-ups, the
feed, leases) that are never authoritative. Times are milliseconds of the server's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import msgspec

from ledger.core.codec import EntryFields
from ledger.core.events import Presence
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability

if TYPE_CHECKING:
    from ledger.stores.sealed import Seal
    from ledger.stores.values import (
        FeedFacts,
        FilesRewritten,
        FoundFields,
        OwedLines,
        RawEntry,
        ShortStream,
        StreamHead,
        TakenLines,
        ViewAdvance,
        ViewWrite,
        WantedFields,
    )

StreamKind = Literal["session", "project", "access", "policy"]


class AskersOf(NamedTuple):
    """The place of the askers that wait for the requests of a session."""

    session: str


class WorkPlace(NamedTuple):
    """The place of whoever does a piece of work, which several processes could do."""

    name: str


Place = str | AskersOf | WorkPlace | None
"""The scope of a lease: a session, the open inboxes (None), askers of a session, or a piece of work."""

KEYS_AT_ONCE_COUNT: Final = 1000
"""Keys that a server looks at for one page of streams."""

_KINDS: dict[str, StreamKind] = {"project": "project", "access": "access", "policy": "policy"}


class StreamKey(NamedTuple):
    """The identity of a stream: a session's, a project's, one of the deployment's access streams, or that of rules."""

    kind: StreamKind
    id: str

    @property
    def has_calls(self) -> bool:
        """Return whether requests or grants stand in the stream: a session's or a project's."""
        return self.kind in ("session", "project")

    @property
    def name(self) -> str:
        """Return `session:ses_1`, the stream's name in hints and in the chain's first link."""
        return f"{self.kind}:{self.id}"

    @classmethod
    def parse(cls, name: str) -> StreamKey:
        kind, _, stream_id = name.partition(":")
        return cls(_KINDS.get(kind, "session"), stream_id)


class Position(NamedTuple):
    """The id of an entry: server milliseconds and version."""

    ms: int
    version: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.version}"

    @classmethod
    def parse(cls, text: str) -> Position:
        ms, _, version = text.partition("-")
        return cls(int(ms), int(version))


START = Position(0, 0)


class Entry(NamedTuple):
    """One entry as the server stores it: its payload (the field `d`), and its content (`x`), if it has any."""

    ms: int
    version: int
    payload: bytes
    content: bytes | None = None

    @property
    def position(self) -> Position:
        return Position(self.ms, self.version)


class Due(NamedTuple):
    """The hint for the expiry worker: this session's earliest deadline.

    `ms` None means that only requests without a deadline are pending; `relative` counts from the time of the append.
    """

    ms: int | None
    relative: bool = False


NOTHING_DUE = "nothing due"
"""The value in place of a `Due` when nothing is pending any more."""


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A compare-and-append: all events or none, directly after `after`, in a window of server time (inclusive).

    `payloads` are the fields `d` and `x` of each.
    """

    key: StreamKey
    after: Position
    payloads: tuple[EntryFields, ...]
    not_before_ms: int | None = None
    not_after_ms: int | None = None
    due: Due | str | None = None
    binding: bool = False
    """The append takes effect only with the confirmed replication that `Durability` asks for."""
    allows: bool = False
    """The append allows or claims something (`ledger.session.freezing`): not written within the reach of a freeze."""
    project: str | None = None
    """The project within which it allows something; None is no project."""
    present: tuple[Presence, ...] | None = None
    """The clients whose leases of this session had not ended, as the writer assumed; None assumes nothing."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Written: the entries have the time `ms` and the versions after `Append.after`."""

    ms: int
    now_ms: int


class Conflict(msgspec.Struct, frozen=True):
    """Not written: another writer was first. `entries` are the next ones unseen by this writer, `head` is the last."""

    entries: tuple[Entry, ...]
    head: Position
    now_ms: int


class Behind(msgspec.Struct, frozen=True):
    """Not written: the stream lacks the entry that the writer saw last. The writer's state is of another history."""

    head: Position
    now_ms: int


class OutsideWindow(msgspec.Struct, frozen=True):
    """Not written: the entries would have the time `ms`, which is outside the window."""

    ms: int
    now_ms: int


class Blocked(msgspec.Struct, frozen=True):
    """Not written: the append allows something, and `freeze` (`ledger.core.freezes`) stops that.

    `at` is the entry of the stream of freezes that the partition's flag reflects.
    """

    freeze: bytes
    at: Position
    now_ms: int


class Unverified(msgspec.Struct, frozen=True):
    """Not written: the append allows something, and the partition's flag may be older than the stream of freezes.

    `server` is the server's identity since it started or took over; nobody has compared its flag with the stream.
    """

    server: str
    now_ms: int


class OthersPresent(msgspec.Struct, frozen=True):
    """Not written: these clients have leases of the session, others than `Append.present`; None: they are unreadable."""

    present: tuple[Presence, ...] | None
    now_ms: int


AppendResult = Appended | Conflict | Behind | OutsideWindow | Blocked | Unverified | OthersPresent


class FreezeFlag(msgspec.Struct, frozen=True):
    """The freezes in force as of an entry of the stream of freezes: each by the name of its reach.

    A partition's flag is `verified` once it was compared with the stream since its server started or took over.
    """

    at: Position
    freezes: Mapping[str, bytes]
    verified: bool = True


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The server's metadata of a stream, which reveals damage."""

    length: int
    entries_added: int
    last: Position
    max_deleted: Position
    size_bytes: int | None = None


class Opening(msgspec.Struct, frozen=True):
    """The first read of a stream; `info` is None when the stream does not exist."""

    info: StreamInfo | None
    entries: tuple[Entry, ...]
    now_ms: int


class Foreign(Exception):  # noqa: N818 - a signal between a store and the fold, never shown to a caller
    """An entry is not in the ledger's format; `text` describes the difference. `entries` are all that were read."""

    def __init__(self, text: str, entries: tuple[RawEntry, ...] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.entries = entries


class WakeUp(msgspec.Struct, frozen=True, gc=False):
    """The notification of an append; `entries` are empty when they were too large to send."""

    key: StreamKey
    head: Position
    entries: tuple[Entry, ...]


class Listener(Protocol):
    """A subscriber to appends. Neither method may block."""

    def woken(self, wake_up: WakeUp) -> None: ...

    def gap(self, partition: int) -> None:
        """Handle a new subscription to this partition: wake-ups may have been lost, so read again."""
        ...


class FeedItem(NamedTuple):
    """One line of a partition's feed: a stream and the version that it has reached.

    `is_move` tells that the stream went to the archive, within it or back, and that no event came.
    """

    item_id: str
    key: StreamKey
    version: int
    is_move: bool = False

    @property
    def partition(self) -> int:
        return int(self.item_id.partition("/")[0])

    @property
    def place(self) -> str:
        """Return the line's id within the feed of its partition."""
        return self.item_id.partition("/")[2]


Answered = Callable[[AppendResult | Exception, tuple[Entry, ...]], None]
"""The callback of an append: its result, and the entries of the stream that was read with it. Must not block.

The result is an InDoubtError when no reply came, else a StoreError, SealedError, DamageError or Foreign when the append
failed.
"""


Following = Callable[[AppendResult | None], Awaitable[Append | None]]
"""What a rewrite asks for its append, and is told what that was answered, until it returns None; at first with None."""


class Store(Protocol):
    """A store of event streams. Every call may raise StoreError.

    What needs the entries of a sealed stream, an append to it included, raises SealedError (`ledger.stores.sealed`).
    """

    @property
    def clock(self) -> Clock: ...

    @property
    def partition_count(self) -> int: ...

    def partition_of(self, key: StreamKey) -> int: ...

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

    async def owed(
        self, group: str, since: Mapping[int, str], count: int, partitions: Sequence[int] | None = None
    ) -> list[OwedLines]:
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
        is in the view, or its stream in `ahead`, or its partition in `unsure`.
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

    async def unseal(self, key: StreamKey, seal: Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        """Put all entries, under their own ids, in the place of the stub `seal`; they are written beside it before.

        Return True also when the stream is there already, with `seal.head` among its entries. Return False when
        something else is there. Raises DamageError for entries that do not end as `seal` says; InDoubtError; SetupError
        without the rights for it.
        """
        ...

    async def restore(self, key: StreamKey, after: Position, entries: Sequence[Entry], due: Due | None) -> bool:
        """Append entries under their own ids if `after` is the last entry; return False if it is not."""
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

    def answered(result: AppendResult | Exception, beside: tuple[Entry, ...]) -> None:
        if future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result((result, beside))

    store.post(append, answered, also_read)
    return await future
