"""The operations of a store for administration: readers of views, projectors, `verify`, `doctor`, `import`.

No decision depends on them; the core uses `ledger.stores.port`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from ledger.stores.keys import VIEWS_FORMAT
from ledger.stores.port import Append, AppendResult, Due, Entry, FeedItem, Position, StreamInfo, StreamKey
from ledger.stores.sealed import Seal

PROJECTORS: Final = f"projector-{VIEWS_FORMAT}"
"""The consumer group of the projectors on every feed."""

SKIPPED: Final = "skipped"
"""The view of the streams that a projector could not read to their end."""


class RawEntry(NamedTuple):
    """One entry exactly as the server stores it, whoever wrote it."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...]


class ShortStream(NamedTuple):
    """A stream that was read whole and at once: its metadata, and all entries, each in the ledger's format."""

    info: StreamInfo
    entries: tuple[Entry, ...]


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group on a partition's feed. `lag_count` counts the lines not yet delivered to any consumer."""

    name: str
    consumer_count: int
    pel_count: int
    lag_count: int


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of one partition besides its streams."""

    partition: int
    feed_count: int
    due_count: int
    groups: tuple[GroupFacts, ...]


class FoundFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields found in an index of the views, and what the views may lag behind.

    `ahead` are the streams that are named by feed lines which no projector has finished, and those that none could
    read. In the partitions `unsure` other streams may be ahead, too.
    """

    fields: list[str]
    ahead: list[StreamKey]
    unsure: list[int]


class WantedFields(NamedTuple):
    """Some fields of a hash of a partition, at least one."""

    view: str
    partition: int
    fields: Sequence[str]


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


