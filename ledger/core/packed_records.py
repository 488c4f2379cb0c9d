"""Immutable collections of a fold: a map that packs its older records, and a set of keys in order. Pure.

The fold of a session has a record of every settled request, for ever, and most of them are never read again: the older
ones are kept encoded and compressed, each by itself, and decoded to be read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload
from zlib import crc32

import msgspec
from rpds import HashTrieMap

K = TypeVar("K", bound=tuple[Any, ...])

_Node: TypeAlias = "tuple[int, Any, Any, Any] | None"
"""A checksum, its key, and the nodes of smaller and of larger keys."""


class SortedKeys(Generic[K]):
    """Keys, which are tuples of numbers and texts."""

    __slots__ = ("_root",)

    def __init__(self, root: _Node = None) -> None:
        self._root = root

    def __bool__(self) -> bool:
        return self._root is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortedKeys) and bool(self._root == other._root)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SortedKeys({list(self)!r})"

    def __iter__(self) -> Iterator[K]:
        return _from(self._root, ())

    def add(self, key: K) -> SortedKeys[K]:
        """Return the set with a key, which it may have."""
        return SortedKeys(_added(self._root, crc32(repr(key).encode()), key))

    def discard(self, key: K) -> SortedKeys[K]:
        """Return the set without a key, which it may lack."""
        return SortedKeys(_removed(self._root, key))

    def first(self) -> K | None:
        """Return the smallest key."""
        node, key = self._root, None
        while node is not None:
            _, key, node, _ = node
        return key

    def since(self, least: tuple[Any, ...]) -> Iterator[K]:
        """Iterate in order over the keys that are not smaller than this one; a shorter tuple is before its longer ones."""
        return _from(self._root, least)


def _from(node: _Node, least: tuple[Any, ...]) -> Iterator[Any]:
    path: list[Any] = []
    while True:
        while node is not None:
            if node[1] < least:
                node = node[3]
            else:
                path.append(node)
                node = node[2]
        if not path:
            return
        node = path.pop()
        yield node[1]
        node = node[3]


def _added(node: _Node, sum_of_key: int, key: Any) -> _Node:
    if node is None:
        return sum_of_key, key, None, None
    top, own, smaller, larger = node
    if key == own:
        return node
    if (sum_of_key, key) < (top, own):
        before, after = _split(node, key)
        return sum_of_key, key, before, after
    if key < own:
        return top, own, _added(smaller, sum_of_key, key), larger
    return top, own, smaller, _added(larger, sum_of_key, key)


def _split(node: _Node, key: Any) -> tuple[_Node, _Node]:
    """Return the nodes of the keys before and after a key, which is none of them."""
    if node is None:
        return None, None
    top, own, smaller, larger = node
    if key < own:
        before, after = _split(smaller, key)
        return before, (top, own, after, larger)
    before, after = _split(larger, key)
    return (top, own, smaller, before), after


def _removed(node: _Node, key: Any) -> _Node:
    if node is None:
        return None
    top, own, smaller, larger = node
    if key == own:
        return _joined(smaller, larger)
    if key < own:
        return top, own, _removed(smaller, key), larger
    return top, own, smaller, _removed(larger, key)


def _joined(before: _Node, after: _Node) -> _Node:
    """Return one tree of two, all keys of the first of which are smaller."""
    if before is None or after is None:
        return after if before is None else before
    if before[:2] < after[:2]:
        return before[0], before[1], before[2], _joined(before[3], after)
    return after[0], after[1], _joined(before, after[2]), after[3]


T = TypeVar("T")
V = TypeVar("V")

WHOLE_MAX_COUNT: Final = 128
"""Records that are kept whole; with one more the older half of them is packed."""

ENTRY_BYTES: Final = 250
"""The room that a packed record takes besides its bytes: its key, and its place in the map."""

_LEVEL: Final = 3
_WINDOW: Final = -12
"""2**12 bytes, without a header or a checksum: nothing but this process, or a snapshot with a digest, keeps them."""

_MEMORY: Final = 5
_AGE_BYTES: Final = 6

_NO_RECORDS: Final[HashTrieMap[str, Any]] = HashTrieMap()


class IndexedMap(Mapping[str, V]):
    """Base of an immutable map of records by id, whose subclass keeps indexes beside it."""

    __slots__ = ("_by_id",)

    def __init__(self, by_id: HashTrieMap[str, V]) -> None:
        self._by_id = by_id

    def __getitem__(self, key: str) -> V:
        return self._by_id[key]

    def __contains__(self, key: object) -> bool:
        return key in self._by_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bool(self._by_id == other._by_id)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.values())!r})"

    def get(self, key: str, default: None = None) -> V | None:  # type: ignore[override]
        return self._by_id.get(key)

    def keys(self) -> KeysView[str]:
        return self._by_id.keys()

    def values(self) -> ValuesView[V]:
        return self._by_id.values()

    def items(self) -> ItemsView[str, V]:
        return self._by_id.items()


class Packing(Generic[V]):
    """The way to pack the records of one type, which have come from JSON. `age_of` orders them: the lowest is packed first.

    What a record has in common with the `usual` ones takes next to no room; the most frequent is the last of them.
    """

    def __init__(self, record: type[V], age_of: Callable[[V], int], whole_bytes: int, usual: Iterable[V]) -> None:
        self._decode: Callable[[bytes], V] = msgspec.json.Decoder(record).decode
        self.age_of = age_of
        self.whole_bytes = whole_bytes
        """The room that a usual record takes whole."""
        self._words = b"".join(map(msgspec.json.encode, usual))

    def pack(self, record: V) -> bytes:
        """Return a record as bytes that begin with its age."""
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, self._words)
        packed = packer.compress(msgspec.json.encode(record))
        return self.age_of(record).to_bytes(_AGE_BYTES, "big") + packed + packer.flush()

    def unpack(self, packed: bytes) -> V:
        """Return the record. Raises ValueError for bytes that hold none."""
        try:
            return self._decode(zlib.decompressobj(_WINDOW, self._words).decompress(packed[_AGE_BYTES:]))
        except zlib.error as error:
            raise ValueError(f"not a packed record: {error}") from error


class PackedRecords(Mapping[str, V]):
    """An immutable map: `insert`, `remove` and `replaced` return another one.

    The youngest records are whole: they are what is read and changed. The others are packed.
    """

    __slots__ = ("_bytes", "_packed", "_packing", "_whole")

    def __init__(
        self,
        packing: Packing[V],
        whole: HashTrieMap[str, V] = _NO_RECORDS,
        packed: HashTrieMap[str, bytes] = _NO_RECORDS,
        packed_bytes: int = 0,
    ) -> None:
        self._packing = packing
        self._whole = whole
        self._packed = packed
        self._bytes = packed_bytes

    @classmethod
    def of(cls, packing: Packing[V], packed: Mapping[str, bytes]) -> PackedRecords[V]:
        """Return the map of records that were packed."""
        return cls(packing, packed=HashTrieMap(packed), packed_bytes=sum(map(len, packed.values())))

    def packed(self) -> dict[str, bytes]:
        """Return all records packed."""
        pack = self._packing.pack
        return {**dict(_pairs(self._packed)), **{key: pack(record) for key, record in _pairs(self._whole)}}

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the room that the map takes."""
        return len(self._whole) * self._packing.whole_bytes + len(self._packed) * ENTRY_BYTES + self._bytes

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
        packed = self._packed.get(key)
        return default if packed is None else self._packing.unpack(packed)

    def __contains__(self, key: object) -> bool:
        return key in self._whole or key in self._packed

    def __len__(self) -> int:
        return len(self._whole) + len(self._packed)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in (*_pairs(self._packed), *_pairs(self._whole)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedRecords) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PackedRecords({dict(self.items())!r})"

    def items(self) -> ItemsView[str, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def pairs(self) -> Iterator[tuple[str, V]]:
        """Iterate over keys and records."""
        unpack = self._packing.unpack
        yield from ((key, unpack(packed)) for key, packed in _pairs(self._packed))
        yield from _pairs(self._whole)

    def newest(self, before: int | None = None) -> Iterator[V]:
        """Iterate over the records from the youngest to the oldest; `before` begins below an age.

        A packed record is unpacked when it is its turn.
        """
        age_of, unpack = self._packing.age_of, self._packing.unpack
        found: list[tuple[int, V | None, bytes]] = [(age_of(one), one, b"") for _, one in _pairs(self._whole)]
        found += [(_age_in(packed), None, packed) for _, packed in _pairs(self._packed)]
        found.sort(key=itemgetter(0), reverse=True)
        return (unpack(packed) if one is None else one for age, one, packed in found if before is None or age < before)

    def insert(self, key: str, record: V) -> PackedRecords[V]:
        """Return the map with this record, in place of an older one of the same key."""
        whole = self._whole.insert(key, record)
        packed, packed_bytes = self._without_packed(key) if self._packed else (self._packed, self._bytes)
        if len(whole) <= WHOLE_MAX_COUNT:
            return PackedRecords(self._packing, whole, packed, packed_bytes)
        aged = sorted(_pairs(whole), key=lambda pair: self._packing.age_of(pair[1]))
        for older, one in aged[: WHOLE_MAX_COUNT // 2]:
            as_bytes = self._packing.pack(one)
            packed, packed_bytes = packed.insert(older, as_bytes), packed_bytes + len(as_bytes)
            whole = whole.remove(older)
        return PackedRecords(self._packing, whole, packed, packed_bytes)

    def remove(self, key: str) -> PackedRecords[V]:
        """Return the map without a record. Raises KeyError for an unknown one."""
        if key in self._whole:
            return PackedRecords(self._packing, self._whole.remove(key), self._packed, self._bytes)
        if key not in self._packed:
            raise KeyError(key)
        return PackedRecords(self._packing, self._whole, *self._without_packed(key))

    def replaced(self, changed: Mapping[str, V]) -> PackedRecords[V]:
        """Return the map with these records in place of those of the same keys."""
        records = self
        for key, record in changed.items():
            records = records.insert(key, record)
        return records

    def _without_packed(self, key: str) -> tuple[HashTrieMap[str, bytes], int]:
        known = self._packed.get(key)
        return (self._packed, self._bytes) if known is None else (self._packed.remove(key), self._bytes - len(known))


def _pairs(records: HashTrieMap[str, T]) -> list[tuple[str, T]]:
    """Return keys and records, as `pickle` would have them.

    The map's own iterators take five to eighteen times as long: each step makes a map without the key that it returns.
    """
    reduced: Any = records.__reduce__()
    pairs: list[tuple[str, T]] = reduced[1][0]
    return pairs


def _age_in(packed: bytes) -> int:
    return int.from_bytes(packed[:_AGE_BYTES], "big")


class _Items(ItemsView[str, V]):
    _mapping: PackedRecords[V]

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return self._mapping.pairs()


class _Values(ValuesView[V]):
    _mapping: PackedRecords[V]

    def __iter__(self) -> Iterator[V]:
        return (record for _, record in self._mapping.pairs())
