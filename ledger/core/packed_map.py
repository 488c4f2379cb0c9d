"""A persistent map whose older records are packed: encoded and compressed in blocks, and unpacked to be read. Pure.

The fold of a session has a record of every settled request, for ever. Most of them are never read again; packed, one
takes less than a tenth.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar, overload

import msgspec
from rpds import HashTrieMap

from ledger.core.block_set import Block, BlockSet
from ledger.core.mark_index import MarkIndex

T = TypeVar("T")
V = TypeVar("V")

WHOLE_MAX_COUNT: Final = 192
"""Records that are kept whole; with one more all but the youngest WHOLE_MAX_COUNT - BLOCK_COUNT are packed."""

BLOCK_COUNT: Final = 128
"""Records of a block: more compress better, and cost more to read one."""

UNPACKED_COUNT: Final = 8
"""Blocks of a kind that a process keeps unpacked, the most recently read ones."""

_MARK_BYTES: Final = 8
_LEVEL: Final = 6

_NO_RECORDS: Final[HashTrieMap[str, Any]] = HashTrieMap()
_NO_BLOCKS: Final = BlockSet()

_NOT_PACKED: Final = (msgspec.MsgspecError, OverflowError, RecursionError, TypeError, ValueError)


class Parts(msgspec.Struct, Generic[V], frozen=True):
    """The content of a map to be stored; of its blocks, by number, all but the bytes."""

    whole: dict[str, V]
    marks: bytes
    numbers: bytes
    blocks: dict[int, tuple[bytes, int, int, int]]
    next_number: int


def mark_of(key: str) -> int:
    """Return the mark of a key: the same in every process, so that an index of marks can be stored."""
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=_MARK_BYTES).digest(), "big")


class Packing(Generic[V]):
    """The way to pack the records of one type. `age` orders them: the lowest is packed first."""

    def __init__(
        self,
        record: type[V],
        age: Callable[[V], int],
        record_bytes: int,
        *,
        whole_max: int = WHOLE_MAX_COUNT,
        block: int = BLOCK_COUNT,
        mark: Callable[[str], int] = mark_of,
    ) -> None:
        self._decode: Callable[[bytes], dict[str, V]] = msgspec.msgpack.Decoder(dict[str, record]).decode  # type: ignore[valid-type]
        self.age = age
        self.record_bytes = record_bytes
        """The room that a usual record takes whole."""
        self.whole_max = whole_max
        self.block = block
        self.mark = mark
        """The mark of a key, by which its block is found; of two keys with one mark, one is kept whole."""
        self._unpacked = lru_cache(UNPACKED_COUNT)(self._unpack)

    def pack(self, records: Mapping[str, V]) -> bytes | None:
        """Return the block of these records; None where one of them would not come back as it is."""
        try:
            raw = msgspec.msgpack.encode(records)
            if self._decode(raw) != records:
                return None
        except _NOT_PACKED:
            return None
        return zlib.compress(raw, _LEVEL)

    def unpack(self, block: bytes) -> Mapping[str, V]:
        """Return all records of a block, also those that the map has in another place by now."""
        return self._unpacked(block)

    def forget(self) -> None:
        """Drop the unpacked records that the process keeps."""
        self._unpacked.cache_clear()

    def _unpack(self, block: bytes) -> Mapping[str, V]:
        return self._decode(zlib.decompress(block))


class PackedMap(Mapping[str, V]):
    """An immutable map: `insert`, `remove` and `renewed` return another one.

    It is equal to any other with the same records, whichever of them are packed.
    """

    __slots__ = ("_blocks", "_limit", "_packing", "_whole")

    def __init__(
        self,
        packing: Packing[V],
        whole: HashTrieMap[str, V] = _NO_RECORDS,
        blocks: BlockSet = _NO_BLOCKS,
        limit: int = 0,
    ) -> None:
        self._packing = packing
        self._whole = whole
        self._blocks = blocks
        self._limit = limit
        """So many records are kept whole at least, where more than `whole_max` cannot be packed."""

    # --- reading ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> V:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: str, /) -> V | None: ...

    @overload
    def get(self, key: str, /, default: V | T) -> V | T: ...

    def get(self, key: str, /, default: Any = None) -> Any:
        found = self._whole.get(key)
        if found is not None:
            return found
        if self._blocks is _NO_BLOCKS:
            return default  # saves the hash, which takes longer than all of the rest
        number = self._blocks.number_of(self._packing.mark(key))
        return default if number is None else self._records_in(number).get(key, default)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __len__(self) -> int:
        return len(self._whole) + len(self._blocks)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.pairs())

    def items(self) -> ItemsView[str, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def __repr__(self) -> str:
        return f"PackedMap({dict(self.items())!r})"

    def pairs(self) -> Iterator[tuple[str, V]]:
        """Iterate over keys and records, unpacking each block once."""
        return iter(_pairs_of(self._whole)) if self._blocks is _NO_BLOCKS else self._all_pairs()

    def _all_pairs(self) -> Iterator[tuple[str, V]]:
        yield from _pairs_of(self._whole)
        for number in self._blocks:
            yield from self._read_from(number).items()

    def newest(self, before: int | None = None) -> Iterator[V]:
        """Iterate over the records from the youngest to the oldest; `before` begins below an age.

        Blocks are unpacked only as far as the caller goes on.
        """
        age = self._packing.age
        held = _below(before, age, (one for _, one in _pairs_of(self._whole)))
        for number in self._blocks.by_age():
            block = self._blocks[number]
            if before is not None and block.oldest >= before:
                continue
            while held and age(held[-1]) > block.youngest:
                yield held.pop()
            held = sorted((*held, *_below(before, age, self._read_from(number).values())), key=age)
        yield from reversed(held)

    def _records_in(self, number: int) -> Mapping[str, V]:
        """Return the records of a block, which may be older forms of some."""
        return self._packing.unpack(self._blocks[number].data)

    def _read_from(self, number: int) -> dict[str, V]:
        """Return the records that the map reads from a block."""
        mark, number_of = self._packing.mark, self._blocks.number_of
        return {key: one for key, one in self._records_in(number).items() if number_of(mark(key)) == number}

    @property
    def whole_count(self) -> int:
        """Return the number of records that are not packed."""
        return len(self._whole)

    @property
    def whole_bytes(self) -> int:
        """Return an estimate of the room that the whole records take."""
        return len(self._whole) * self._packing.record_bytes

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the room that the map takes."""
        return self.whole_bytes + self._blocks.size_bytes

    # --- storing ----------------------------------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """Return the number of the next block; all blocks that the map ever had have a lower one."""
        return self._blocks.next_number

    def blocks(self) -> dict[int, Block]:
        """Return the blocks by number. The bytes under a number never change."""
        return {number: self._blocks[number] for number in self._blocks}

    def parts(self) -> Parts[V]:
        """Return the content to be stored beside the bytes of the blocks."""
        held = {
            number: (one.digest, one.oldest, one.youngest, one.reads_count) for number, one in self.blocks().items()
        }
        return Parts(dict(_pairs_of(self._whole)), *self._blocks.index_bytes(), held, self._blocks.next_number)

    # --- changing ---------------------------------------------------------------------------------------------------

    def insert(self, key: str, record: V) -> PackedMap[V]:
        """Return the map with this record, in place of an older one of the same key."""
        if self._blocks is _NO_BLOCKS:
            return self._with(self._whole.insert(key, record), _NO_BLOCKS, self._limit)
        is_packed = key not in self._whole and key in self
        blocks = self._blocks.without(self._packing.mark(key)) if is_packed else self._blocks
        return self._with(self._whole.insert(key, record), blocks, self._limit)

    def remove(self, key: str) -> PackedMap[V]:
        """Return the map without a record. Raises KeyError for an unknown one."""
        if key in self._whole:
            return self._with(self._whole.remove(key), self._blocks, self._limit)
        if key not in self:
            raise KeyError(key)
        return self._with(self._whole, self._blocks.without(self._packing.mark(key)), self._limit)

    def renewed(self, changed: Mapping[str, V], gone: Collection[str] = ()) -> PackedMap[V]:
        """Return the map with these records in place of older ones, of which nothing is kept in any block.

        Nor is anything of the keys `gone`, which the map may have held before.
        """
        whole, blocks = self._whole, self._blocks
        wanted = changed.keys() | set(gone)
        for number in self._blocks:
            if wanted.isdisjoint(self._records_in(number)):
                continue
            records = self._read_from(number)
            blocks = blocks.without_block(number, [self._packing.mark(key) for key in records])
            for key, record in records.items():
                whole = whole.insert(key, record)
        for key, record in changed.items():
            whole = whole.insert(key, record)
        self._packing.forget()
        return self._with(whole, blocks, 0)

    def _with(self, whole: HashTrieMap[str, V], blocks: BlockSet, limit: int) -> PackedMap[V]:
        """Return the map of these records, the older ones packed if too many are whole."""
        packing, count = self._packing, len(whole)
        if count <= packing.whole_max or count <= limit:
            return PackedMap(packing, whole, blocks, limit)
        aged = sorted(_pairs_of(whole), key=lambda pair: packing.age(pair[1]))
        older = aged[: len(aged) - (packing.whole_max - packing.block)]
        for start in range(0, len(older), packing.block):
            free = {packing.mark(key): (key, one) for key, one in older[start : start + packing.block]}
            records, data = _packed(packing, [one for mark, one in free.items() if blocks.number_of(mark) is None])
            if records:
                ages = [packing.age(one) for one in records.values()]
                blocks = blocks.added(data, [packing.mark(key) for key in records], ages)
            for key in records:
                whole = whole.remove(key)
        # What cannot be packed is not tried again with every record.
        return PackedMap(packing, whole, blocks, 2 * len(whole))


