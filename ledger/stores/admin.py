"""The operations of a store for administration: readers of views, projectors, `verify`, `doctor`, `import`.

No decision depends on them; the core uses `ledger.stores.port`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ledger.stores.port import Append, AppendResult, Due, Entry, Position, StreamKey


class RawEntry(NamedTuple):
    """One entry exactly as the server stores it, whoever wrote it."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...]


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


class ViewReader(Protocol):
    """Reads of view data beyond a single field."""

    async def read(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        """Return several views of a partition as of one instant; numbers are decimal."""
        ...

    async def fields(self, view: str, partition: int, fields: Sequence[str]) -> list[bytes | None]:
        """Return some fields of a hash; None for a field that is missing."""
        ...

    async def highest(self, view: str, count: int) -> list[tuple[str, int]]:
        """Return the fields with the highest numbers of a sorted view, over all partitions, highest first."""
        ...

    async def starting(self, view: str, prefix: str) -> list[str]:
        """Return the fields with this prefix, over all partitions, of a sorted view whose numbers are all 0."""
        ...

    def names(self) -> AsyncIterator[tuple[int, str]]:
        """Iterate over partition and name of every view that is not empty."""
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

    async def heads(self, keys: Sequence[StreamKey]) -> list[Position]:
        """Return the last entry of each stream; 0-0 for an empty one."""
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

    async def gaps(self, partitions: Sequence[int], group: str, idle_ms: int | None = None) -> list[int]:
        """Return the partitions whose feed has trimmed lines that were not delivered to the group yet.

        With `idle_ms` also those that trimmed lines delivered at least so long ago and never acknowledged.
        """
        ...

    async def forget_consumers(self, partitions: Sequence[int], group: str, idle_ms: int) -> None:
        """Delete consumers that have an empty PEL and have been idle for `idle_ms`."""
        ...

    async def leave_group(self, partitions: Sequence[int], group: str, consumer: str) -> None:
        """Delete a consumer if its PEL is empty."""
        ...

    async def partitions(self) -> list[PartitionFacts]: ...

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

    async def facts_of_each_server(self) -> list[dict[str, str]]:
        """Return `server_facts` of every primary of a cluster; elsewhere of the one server."""
        ...
