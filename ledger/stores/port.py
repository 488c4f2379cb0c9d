"""Arguments and results of a store: streams, entries, appends and their results, wake-ups, feeds and views.

Times are milliseconds of the server's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple
from zlib import crc32

import msgspec

from ledger.core.codec import EntryFields
from ledger.core.events import Presence

StreamKind = Literal["session", "project", "access", "policy"]


class AskersOf(NamedTuple):
    """The place of the askers that wait for the requests of a session."""

    session: str


class WorkPlace(NamedTuple):
    """The place of whoever does a piece of work, which several processes could do."""

    name: str


Place = str | AskersOf | WorkPlace | None
"""The scope of a lease: a session, the open inboxes (None), askers of a session, or a piece of work."""

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

    def partition(self, count: int) -> int:
        """Return CRC-32 of the name modulo the partition count; fixed for the life of a deployment."""
        return crc32(self.name.encode()) % count

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


class RawEntry(NamedTuple):
    """One entry exactly as the server stores it, whoever wrote it."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...]


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


CHECKPOINTS_VIEW: Final = "checkpoints"
"""The view of the entry that each stream's views are as of, under the stream's name, which the store itself compares.

Unlike a version, the id of an entry reveals a lost history.
"""

NO_ENTRY: Final = Position(-1, 0)
"""The checkpoint in place of a broken one: no stream holds it, so that its views are taken for lost, and made anew."""

CENSUS_BEGUN: Final = "\nbegun"
CENSUS_DONE: Final = "\ndone"
"""The fields of the view CENSUS with the names of the censuses last begun and ended: comparisons of all streams of a
partition with their views. Since one that ended, every stream that is ahead of its views is named by a line of the feed.
"""

SKIPPED: Final = "skipped"
"""The view of the streams that a projector could not read to their end."""


class ShortStream(NamedTuple):
    """A stream that was read whole and at once: its metadata, and all entries, each in the ledger's format."""

    info: StreamInfo
    entries: tuple[Entry, ...]


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group on a partition's feed; `delivered` is the id of the last line that any consumer was given."""

    name: str
    consumer_count: int
    pel_count: int
    delivered: str


class FeedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The feed of one partition; `last` is its last line."""

    partition: int
    last: FeedItem | None
    feed_count: int
    groups: tuple[GroupFacts, ...]


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


class FoundFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields found in an index of the views, and what the views may lag behind.

    `unprojected` are the streams that are named by feed lines which no projector has finished, and those that none could
    read. In the partitions `incomplete` other streams may be ahead, too; of them, a projector has read the feeds of `read`.
    """

    fields: list[str]
    unprojected: list[StreamKey]
    incomplete: list[int]
    read: list[int]


class WantedFields(NamedTuple):
    """Some fields of a view of a partition, at least one."""

    view: str
    partition: int
    fields: Sequence[str]


class TakenLines(NamedTuple):
    """The lines that were delivered, and the partitions whose feeds dropped lines that the group has not dealt with.

    The first `taken_over` lines were delivered before, and never acknowledged.
    """

    items: Sequence[FeedItem]
    gaps: Sequence[int]
    taken_over: int = 0


class FeedLines(NamedTuple):
    """Lines of a partition's feed that a group may not have dealt with.

    `after` is the feed's id of the last of them, to go on from. `trimmed`: lines before them are gone, and nobody read
    them. `complete`: these are all.
    """

    partition: int
    items: tuple[FeedItem, ...]
    after: str
    trimmed: bool
    complete: bool


class FilesRewritten(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one server after they were asked to be rewritten: each part is `done`, `off`, or the reason why not.

    `replicas` are the addresses of the server's replicas, whose own files the ledger cannot reach.
    """

    server: str
    append_only_file: str
    snapshot_file: str
    slow_log: str
    replicas: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether nothing that the server wrote before is left in its files."""
        return {self.append_only_file, self.snapshot_file, self.slow_log} <= {"done", "off"} and not self.replicas


def checkpoint_in(value: bytes | None) -> Position:
    """Return the checkpoint that a field holds: START without one, NO_ENTRY where it is broken."""
    if value is None:
        return START
    try:
        return Position.parse(value.decode())
    except ValueError:
        return NO_ENTRY
