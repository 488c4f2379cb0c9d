"""What the core needs of a store, whichever it is. `memory.py` and `redis.py` implement it; one suite tests both.

A store appends events to streams by compare-and-append, reads them back, and keeps hints (deadlines, wake-ups, the
feed, leases) that carry no truth. Times are milliseconds of the server's clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import msgspec

from ledger.core.events import Presence
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability

if TYPE_CHECKING:
    from ledger.stores.admin import Admin, ViewReader

StreamKind = Literal["session", "project", "access"]


class BoundInboxes(Enum):
    """The place of the inboxes that see some projects or sessions only. What is no session id takes no session's name."""

    ALL = "inboxes"


BOUND_INBOXES: Final = BoundInboxes.ALL


class AskersOf(NamedTuple):
    """The place of those who wait for the requests of a session."""

    session: str


Place = str | BoundInboxes | AskersOf | None
"""Where somebody is: in a session; in an inbox that sees every session (None), or some; waiting for an answer."""

_KINDS: dict[str, StreamKind] = {"project": "project", "access": "access"}


class StreamKey(NamedTuple):
    """Which stream: a session's, a project's, or the one of the deployment's access tokens."""

    kind: StreamKind
    id: str

    @property
    def name(self) -> str:
        """`session:ses_1`: how hints and the chain's first link name the stream."""
        return f"{self.kind}:{self.id}"

    @classmethod
    def parse(cls, name: str) -> StreamKey:
        kind, _, stream_id = name.partition(":")
        return cls(_KINDS.get(kind, "session"), stream_id)


class Position(NamedTuple):
    """An entry's id: server milliseconds and version."""

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
    """One entry as the server holds it."""

    ms: int
    version: int
    payload: bytes

    @property
    def position(self) -> Position:
        return Position(self.ms, self.version)


class Due(NamedTuple):
    """The hint for the expiry worker: when this session's earliest deadline is.

    `ms` None means that something is pending which never expires; `relative` counts from the time of the append.
    """

    ms: int | None
    relative: bool = False


NOTHING_DUE = "nothing due"
"""In place of a `Due`: nothing is pending any more."""


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """N payloads to add after exactly this entry, all or none, in this window of server time (both ends included)."""

    key: StreamKey
    after: Position
    payloads: tuple[bytes, ...]
    not_before_ms: int | None = None
    not_after_ms: int | None = None
    due: Due | str | None = None
    binding: bool = False
    """Whether somebody acts on it: then it counts only when it is as safe as the settings demand."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Written: the entries bear `ms` and the versions after `Append.after`."""

    ms: int
    now_ms: int


class Conflict(msgspec.Struct, frozen=True):
    """Not written: others were first. `entries` are the next the writer has not seen, `head` is the last there is."""

    entries: tuple[Entry, ...]
    head: Position
    now_ms: int


class Behind(msgspec.Struct, frozen=True):
    """Not written: the entry the writer saw last is not there. Its state is of another history."""

    head: Position
    now_ms: int


class OutsideWindow(msgspec.Struct, frozen=True):
    """Not written: the entries would have borne `ms`, which is outside the window."""

    ms: int
    now_ms: int


AppendResult = Appended | Conflict | Behind | OutsideWindow

Answered = Callable[[AppendResult | None, bool], None]
"""Told the answer to what was posted, or None where there was none: then `append` it again. The flag says whether it may
have counted all the same. Must not block."""


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says of a stream besides its entries; damage shows here."""

    length: int
    entries_added: int
    last: Position
    max_deleted: Position
    size_bytes: int | None = None


class Opening(msgspec.Struct, frozen=True):
    """The first read of a stream: `info` is None when there is none."""

    info: StreamInfo | None
    entries: tuple[Entry, ...]
    now_ms: int


class Foreign(Exception):  # noqa: N818 - a signal between a store and the fold, never shown to a caller
    """An entry is not of the ledger's form. `text` says how."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class WakeUp(NamedTuple):
    """Something was appended to a stream; `entries` are empty when they were too large to send along."""

    key: StreamKey
    head: Position
    entries: tuple[Entry, ...]


class Listener(Protocol):
    """Who is told of appends. Neither call may block."""

    def woken(self, wake_up: WakeUp) -> None: ...

    def gap(self, partition: int) -> None:
        """Wake-ups of this partition may have been lost (a subscription began anew): read again."""
        ...


class FeedItem(NamedTuple):
    """One line of a partition's feed: this stream has reached this version."""

    item_id: str
    key: StreamKey
    version: int