class ViewReader(Protocol):
    """Reads of view data beyond a single field."""

    async def read(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        """Return several views of a partition as of one instant; numbers are decimal."""
        ...

    async def fields(self, view: str, partition: int, fields: Sequence[str]) -> list[bytes | None]:
        """Return some fields of a hash; None for a field that is missing."""
        ...

    async def fields_of_each(self, wanted: Sequence[WantedFields]) -> list[list[bytes | None]]:
        """Return some fields of several hashes, as `fields` does; one command each, all sent at once."""
        ...

    async def names(self, view: str, partition: int) -> list[str]:
        """Return the names of all fields of a hash of a partition."""
        ...

    async def page(self, view: str, prefix: str, count: int, after: str = "", *, backwards: bool = False) -> list[str]:
        """Return the first `count` fields with this prefix after a field, over all partitions, in order.

        `backwards` begins with the last field and goes on to those before: `after` is a later one then.

        For a sorted view whose numbers are all 0. What is read does not grow with the view.
        """
        ...

    async def starting(self, view: str, prefix: str) -> list[str]:
        """Return the fields with this prefix, over all partitions, of a sorted view whose numbers are all 0."""
        ...

    async def look_up(self, view: str | None, prefix: str = "", count: int = 0) -> FoundFields:
        """Return the first `count` fields with this prefix of a sorted view, and the streams that may have others.

        Its numbers are all 0; None is no view. Each partition is read as of one instant, so that every appended event is in the view, or its stream in `ahead`,
        or its partition in `unsure`.
        """
        ...

    async def counts(self, view: str) -> list[dict[str, int]]:
        """Return all fields of a view of counts, of each partition; one command a partition."""
        ...

    async def survey(self) -> Mapping[int, Sequence[str]]:
        """Return the names of all views that are not empty, by partition, in one pass over the keys."""
        ...


class StreamRewrite(Protocol):
    """A rewrite of a stream without the content (`x`) of some entries: prepared piece by piece, finished in one step.

    Until then the stream is as it was, and other writers go on. All ids, payloads and other contents are kept.
    """

    async def finish(self, append: Append) -> AppendResult:
        """Put the rewritten stream in the place of the old one, and append an event, in one step or not at all.

        May be repeated with another append after a conflict. Raises InDoubtError; SetupError without the rights for it.
        """
        ...

    async def close(self) -> None:
        """Remove what an unfinished rewrite has left on the server."""
        ...


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


class Admin(Protocol):
    """Administration of a deployment. Every call may raise StoreError."""

    async def raw(self, key: StreamKey, after: Position, count: int) -> tuple[RawEntry, ...]:
        """Return entries as stored, including those that the ledger did not write."""
        ...

    async def short_streams(self, keys: Sequence[StreamKey], count: int) -> list[ShortStream | None]:
        """Return, in one round trip, each stream that has fewer than `count` entries, all in the ledger's format.

        None is any other stream, and one that cannot be read: to be read by itself, which says what is wrong.
        """
        ...

    async def heads(self, keys: Sequence[StreamKey]) -> list[Position]:
        """Return the last entry of each stream, sealed ones included; 0-0 for an empty one, and where a key holds none."""
        ...

    async def seal(self, key: StreamKey, seal: Seal) -> bool:
        """Put a stub in the place of a session's stream and remove its due hint, in one step.

        Return True also when this stub is there already. Return False when the stream does not end with `seal.head`,
        more than SEALING_MS after `seal.sealed_ms`, and for a file that was closed.
        The caller must have checked before that the archive holds the entries. Raises InDoubtError; SetupError without
        the rights for it.
        """
        ...

    async def seals(self, keys: Sequence[StreamKey]) -> list[Seal | None]:
        """Return the seal of each stream, None for one that is not sealed. Raises DamageError for a broken stub."""
        ...

    async def reseal(self, key: StreamKey, seal: Seal, to: Seal) -> bool:
        """Put the stub `to` in the place of the stub `seal`, in one step; a later head is told as an append is.

        Return True also when `to` is there already. Return False when something else is there, and where `seal` of
        `to` would do so. The caller must have checked before that the archive holds the entries. Raises InDoubtError.
        """
        ...

    async def close_file(self, keys: Sequence[StreamKey], file: str) -> None:
        """Forbid that stubs of these streams name a file from now on; those that name it stay.

        It holds for CLOSED_MS, after which `seal` and `reseal` refuse a file by its age. Raises InDoubtError.
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

    def rewrite(self, key: StreamKey, versions: Sequence[int]) -> StreamRewrite:
        """Begin to rewrite a stream without the content of these versions, in ascending order."""
        ...

    async def rewrite_files(self) -> list[FilesRewritten]:
        """Make every server write its files anew from what it holds now, and wait for it."""
        ...

    async def places(self, partitions: Sequence[int], group: str, idle_ms: int | None = None) -> dict[int, str]:
        """Return for each partition with a feed the id of the last line that was delivered to the group.

        With `idle_ms` it is the first line that was delivered at least so long ago and never acknowledged, if there is
        one. The id is empty where the group has not begun.
        """
        ...

    async def trimmed(self, places: Mapping[int, str]) -> list[int]:
        """Return the partitions whose feed begins after these places: it has dropped lines that matter.

        Once the next lines are delivered nothing shows any more that others were dropped before them. So a reader asks
        for the places before it takes lines, and for this afterwards. A full feed whose place is empty counts, too.
        """
        ...

    async def uncounted(self, partitions: Sequence[int]) -> list[int]:
        """Return the partitions without a finished census: a comparison of all streams with their views.

        Since a finished one, every stream that is ahead of its views is named by a line of the feed.
        """
        ...

    async def begin_census(self, partitions: Sequence[int], census: str) -> None:
        """Begin a census under a new name, in place of any other."""
        ...

    async def end_census(self, partitions: Sequence[int], census: str) -> None:
        """End a census. It is finished unless another began, or the views were dropped, since it began."""
        ...

    async def withdraw_census(self, partitions: Sequence[int]) -> None:
        """Withdraw the census: lines of these feeds were trimmed before a projector had read them."""
        ...

    async def owed(
        self, group: str, since: Mapping[int, str], count: int, partitions: Sequence[int] | None = None
    ) -> list[OwedLines]:
        """Return the feeds' lines that a group may not have dealt with, of each partition that has any, oldest first.

        They begin after the id in `since`, or with the first line that the group was not given or has not
        acknowledged, whichever is later; at most `count` of each partition. Nothing is taken from the group. A group
        that nobody has read with was given nothing. `partitions` None means all partitions.
        """
        ...

    async def feed_ends(self) -> list[FeedItem]:
        """Return the last line of each partition's feed that has any; its `place` is one in `owed`."""
        ...

    async def forget_consumers(self, partitions: Sequence[int], group: str, idle_ms: int) -> None:
        """Delete consumers that have an empty PEL and have been idle for `idle_ms`."""
        ...

    async def leave_group(self, partitions: Sequence[int], group: str, consumer: str) -> None:
        """Delete a consumer if its PEL is empty."""
        ...

    async def partitions(self) -> list[PartitionFacts]: ...

    async def set_back_ms(self) -> int:
        """Return how far the server's clock is behind the newest line of all feeds: it was set back; 0 if it was not."""
        ...

    async def check_writable(self) -> None:
        """Raise the error of a write that a server refuses now (its disk or memory is full), without writing anything."""
        ...

    async def server_facts(self) -> dict[str, str]:
        """Return the fields of INFO and, where CONFIG GET is permitted, the server's settings."""
        ...

    async def take_turn(self, name: str, holder: str, lease_ms: int) -> bool:
        """Acquire or extend a lease on a piece of work; return whether `holder` has it.

        It avoids duplicate work only. Correctness never depends on it.
        """
        ...

    async def end_turn(self, name: str, holder: str) -> None:
        """Release the lease on a piece of work if `holder` has it."""
        ...

    async def turns_held(self, names: Sequence[str]) -> frozenset[str]:
        """Return the names that are leased now."""
        ...

    async def secret(self) -> bytes:
        """Return the random signing key that all processes of this deployment share."""
        ...

    async def link_key(self) -> bytes:
        """Return the current key of answer links; do not cache it."""
        ...

    async def replace_link_key(self) -> None:
        """Replace the key of answer links with a new random one; this invalidates all issued links."""
        ...

    async def note_reads(self, kind: str, lines: Sequence[bytes], count_max: int, oldest_ms: int) -> None:
        """Append lines to the reads of a kind; trim those before `oldest_ms` and beyond about `count_max`."""
        ...

    async def reads(self, kind: str, since_ms: int, count: int) -> list[tuple[int, bytes]]:
        """Return the newest lines of a kind with their times (ms), oldest first."""
        ...

    async def streams_page(self, cursor: str, count: int) -> tuple[list[StreamKey], str]:
        """Return some of all streams, unordered, and the cursor of the next page; `""` begins, and is the end.

        About `count` keys are looked at, of which many may be no streams. A cursor may be kept for any time: after a
        restart of the server the pages begin anew there. A stream that exists all the while comes at least once.
        """
        ...

    async def notes(self, name: str) -> Mapping[str, bytes]:
        """Return what workers have noted under a name."""
        ...

    async def note(self, name: str, field: str, value: bytes) -> None:
        """Note a small value for workers that are started later. No decision depends on it."""
        ...

    async def facts_of_each_server(self) -> list[dict[str, str]]:
        """Return `server_facts` of every primary of a cluster; elsewhere of the one server."""
        ...
