"""What those ask of a store who look after a ledger: readers of views, projectors, `verify`, `doctor`, `import`.

Nothing here decides anything; `ledger.stores.port` is what the core needs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ledger.stores.port import Due, Entry, Position, StreamKey


class RawEntry(NamedTuple):
    """One entry exactly as it lies on the server, whoever wrote it."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...]


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group on a partition's feed. `lag_count` is how many lines nobody was given yet."""

    name: str
    consumer_count: int
    pel_count: int
    lag_count: int


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in one partition besides its streams."""

    partition: int
    feed_count: int
    due_count: int
    groups: tuple[GroupFacts, ...]


class ViewReader(Protocol):
    """Reading the data of views beyond a single field."""

    async def read(self, partition: int, names: Sequence[str]) -> dict[str, Mapping[str, bytes]]:
        """Several views of a partition as of one instant; numbers are decimal."""
        ...

    async def fields(self, view: str, partition: int, fields: Sequence[str]) -> list[bytes | None]:
        """Some fields of a hash."""
        ...

    async def highest(self, view: str, count: int) -> list[tuple[str, int]]:
        """The fields with the highest numbers of a sorted view, over all partitions, highest first."""
        ...

    async def starting(self, view: str, prefix: str) -> list[str]:
        """The fields that begin so, over all partitions, of a sorted view whose numbers are all 0."""
        ...

    def names(self) -> AsyncIterator[tuple[int, str]]:
        """Partition and name of every view that holds anything."""
        ...


class Admin(Protocol):
    """Looking after the whole. Every call may raise StoreError."""

    async def raw(self, key: StreamKey, after: Position, count: int) -> tuple[RawEntry, ...]:
        """Entries as they lie there, also those that the ledger did not write."""
        ...

    async def heads(self, keys: Sequence[StreamKey]) -> list[Position]:
        """The last entry of each stream; 0-0 where there is none."""
        ...

    async def restore(self, key: StreamKey, after: Position, entries: Sequence[Entry], due: Due | None) -> bool:
        """Add entries under their own ids after exactly this one; False when the stream ends elsewhere."""
        ...

    async def gaps(self, partitions: Sequence[int], group: str, idle_ms: int | None = None) -> list[int]:
        """Partitions whose feed has dropped lines that the group was not given yet.

        With `idle_ms` also lines that were given to a consumer so long ago and were dropped before it acknowledged.
        """
        ...

    async def forget_consumers(self, partitions: Sequence[int], group: str, idle_ms: int) -> None:
        """Drop the names of consumers that hold nothing and were not heard of for so long."""
        ...

    async def leave_group(self, partitions: Sequence[int], group: str, consumer: str) -> None:
        """Drop a consumer's own name, where it holds nothing."""
        ...

    async def partitions(self) -> list[PartitionFacts]: ...

    async def server_facts(self) -> dict[str, str]:
        """What the server says of itself: the fields of INFO and, where it tells them, its settings."""
        ...

    async def take_turn(self, name: str, holder: str, lease_ms: int) -> bool:
        """Whether this piece of work is the holder's for so long from now; taken again, it is prolonged.

        Keeps two workers from doing the same at once, no more: what must not happen twice does not rest on it.
        """
        ...

    async def end_turn(self, name: str, holder: str) -> None:
        """Leave a piece of work to others, if it is the holder's."""
        ...

    async def turns_held(self, names: Sequence[str]) -> frozenset[str]:
        """Which of these pieces of work are somebody's just now."""
        ...

    async def secret(self) -> bytes:
        """A random key that all processes of this deployment share, and nobody else: for signing what is handed out."""
        ...

    async def link_key(self) -> bytes:
        """The key that signs answer links, as it is now: whoever signs or reads one asks anew each time."""
        ...

    async def replace_link_key(self) -> None:
        """Make a new random key for answer links: no link that is out is good any more."""
        ...

    async def note_reads(self, kind: str, lines: Sequence[bytes], count_max: int, oldest_ms: int) -> None:
        """Add lines to the reads of a kind, and let go of those before `oldest_ms` and beyond about `count_max`."""
        ...

    async def reads(self, kind: str, since_ms: int, count: int) -> list[tuple[int, bytes]]:
        """The newest lines of a kind with their times, oldest first."""
        ...

    async def facts_of_each_server(self) -> list[dict[str, str]]:
        """The same of every primary of a cluster; of one server elsewhere."""
        ...
