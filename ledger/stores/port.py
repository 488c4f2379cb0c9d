"""The port of a store. `memory.py` and `redis.py` implement it; one conformance suite tests both.

A store appends events to streams by compare-and-append, reads them back, and keeps hints (deadlines, wake-ups, the
feed, leases) that are never authoritative. Times are milliseconds of the server's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from ledger.core.codec import EntryFields
from ledger.core.events import Presence
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability

if TYPE_CHECKING:
    from ledger.stores.admin import Admin, ViewReader

StreamKind = Literal["session", "project", "access", "policy"]


class AskersOf(NamedTuple):
    """The place of the askers that wait for the requests of a session."""

    session: str


Place = str | AskersOf | None
"""The scope of a lease: a session, the open inboxes (None), or askers of a session."""

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
    """The append allows or claims something (`ledger.core.allowing`): not written within the reach of a freeze."""
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
    """An entry is not in the ledger's format; `text` describes the difference."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


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


class ViewWrite(msgspec.Struct, frozen=True, gc=False):
    """One change of a view's data: `field` of hash or sorted set `view`; `value` None removes it.

    A count adds its value to what is there; a `latest` number replaces a lower one.
    """

    view: str
    field: str
    value: bytes | int | None
    kind: Literal["hash", "sorted", "count", "latest"] = "hash"


class ViewAdvance(NamedTuple):
    """The step of a stream's views from one entry to another; START is before the first."""

    key: StreamKey
    expected: Position
    at: Position


Answered = Callable[[AppendResult | Exception, tuple[Entry, ...]], None]
"""The callback of an append: its result, and the entries of the stream that was read with it. Must not block.

The result is an InDoubtError when no reply came, else a StoreError, SealedError, DamageError or Foreign when the append
failed.
"""


class Store(Protocol):
    """A store of event streams. Every call may raise StoreError.

    What needs the entries of a sealed stream, an append to it included, raises SealedError (`ledger.stores.sealed`).
    """

    @property
    def clock(self) -> Clock: ...

    @property
    def partition_count(self) -> int: ...

    async def start(self) -> None:
        """Connect and check the deployment. Raises SetupError."""
        ...

    async def close(self) -> None: ...

    def partition_of(self, key: StreamKey) -> int: ...

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        """Start to compare and append, and call `answered` once, after this has returned.

        `also_read` reads another stream in the same flush, after the append.
        """
        ...

    @property
    def durability(self) -> Durability:
        """Return the replication required by this process before a grant or an allow takes effect."""
        ...

    @property
    def confirms(self) -> bool:
        """Return whether `Durability` requires more than the primary's reply."""
        ...

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        """Return the entry at a position (None: it was lost) once it and all before it are confirmed (`Durability`).

        Raises InDoubtError when the confirmation does not come in time.
        """
        ...

    async def set_flags(self, flag: FreezeFlag, server: str | None = None) -> list[Position]:
        """Set the flag of every partition, unless it is of a later entry; return the entry that each is of now.

        `server` is that of an `Unverified`, after which the stream of freezes was read; the flags there become
        verified. The writes have the confirmed replication that `Durability` asks for; else raises InDoubtError.
        """
        ...

    async def flags(self) -> list[FreezeFlag | None]:
        """Return the flag of each partition; None where there is none."""
        ...

    async def open(self, key: StreamKey) -> Opening:
        """Return the first page of a stream, its metadata and the server's time."""
        ...

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]: ...

    async def read_many(self, wanted: Sequence[tuple[StreamKey, Position]]) -> list[tuple[Entry, ...]]: ...

    async def info(self, key: StreamKey) -> StreamInfo | None: ...

    def streams(self) -> AsyncIterator[StreamKey]:
        """Iterate over all streams, unordered; one created meanwhile may be missed, and one may come twice.

        Sealed streams are not among them.
        """
        ...

    def sealed_streams(self) -> AsyncIterator[StreamKey]:
        """Iterate over all sealed streams, as `streams` does over the others."""
        ...

    async def now_ms(self) -> int: ...

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

    async def listen(self, listener: Listener) -> None: ...

    async def subscribe(self, partition: int) -> None:
        """Return when the subscription to this partition's wake-ups is confirmed."""
        ...

    async def renew_lease(self, place: Place, client: Presence, lease_ms: int) -> None: ...

    async def drop_lease(self, place: Place, client_id: str) -> None: ...

    async def leases(self, place: Place) -> tuple[Presence, ...]:
        """Return the leases that have not ended. Raises DamageError for a key of another program, StoreError."""
        ...

    async def leases_of(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        """As `leases`, of several places in one round trip."""
        ...

    # projections -----------------------------------------------------------------------------------------------------

    async def read_feed(self, partitions: Sequence[int], group: str, consumer: str, count: int) -> list[FeedItem]:
        """Return lines not yet delivered to the group, at most `count` of each partition."""
        ...

    async def claim_feed(
        self, partitions: Sequence[int], group: str, consumer: str, idle_ms: int, count: int
    ) -> list[FeedItem]:
        """Claim lines delivered at least `idle_ms` ago and never acknowledged, at most `count` of each partition.

        Idle time is the server's real time, also where a test moves the clock.
        """
        ...

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None: ...

    async def project(self, key: StreamKey, expected: Position, at: Position, writes: Sequence[ViewWrite]) -> bool:
        """Change views and checkpoint atomically; return False if the checkpoint is not `expected`."""
        ...

    async def project_all(self, advances: Sequence[ViewAdvance], writes: Sequence[ViewWrite]) -> bool:
        """Change views and checkpoints of streams of one partition atomically; return False if any is elsewhere."""
        ...

    async def checkpoint(self, key: StreamKey) -> Position:
        """Return the entry that the stream's views are as of."""
        ...

    async def view(self, view: str, partition: int) -> Mapping[str, bytes]:
        """Return a view's fields; values of sorted views and counts are decimal numbers."""
        ...

    async def view_field(self, view: str, partition: int, field: str) -> bytes | None: ...

    async def drop_views(self, partition: int, names: Sequence[str] | None = None) -> None:
        """Remove the checkpoints and these views of a partition atomically.

        None is all views of the partition; finding them takes a pass over all keys of the deployment.
        """
        ...

    @property
    def views(self) -> ViewReader:
        """Return the reader of views."""
        ...

    @property
    def admin(self) -> Admin:
        """Return the operations for administration."""
        ...


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


async def answer_with(answered: Answered, work: Awaitable[tuple[AppendResult, tuple[Entry, ...]]]) -> None:
    """Call `answered` with what `work` returns or raises."""
    try:
        result, beside = await work
    except Exception as error:  # noqa: BLE001 - the callback is the only way to report it
        answered(error, ())
    else:
        answered(result, beside)