class ViewWrite(NamedTuple):
    """One change of a view's data: `field` of hash or sorted set `view`; `value` None removes it."""

    view: str
    field: str
    value: bytes | int | None
    kind: Literal["hash", "sorted", "count"] = "hash"


class Store(Protocol):
    """The port. Every call may raise StoreError; `append` raises InDoubtError when no answer came."""

    @property
    def clock(self) -> Clock: ...

    @property
    def partition_count(self) -> int: ...

    async def start(self) -> None:
        """Connect and check that this deployment is one. Raises SetupError."""
        ...

    async def close(self) -> None: ...

    def partition_of(self, key: StreamKey) -> int: ...

    async def append(
        self, append: Append, also_read: tuple[StreamKey, Position] | None = None
    ) -> tuple[AppendResult, tuple[Entry, ...]]:
        """Compare and append; `also_read` reads another stream in the same flush, after the append was sent."""
        ...

    @property
    def can_post(self) -> bool:
        """Whether it is worth trying to `post` just now."""
        ...

    def post(self, append: Append, answered: Answered) -> bool:
        """Send an append now and return at once; `answered` is called when the answer is there.

        False, and nothing was sent, where only `append` will do (no connection yet, `Append.binding`, …).
        """
        ...

    @property
    def durability(self) -> Durability:
        """What the settings of this process demand before a grant or an allow counts."""
        ...

    @property
    def confirms(self) -> bool:
        """Whether the settings demand more of what counts than that the server has it (`Durability`)."""
        ...

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        """The entry there (None: it is gone), when it and all before it are as safe as the settings demand.

        Raises InDoubtError when they are not in time.
        """
        ...

    async def open(self, key: StreamKey) -> Opening:
        """The first page of a stream with what the server says of it, and the server's time."""
        ...

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]: ...

    async def read_many(self, wanted: Sequence[tuple[StreamKey, Position]]) -> list[tuple[Entry, ...]]: ...

    async def info(self, key: StreamKey) -> StreamInfo | None: ...

    def streams(self) -> AsyncIterator[StreamKey]:
        """Every stream there is, in no order; one that appears meanwhile may be missed, and one may come twice."""
        ...

    async def now_ms(self) -> int: ...

    # hints -----------------------------------------------------------------------------------------------------------

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        """Sessions with something pending whose earliest deadline is at or before `until_ms` (None: all of them).

        Nearest first, at most `count`; `partitions` None looks in all of them.
        """
        ...

    async def next_due_ms(self) -> int | None: ...

    async def correct_due(self, session: str, seen_ms: int | None, to: Due | str, *, at: Position) -> None:
        """Set the hint, if it still is `seen_ms` and the session's stream still ends with the entry `at`."""
        ...

    async def listen(self, listener: Listener) -> None: ...

    async def subscribe(self, partition: int) -> None:
        """Return when wake-ups of this partition are delivered from now on."""
        ...

    async def renew_lease(self, place: Place, client: Presence, lease_ms: int) -> None: ...

    async def drop_lease(self, place: Place, client_id: str) -> None: ...

    async def leases(self, place: Place) -> tuple[Presence, ...]: ...

    # what projectors need --------------------------------------------------------------------------------------------

    async def read_feed(self, partitions: Sequence[int], group: str, consumer: str, count: int) -> list[FeedItem]:
        """Lines that no consumer of the group was given yet, at most `count` of each partition."""
        ...

    async def claim_feed(
        self, partitions: Sequence[int], group: str, consumer: str, idle_ms: int, count: int
    ) -> list[FeedItem]:
        """Take over lines given to any consumer so long ago and never acknowledged, at most `count` of each partition.

        Idle time is the server's real time, also where a test moves the clock.
        """
        ...

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None: ...

    async def project(self, key: StreamKey, expected_version: int, version: int, writes: Sequence[ViewWrite]) -> bool:
        """Change views and this stream's checkpoint in one step; False when the checkpoint is not `expected_version`."""
        ...

    async def checkpoint(self, key: StreamKey) -> int: ...

    async def view(self, view: str, partition: int) -> Mapping[str, bytes]:
        """A view's fields; of a sorted one, and of counts, the values are decimal numbers."""
        ...

    async def view_field(self, view: str, partition: int, field: str) -> bytes | None: ...

    async def drop_views(self, partition: int, names: Sequence[str] = ()) -> None:
        """Remove all views of a partition and its checkpoints in one step; `names` are views to expect there."""
        ...

    @property
    def views(self) -> ViewReader:
        """For readers of views."""
        ...

    @property
    def admin(self) -> Admin:
        """For those who look after the whole."""
        ...
