"""Answers of a store to readers of views, projectors, `verify`, `doctor` and `import`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from ledger.stores.keys import VIEWS_FORMAT
from ledger.stores.port import START, Entry, FeedItem, Position, StreamInfo, StreamKey
from ledger.stores.sealed import Seal

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

PROJECTORS: Final = f"projector-{VIEWS_FORMAT}"
"""The consumer group of the projectors on every feed."""

SKIPPED: Final = "skipped"
"""The view of the streams that a projector could not read to their end."""


class StreamHead(NamedTuple):
    """The last entry of a stream, and its seal if it is sealed."""

    at: Position
    seal: Seal | None = None


class RawEntry(NamedTuple):
    """One entry exactly as the server stores it, whoever wrote it."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...]


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

    `ahead` are the streams that are named by feed lines which no projector has finished, and those that none could
    read. In the partitions `unsure` other streams may be ahead, too; of them, a projector has read the feeds of `read`.
    """

    fields: list[str]
    ahead: list[StreamKey]
    unsure: list[int]
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


class OwedLines(NamedTuple):
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