def _pairs_of(whole: HashTrieMap[str, V]) -> list[tuple[str, V]]:
    """Return keys and records, as `pickle` would have them.

    The map's own iterators take five to eighteen times as long: each step makes a map without the key that it returns.
    """
    reduced: Any = whole.__reduce__()
    pairs: list[tuple[str, V]] = reduced[1][0]
    return pairs


def _below(before: int | None, age: Callable[[V], int], records: Iterable[V]) -> list[V]:
    """Return the records below an age, the youngest last."""
    return sorted((one for one in records if before is None or age(one) < before), key=age)


def _packed(packing: Packing[V], pairs: Sequence[tuple[str, V]]) -> tuple[dict[str, V], bytes]:
    """Return those records that can be packed, and their block."""
    records = dict(pairs)
    block = packing.pack(records)
    if block is None:
        records = {key: record for key, record in pairs if packing.pack({key: record}) is not None}
        block = packing.pack(records)
    return ({}, b"") if block is None else (records, block)


def from_parts(packing: Packing[V], parts: Parts[V], blocks: Mapping[int, bytes]) -> PackedMap[V]:
    """Return the map that was stored. Raises ValueError for blocks or parts that are not of one map."""
    held = {number: Block(blocks.get(number, b""), *block) for number, block in parts.blocks.items()}
    index = MarkIndex.of_bytes(parts.marks, parts.numbers)
    return PackedMap(packing, HashTrieMap(parts.whole), BlockSet.of(held, index, parts.next_number))


class _Items(ItemsView[str, V]):
    _mapping: PackedMap[V]

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return self._mapping.pairs()


class _Values(ValuesView[V]):
    _mapping: PackedMap[V]

    def __iter__(self) -> Iterator[V]:
        return (record for _, record in self._mapping.pairs())
