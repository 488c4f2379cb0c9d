"""The blocks of a packed map: bytes by number, and the number of the block that each mark is read from. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from rpds import HashTrieMap

from ledger.core.mark_index import ENTRY_BYTES, MarkIndex

BLOCK_BYTES: Final = 250
"""The room that a block takes besides its bytes."""

_NO_MARKS: Final = MarkIndex()


class Block(NamedTuple):
    """Packed records, with the digest (SHA-256) of their bytes; `reads_count` of them are read from here.

    `oldest` and `youngest` are the lowest and the highest age of a record in it.
    """

    data: bytes
    digest: bytes
    oldest: int
    youngest: int
    reads_count: int


_NO_BLOCKS: Final[HashTrieMap[int, Block]] = HashTrieMap()


class BlockSet:
    """An immutable set of blocks: each change returns another one. A number is never given to a second block."""

    __slots__ = ("_by_number", "_bytes", "_index", "next_number")

    def __init__(
        self,
        by_number: HashTrieMap[int, Block] = _NO_BLOCKS,
        index: MarkIndex = _NO_MARKS,
        next_number: int = 0,
        blocks_bytes: int = 0,
    ) -> None:
        self._by_number = by_number
        self._index = index
        self._bytes = blocks_bytes
        self.next_number = next_number
        """The number of the next block; all blocks that the set ever had have a lower one."""

    @classmethod
    def of(cls, blocks: Mapping[int, Block], index: MarkIndex, next_number: int) -> BlockSet:
        """Return the set that was stored. Raises ValueError for parts that are not of one set."""
        if any(sha256(block.data).digest() != block.digest for block in blocks.values()):
            raise ValueError("a block is missing, or is another one")
        if len(index) != sum(block.reads_count for block in blocks.values()) or any(
            one >= next_number for one in blocks
        ):
            raise ValueError("the index is not that of these blocks")
        return cls(HashTrieMap(blocks), index, next_number, sum(len(block.data) for block in blocks.values()))

    def __len__(self) -> int:
        """Return the number of marks."""
        return len(self._index)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._by_number))

    def __getitem__(self, number: int) -> Block:
        return self._by_number[number]

    def by_age(self) -> list[int]:
        """Return the numbers of the blocks, the one with the youngest record first."""
        return sorted(self._by_number, key=lambda number: self._by_number[number].youngest, reverse=True)

    def number_of(self, mark: int) -> int | None:
        """Return the number of the block that a mark is read from."""
        return self._index.get(mark) if self._by_number else None

    def index_bytes(self) -> tuple[bytes, bytes]:
        """Return the marks in order and the number of the block of each, as bytes."""
        return self._index.as_bytes()

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the room that the set takes."""
        return self._bytes + len(self._by_number) * BLOCK_BYTES + len(self._index) * ENTRY_BYTES

    def added(self, data: bytes, marks: Collection[int], ages: Collection[int]) -> BlockSet:
        """Return the set with one more block, from which these marks are read; none of them may be in it."""
        block = Block(data, sha256(data).digest(), min(ages), max(ages), len(marks))
        return BlockSet(
            self._by_number.insert(self.next_number, block),
            self._index.added(marks, self.next_number),
            self.next_number + 1,
            self._bytes + len(data),
        )

    def without(self, mark: int) -> BlockSet:
        """Return the set without a mark, which it must have, and without its block if that was the last one of it."""
        number = self._index.get(mark)
        assert number is not None
        block = self._by_number[number]
        if block.reads_count == 1:
            return self.without_block(number, [mark])
        by_number = self._by_number.insert(number, block._replace(reads_count=block.reads_count - 1))
        return BlockSet(by_number, self._index.removed(mark), self.next_number, self._bytes)

    def without_block(self, number: int, marks: Collection[int]) -> BlockSet:
        """Return the set without a block, from which these marks were read."""
        index = self._index
        for mark in marks:
            index = index.removed(mark)
        left_bytes = self._bytes - len(self._by_number[number].data)
        return BlockSet(self._by_number.remove(number), index, self.next_number, left_bytes)
