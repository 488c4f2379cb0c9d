"""A persistent map whose older records are packed: encoded and compressed in blocks, and unpacked to be read. Pure.

The fold of a session has a record of every settled request, for ever. Most of them are never read again; packed, one
takes about a tenth.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar, overload

import msgspec
from rpds import HashTrieMap

T = TypeVar("T")
V = TypeVar("V")

WHOLE_MAX_COUNT: Final = 192
"""Records that are kept whole; with one more all but the youngest WHOLE_MAX_COUNT - BLOCK_COUNT are packed."""

BLOCK_COUNT: Final = 128
"""Records of a block: more compress better, and cost more to read one."""

UNPACKED_COUNT: Final = 8
"""Blocks of a kind that a process keeps unpacked, the most recently read ones."""

KEY_BYTES: Final = 110
"""The room that a packed record takes besides its block."""

_MARK_BITS: Final = (1 << 60) - 1
"""An integer of so many bits takes 32 bytes, a key of 30 characters 80."""

_LEVEL: Final = 6

_NOT_PACKED: Final = (msgspec.MsgspecError, OverflowError, RecursionError, TypeError, ValueError)


class Parts(msgspec.Struct, Generic[V], frozen=True):
    """The content of a map to be stored: the whole records, and each block with the keys that it is read for."""

    whole: dict[str, V]
    blocks: list[tuple[bytes, list[str]]]


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
        mark: Callable[[str], int] = lambda key: hash(key) & _MARK_BITS,
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

    __slots__ = ("_limit", "_packed", "_packed_bytes", "_packing", "_whole")

    def __init__(
        self,
        packing: Packing[V],
        whole: HashTrieMap[str, V] | None = None,
        packed: HashTrieMap[int, bytes] | None = None,
        packed_bytes: int = 0,
        limit: int | None = None,
    ) -> None:
        self._packing = packing
        self._whole: HashTrieMap[str, V] = HashTrieMap() if whole is None else whole
        self._packed: HashTrieMap[int, bytes] = HashTrieMap() if packed is None else packed
        self._packed_bytes = packed_bytes
        self._limit = packing.whole_max if limit is None else limit

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
        block = self._packed.get(self._packing.mark(key)) if self._packed else None
        return default if block is None else self._packing.unpack(block).get(key, default)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __len__(self) -> int:
        return len(self._whole) + len(self._packed)

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
        yield from self._whole.items()
        for block in self._blocks():
            records = self._packing.unpack(block)
            for key in self._read_from(block):
                yield key, records[key]

    def _blocks(self) -> list[bytes]:
        return list({id(block): block for block in self._packed.values()}.values())

    def _read_from(self, block: bytes) -> list[str]:
        """Return the keys whose records the map reads from a block; it may hold older forms of others."""
        mark, packed = self._packing.mark, self._packed
        return [key for key in self._packing.unpack(block) if packed.get(mark(key)) is block]

    @property
    def whole_bytes(self) -> int:
        """Return an estimate of the room that the whole records take."""
        return len(self._whole) * self._packing.record_bytes

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the room that the map takes."""
        return self.whole_bytes + len(self._packed) * KEY_BYTES + self._packed_bytes

    def parts(self) -> Parts[V]:
        """Return the content to be stored."""
        return Parts(dict(self._whole.items()), [(block, self._read_from(block)) for block in self._blocks()])

    # --- changing ---------------------------------------------------------------------------------------------------

    def insert(self, key: str, record: V) -> PackedMap[V]:
        """Return the map with this record, in place of an older one of the same key."""
        packed = self._packed
        if packed and key not in self._whole and key in self:
            packed = packed.remove(self._packing.mark(key))
        return self._with(self._whole.insert(key, record), packed)

    def remove(self, key: str) -> PackedMap[V]:
        """Return the map without a record. Raises KeyError for an unknown one."""
        if key in self._whole:
            return self._with(self._whole.remove(key), self._packed)
        if key not in self:
            raise KeyError(key)
        return self._with(self._whole, self._packed.remove(self._packing.mark(key)))

    def renewed(self, changed: Mapping[str, V], gone: Collection[str] = ()) -> PackedMap[V]:
        """Return the map with these records in place of older ones, of which nothing is kept in any block.

        Nor is anything of the keys `gone`, which the map may have held before.
        """
        whole, packed, packed_bytes = self._whole, self._packed, 0
        wanted = changed.keys() | set(gone)
        for block in self._blocks():
            records = self._packing.unpack(block)
            if wanted.isdisjoint(records):
                packed_bytes += len(block)
                continue
            for key in self._read_from(block):
                packed, whole = packed.remove(self._packing.mark(key)), whole.insert(key, records[key])
        for key, record in changed.items():
            whole = whole.insert(key, record)
        self._packing.forget()
        return _packed_if_many(self._packing, whole, packed, packed_bytes, self._packing.whole_max)

    def _with(self, whole: HashTrieMap[str, V], packed: HashTrieMap[int, bytes]) -> PackedMap[V]:
        if len(whole) <= self._limit:
            return PackedMap(self._packing, whole, packed, self._packed_bytes, self._limit)
        return _packed_if_many(self._packing, whole, packed, self._packed_bytes, self._limit)


def _packed_if_many(
    packing: Packing[V],
    whole: HashTrieMap[str, V],
    packed: HashTrieMap[int, bytes],
    packed_bytes: int,
    limit: int,
) -> PackedMap[V]:
    """Return the map of these records, the older ones packed if more than `limit` are whole."""
    if len(whole) <= limit:
        return PackedMap(packing, whole, packed, packed_bytes, limit)
    aged = sorted(whole.items(), key=lambda pair: packing.age(pair[1]))
    older = aged[: len(aged) - (packing.whole_max - packing.block)]
    for start in range(0, len(older), packing.block):
        free = {packing.mark(key): (key, one) for key, one in older[start : start + packing.block]}
        records, block = _packed(packing, [pair for mark, pair in free.items() if mark not in packed])
        packed_bytes += len(block)
        for key in records:
            whole, packed = whole.remove(key), packed.insert(packing.mark(key), block)
    # What cannot be packed is not tried again with every record.
    return PackedMap(packing, whole, packed, packed_bytes, max(packing.whole_max, 2 * len(whole)))


def _packed(packing: Packing[V], pairs: Sequence[tuple[str, V]]) -> tuple[dict[str, V], bytes]:
    """Return those records that can be packed, and their block."""
    records = dict(pairs)
    block = packing.pack(records)
    if block is None:
        records = {key: record for key, record in pairs if packing.pack({key: record}) is not None}
        block = packing.pack(records)
    return ({}, b"") if block is None else (records, block)


def from_parts(packing: Packing[V], parts: Parts[V]) -> PackedMap[V]:
    """Return the map that was stored."""
    whole, packed, packed_bytes = dict(parts.whole), dict[int, bytes](), 0
    for block, keys in parts.blocks:
        marks = {packing.mark(key) for key in keys}
        if len(marks) == len(keys) and packed.keys().isdisjoint(marks):
            packed.update(dict.fromkeys(marks, block))
            packed_bytes += len(block)
        else:  # a mark is of this process alone
            records = packing.unpack(block)
            whole.update({key: records[key] for key in keys})
    return PackedMap(packing, HashTrieMap(whole), HashTrieMap(packed), packed_bytes)


class _Items(ItemsView[str, V]):
    _mapping: PackedMap[V]

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return self._mapping.pairs()


class _Values(ValuesView[V]):
    _mapping: PackedMap[V]

    def __iter__(self) -> Iterator[V]:
        return (record for _, record in self._mapping.pairs())
